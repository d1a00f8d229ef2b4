//! The OpenAPI document in `openapi/` is the one that the service serves.

use std::{fs, path::Path};

use onceledger::http::openapi_json;
use serde_json::Value;

const UPDATE: &str = "UPDATE_OPENAPI";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "how to write the file anew, only the environment says"
)]
fn the_committed_document_is_what_the_routes_say() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/openapi.json");
    let now = openapi_json().unwrap();
    if std::env::var_os(UPDATE).is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &now).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == now,
        "openapi/openapi.json is not what the routes say any more. Write it anew and look at what changed:\n\
         {UPDATE}=1 cargo test --test it openapi && git diff openapi"
    );
}

#[test]
fn every_answer_is_described_and_every_reference_leads_somewhere() {
    let document: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations += 1;
            assert!(operation["operationId"].is_string(), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let description = response["description"].as_str().unwrap_or_default();
                assert!(!description.is_empty(), "{method} {path} {status}");
            }
        }
    }
    assert!(operations >= 15, "{operations}");
    check_references(&document, &document);
}

fn check_references(document: &Value, at: &Value) {
    match at {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(
                    document.pointer(pointer).is_some(),
                    "{reference} leads nowhere"
                );
            }
            members
                .values()
                .for_each(|value| check_references(document, value));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|value| check_references(document, value)),
        _ => {}
    }
}
