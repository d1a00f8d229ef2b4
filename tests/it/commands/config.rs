//! Settings: precedence, defaults, and who is kept from what.

mod refused;

use std::collections::BTreeMap;

use onceledger::{
    config::{Given, Invalid, Loaded, LogFormat, Purpose, Sources, resolve},
    domain::Kind,
};

/// Settings from variables and a file.
fn sources(env: &[(&str, &str)], file: &str) -> Sources {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Sources {
        flags: Given::default(),
        env: env.iter().map(pair).collect(),
        file: Some(("onceledger.toml".to_owned(), file.to_owned())),
    }
}

fn good(env: &[(&str, &str)], file: &str) -> Loaded {
    resolve(&sources(env, file), Purpose::Serve).unwrap()
}

fn bad(env: &[(&str, &str)], file: &str) -> Invalid {
    resolve(&sources(env, file), Purpose::Serve).unwrap_err()
}

#[test]
fn without_any_setting_the_defaults_hold() {
    let config = good(&[], "").config;
    assert_eq!(&*config.database_url, "sqlite://onceledger.db");
    assert!(config.amqp_url.is_none());
    assert_eq!(config.http_addr.to_string(), "127.0.0.1:8080");
    let queue = &config.queues[0];
    assert_eq!(
        (&*queue.source, &*queue.name),
        ("events", "onceledger.events")
    );
    assert_eq!(&*queue.tenant, "default");
    assert_eq!(
        (config.prefetch, config.batch_max, config.batch_linger_ms),
        (2_000, 500, 0)
    );
    assert_eq!((config.lanes, config.sweep_secs), (1, 5));
    assert_eq!(
        (config.park_limit_secs, config.expiry_grace_secs),
        (86_400, 600)
    );
    assert_eq!(
        (config.event_bytes_max, config.body_bytes_max),
        (65_536, 16_777_216)
    );
    assert!(config.migrate && !config.insecure);
    assert_eq!(
        (config.log.as_str(), config.log_format),
        ("info,lapin=off,sqlx=error", LogFormat::Text)
    );
}

#[test]
fn postgres_has_three_lanes() {
    let config = good(&[("DATABASE_URL", "postgres://u@h/d")], "").config;
    assert_eq!(config.lanes, 3);
}

#[test]
fn flags_go_before_the_environment_and_that_before_the_file() {
    let file = "prefetch = 1\nbatch_max = 1\nlanes = \"3\"\n";
    let mut sources = sources(
        &[("ONCELEDGER_PREFETCH", "2"), ("ONCELEDGER_BATCH_MAX", "2")],
        file,
    );
    sources.flags.values = BTreeMap::from([("prefetch", "3".to_owned())]);
    let config = resolve(&sources, Purpose::Serve).unwrap().config;
    assert_eq!((config.prefetch, config.batch_max, config.lanes), (3, 2, 3));
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let config = good(
        &[("AMQP_URL", ""), ("ONCELEDGER_PREFETCH", "")],
        "prefetch = 7",
    )
    .config;
    assert!(config.amqp_url.is_none());
    assert_eq!(config.prefetch, 7);
}

#[test]
fn rust_log_counts_where_our_own_variable_is_not_set() {
    assert_eq!(good(&[("RUST_LOG", "debug")], "").config.log, "debug");
    let both = [("RUST_LOG", "debug"), ("ONCELEDGER_LOG", "warn")];
    assert_eq!(good(&both, "").config.log, "warn");
}

#[test]
fn queues_have_their_details_in_the_file() {
    let file = r#"
        [[queue]]
        name = "shop.orders"
        source = "orders"
        scope = "fees"
        tenant = "acme"
        type = "credit"
        prefetch = 20
        declare = true

        [[queue]]
        name = "{prefix}.events"
    "#;
    let config = good(&[("ONCELEDGER_AMQP_PREFIX", "led")], file).config;
    let queue = &config.queues[0];
    assert_eq!((&*queue.name, &*queue.source), ("shop.orders", "orders"));
    assert_eq!(
        (queue.scope.as_deref(), &*queue.tenant),
        (Some("fees"), "acme")
    );
    assert_eq!(
        (queue.kind, queue.prefetch, queue.declare),
        (Some(Kind::Credit), Some(20), Some(true))
    );
    assert_eq!(
        (&*config.queues[1].name, &*config.queues[1].source),
        ("led.events", "led.events")
    );

    let listed = [("ONCELEDGER_QUEUES", "o2=shop.orders, extra = other")];
    let loaded = good(&listed, file);
    let names: Vec<_> = loaded
        .config
        .queues
        .iter()
        .map(|q| (&*q.source, &*q.name))
        .collect();
    assert_eq!(names, [("o2", "shop.orders"), ("extra", "other")]);
    assert_eq!(
        loaded.config.queues[0].scope.as_deref(),
        Some("fees"),
        "the details stay"
    );
    assert!(
        loaded.warnings[0].contains("\"onceledger.events\" is not consumed"),
        "{:?}",
        loaded.warnings
    );
}

#[test]
fn what_is_allowed_and_perhaps_not_meant_is_warned_of() {
    let loaded = good(
        &[
            ("ONCELEDGER_QUEUES", "a=q1,a=q2"),
            ("ONCELEDGER_PREFECH", "1"),
        ],
        "",
    );
    let warnings = loaded.warnings.join("\n");
    assert!(warnings.contains("ONCELEDGER_PREFECH is set"), "{warnings}");
    assert!(
        warnings.contains("queues \"q1\" and \"q2\" both give their events the source \"a\""),
        "{warnings}"
    );
    let kubernetes = [
        ("ONCELEDGER_PORT", "tcp://1.2.3.4"),
        ("ONCELEDGER_SERVICE_HOST", "1.2.3.4"),
    ];
    assert_eq!(good(&kubernetes, "").warnings, Vec::<String>::new());
}

#[test]
fn what_only_looks_is_not_kept_from_it_by_settings_of_the_service() {
    let env = [
        ("ONCELEDGER_HTTP_ADDR", "0.0.0.0:1"),
        ("ONCELEDGER_API_KEYS_FILE", "k"),
        ("ONCELEDGER_OUTCOMES_EXCHANGE", "x"),
    ];
    let sources = sources(&env, "");
    assert!(resolve(&sources, Purpose::Look).is_ok());
    let writing = resolve(&sources, Purpose::Write).unwrap_err().to_string();
    assert!(
        writing.contains("OUTCOMES_EXCHANGE") && !writing.contains("API_KEYS"),
        "{writing}"
    );
}

#[test]
fn a_password_is_shown_nowhere() {
    let urls = [
        ("DATABASE_URL", "postgres://u:geheim@h/d"),
        ("AMQP_URL", "amqp://u:geheim@h"),
    ];
    let loaded = good(&urls, "");
    let shown = format!("{loaded:?}");
    assert!(
        shown.contains("u:***@h") && !shown.contains("geheim"),
        "{shown}"
    );
    let wrong = [
        ("DATABASE_URL", "postgres://u:ge/heim@h/d"),
        ("AMQP_URL", "amqp://u:ge#heim@h"),
    ];
    let said = bad(&wrong, "").to_string();
    assert!(
        said.contains("DATABASE_URL") && said.contains("AMQP_URL"),
        "{said}"
    );
    assert!(!said.contains("heim"), "{said}");
}
