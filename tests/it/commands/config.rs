//! Settings: precedence, defaults, and what is said about wrong ones.

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
        (1_000, 500, 0)
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
fn postgres_has_two_lanes() {
    let config = good(&[("DATABASE_URL", "postgres://u@h/d")], "").config;
    assert_eq!(config.lanes, 2);
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
fn a_wrong_setting_is_named_with_what_was_given_and_what_is_allowed() {
    let long = "x".repeat(256);
    let cases: &[(&str, &str, &str)] = &[
        (
            "ONCELEDGER_PREFETCH",
            "0",
            "\"0\" given; a whole number from 1 to 2000 is allowed",
        ),
        ("ONCELEDGER_PREFETCH", "2001", "from 1 to 2000"),
        (
            "ONCELEDGER_PREFETCH",
            "many",
            "\"many\" given; a whole number is allowed",
        ),
        ("ONCELEDGER_PREFETCH", "-1", "a whole number is allowed"),
        ("ONCELEDGER_BATCH_MAX", "5001", "from 1 to 5000"),
        ("ONCELEDGER_BATCH_MAX", "0", "from 1 to 5000"),
        ("ONCELEDGER_BATCH_LINGER_MS", "1001", "from 0 to 1000"),
        ("ONCELEDGER_LANES", "65", "from 1 to 64"),
        ("ONCELEDGER_SWEEP_SECS", "0", "from 1 to 3600"),
        ("ONCELEDGER_PARK_LIMIT_SECS", "0", "from 1 to 315360000"),
        (
            "ONCELEDGER_EXPIRY_GRACE_SECS",
            "315360001",
            "from 0 to 315360000",
        ),
        ("ONCELEDGER_EVENT_BYTES_MAX", "0", "from 256 to 16777216"),
        (
            "ONCELEDGER_BODY_BYTES_MAX",
            "1000",
            "must be at least event_bytes_max, which is 65536",
        ),
        (
            "ONCELEDGER_HTTP_ADDR",
            "0.0.0.0:8080",
            "only a loopback address",
        ),
        (
            "ONCELEDGER_HTTP_ADDR",
            "8080",
            "an address and a port are allowed",
        ),
        ("ONCELEDGER_INSECURE", "yes", "true or false is allowed"),
        (
            "ONCELEDGER_LOG",
            "onceledger=loud",
            "a level (error, warn, info, debug, trace)",
        ),
        ("ONCELEDGER_LOG_FORMAT", "xml", "text or json is allowed"),
        ("ONCELEDGER_AMQP_PREFIX", "a b", "1 to 200 characters"),
        ("ONCELEDGER_AMQP_PREFIX", "amq.x", "the broker's"),
        (
            "ONCELEDGER_QUEUES",
            "orders",
            "\"orders\" given; a comma list of source=queue",
        ),
        ("ONCELEDGER_QUEUES", "a=q,b=q", "a queue is named once"),
        ("ONCELEDGER_QUEUES", "=q", "a source has 1 to 255 bytes"),
        (
            "ONCELEDGER_QUEUES",
            "a=",
            "a queue's name has 1 to 255 bytes",
        ),
        (
            "ONCELEDGER_QUEUES",
            "onceledger.x=q",
            "begins with \"onceledger\" is the service's own",
        ),
        (
            "ONCELEDGER_QUEUES",
            "a=onceledger.dead",
            "the service's own",
        ),
        (
            "ONCELEDGER_QUEUES",
            &format!("{long}=q"),
            "a source has 1 to 255 bytes",
        ),
        (
            "DATABASE_URL",
            "mysql://h/d",
            "postgres://USER:PASSWORD@HOST:PORT/DATABASE or sqlite://FILE",
        ),
        ("DATABASE_URL", "sqlite://", "sqlite://FILE"),
        (
            "AMQP_URL",
            "http://h",
            "amqp://USER:PASSWORD@HOST:PORT/VHOST",
        ),
        (
            "ONCELEDGER_API_KEYS_FILE",
            "keys.toml",
            "this version has no API keys yet",
        ),
        (
            "ONCELEDGER_OUTCOMES_EXCHANGE",
            "o",
            "outcome messages come with a later version",
        ),
        (
            "ONCELEDGER_GAP_NOTICE_SECS",
            "60",
            "outcome messages come with a later version",
        ),
        (
            "ONCELEDGER_LETTER_RETENTION_SECS",
            "60",
            "keeps every dead letter",
        ),
    ];
    for (name, value, said) in cases {
        let invalid = bad(&[(name, value)], "");
        assert_eq!(invalid.0.len(), 1, "{name}={value}: {invalid}");
        let text = invalid.0[0].to_string();
        assert!(text.starts_with(name), "{name}={value}: {text}");
        assert!(text.contains(said), "{name}={value}: {text}");
    }
}

#[test]
fn a_wrong_file_is_told_with_the_line() {
    let cases: &[(&str, &str)] = &[
        (
            "prefetch = 1\nprefech = 2",
            "onceledger.toml line 2: prefech: no such key; allowed are database_url, ",
        ),
        (
            "[[queue]]\nname = \"q\"\nsorce = \"a\"",
            "onceledger.toml line 3: sorce: no such key; allowed are name, source, scope",
        ),
        ("\n\nprefetch = ", "onceledger.toml line 3: no TOML: "),
        (
            "prefetch = 1.5",
            "onceledger.toml line 1: prefetch: a text, a whole number or true/false is allowed, not a float",
        ),
        (
            "prefetch = 0",
            "onceledger.toml line 1: prefetch: \"0\" given; a whole number from 1 to 2000",
        ),
        (
            "[queue]\nname = \"q\"",
            "onceledger.toml line 1: queue: queues are written as [[queue]]",
        ),
        (
            "[[queue]]\nsource = \"q\"",
            "onceledger.toml line 1: queue.name: each [[queue]] needs the name",
        ),
        (
            "[[queue]]\nname = \"q\"\ntype = \"opening\"",
            "onceledger.toml line 3: queue.type: \"opening\" given; debit or credit",
        ),
        (
            "[[queue]]\nname = \"q\"\nprefetch = 2001",
            "onceledger.toml line 3: queue.prefetch: \"2001\" given; a whole number from 1 to 2000",
        ),
        (
            "[[queue]]\nname = \"q\"\ndeclare = 2",
            "onceledger.toml line 3: queue.declare: \"2\" given; true or false",
        ),
        (
            "[[queue]]\nname = \"q\"\nreply = true",
            "onceledger.toml line 3: queue.reply: \"true\" given; outcome messages come with a later version",
        ),
        (
            "[[queue]]\nname = \"q\"\nscope = \"onceledger\"",
            "onceledger.toml line 1: queue, scope: \"onceledger\" given; a scope that begins with \"onceledger\"",
        ),
        (
            "[[queue]]\nname = \"q\"\ntenant = \"\"",
            "onceledger.toml line 1: queue, tenant: \"\" given; a tenant has 1 to 128 bytes",
        ),
        (
            "[[queue]]\nname = \"amq.q\"\nsource = \"a\"\ndeclare = true",
            "the broker lets nobody declare",
        ),
        (
            "[[queue]]\nname = \"q\"\n[[queue]]\nname = \"q\"",
            "onceledger.toml line 3: queue: \"q\" given; a queue is named once; it stands at onceledger.toml line 1: queue too",
        ),
        (
            "outcomes_exchange = \"x\"",
            "onceledger.toml line 1: outcomes_exchange: \"x\" given; outcome messages",
        ),
    ];
    for (file, said) in cases {
        let text = bad(&[], file).to_string();
        assert!(text.contains(said), "{file:?}: {text}");
        assert!(
            text.starts_with("one setting can't be used:"),
            "{file:?}: {text}"
        );
    }
}

#[test]
fn scope_and_source_fit_into_one_identity_together() {
    let file = format!(
        "[[queue]]\nname = \"q\"\nscope = \"{0}\"\nsource = \"{0}\"",
        "x".repeat(128)
    );
    assert!(
        bad(&[], &file)
            .to_string()
            .contains("at most 255 bytes together")
    );
}

#[test]
fn every_problem_is_told_at_once() {
    let env = [
        ("ONCELEDGER_PREFETCH", "0"),
        ("ONCELEDGER_LANES", "x"),
        ("ONCELEDGER_HTTP_ADDR", "0.0.0.0:1"),
    ];
    let invalid = bad(&env, "nonsense = 1\nsweep_secs = 0");
    assert_eq!(invalid.0.len(), 5, "{invalid}");
    assert!(invalid.to_string().starts_with("5 settings can't be used:"));
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
