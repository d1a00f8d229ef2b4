//! What is said about wrong settings: which, what was given, what is allowed.

use super::bad;

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
            "onceledger.toml line 3: queue.scope: \"onceledger\" given; a scope that begins with \"onceledger\"",
        ),
        (
            "[[queue]]\nname = \"q\"\ntenant = \"\"",
            "onceledger.toml line 3: queue.tenant: \"\" given; a tenant has 1 to 128 bytes",
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
