//! What must be absent from the code, read from the code.

use std::{fs, path::Path};

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push((
                path.display().to_string(),
                fs::read_to_string(&path).unwrap(),
            ));
        }
    }
}

fn under(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
        &mut found,
    );
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

#[test]
fn the_rules_know_no_machine() {
    for (file, text) in under("src/domain") {
        for word in [
            "sqlx",
            "lapin",
            "axum",
            "tokio",
            "async ",
            "SystemTime",
            "now_utc",
            "now_v7",
        ] {
            assert!(!text.contains(word), "{file} speaks of {word}");
        }
    }
}

#[test]
fn decoding_knows_no_machine() {
    for (file, text) in under("src/envelope") {
        for word in ["sqlx", "lapin", "axum", "tokio", "async "] {
            assert!(!text.contains(word), "{file} speaks of {word}");
        }
    }
}

#[test]
fn every_file_says_what_lives_in_it() {
    for folder in ["src", "tests", "examples"] {
        for (file, text) in under(folder) {
            assert!(text.starts_with("//!"), "{file} does not begin with //!");
        }
    }
}
