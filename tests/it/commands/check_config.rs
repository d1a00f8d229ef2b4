//! What the program says about its settings, right and wrong ones.

use super::program::run;

#[test]
fn the_program_names_wrong_settings_and_exits_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let env = [
        ("ONCELEDGER_PREFETCH", "0"),
        ("DATABASE_URL", "postgres:u:geheim@h"),
    ];
    for command in ["serve", "check-config"] {
        let ended = run(folder.path(), &[command], &env);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(
            ended.err.contains("ONCELEDGER_PREFETCH: \"0\" given"),
            "{ended:?}"
        );
        assert!(
            ended.err.contains("DATABASE_URL: ") && !ended.err.contains("geheim"),
            "{ended:?}"
        );
    }
    assert_eq!(
        run(folder.path(), &["serve", "--no-such-flag"], &[]).code,
        Some(2)
    );
    let missing = run(
        folder.path(),
        &["check-config", "--config", "none.toml"],
        &[],
    );
    assert_eq!(missing.code, Some(2));
    assert!(
        missing
            .err
            .contains("--config: \"none.toml\" given; a file that can be read"),
        "{missing:?}"
    );
}

#[test]
fn check_config_shows_what_is_in_force_and_where_it_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("onceledger.toml"), "lanes = 4\n").unwrap();
    let env = [
        ("AMQP_URL", "amqp://u:geheim@h/v"),
        ("ONCELEDGER_PREFETCH", "9"),
    ];
    let ended = run(folder.path(), &["check-config", "--batch-max", "7"], &env);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for line in [
        "amqp_url = \"amqp://u:***@h/v\"  # AMQP_URL",
        "prefetch = 9  # ONCELEDGER_PREFETCH",
        "batch_max = 7  # --batch-max",
        "lanes = 4  # onceledger.toml line 1: lanes",
        "sweep_secs = 5  # default",
        "name = \"onceledger.events\"",
    ] {
        assert!(ended.out.contains(line), "{line}: {}", ended.out);
    }
}
