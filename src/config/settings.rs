//! Every setting there is, a line each: its name in the file, its variable, its
//! flag, its default and what it does.
//!
//! What lives here: the names, and the flags that clap makes of them. What must
//! not: values and their checks (they are in the modules beside).

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

/// One setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its key in the file.
    pub(crate) key: &'static str,
    /// Its flag, without the dashes before it.
    pub(crate) flag: &'static str,
    /// Its environment variable.
    pub(crate) env: &'static str,
    /// Its default, for people.
    pub(crate) default: &'static str,
    group: u16,
    /// What stands for its value in the help; empty: a switch.
    value: &'static str,
    help: &'static str,
}

/// Settings of the database.
pub const DATABASE: u16 = 1;
/// Settings of the broker and its queues.
pub const QUEUES: u16 = 1 << 1;
/// Settings of HTTP.
pub const HTTP: u16 = 1 << 2;
/// How events are written.
pub const WRITING: u16 = 1 << 3;
/// How parked events are treated.
pub const PARKING: u16 = 1 << 4;
/// Limits on what is taken.
pub const LIMITS: u16 = 1 << 5;
/// What is told.
pub const LOGS: u16 = 1 << 6;
/// What only a running service needs.
pub const SERVICE: u16 = 1 << 7;
/// All of them.
pub const ALL: u16 = u16::MAX;

const HEADINGS: [(u16, &str); 8] = [
    (DATABASE, "Database"),
    (QUEUES, "Queues"),
    (HTTP, "HTTP"),
    (WRITING, "Writing"),
    (PARKING, "Parked events"),
    (LIMITS, "Limits"),
    (LOGS, "Logs"),
    (SERVICE, "Service"),
];

#[rustfmt::skip]
pub(crate) const SETTINGS: &[Setting] = &[
    setting("database_url", "database-url", "DATABASE_URL", "sqlite://onceledger.db", DATABASE, "URL",
        "Where the books are kept: postgres://USER:PASSWORD@HOST/DB, or sqlite://FILE"),
    setting("no_migrate", "no-migrate", "ONCELEDGER_NO_MIGRATE", "", SERVICE, "",
        "Only check the schema's version at start, do not bring it up to date"),
    setting("amqp_url", "amqp-url", "AMQP_URL", "none: no queue is consumed", QUEUES, "URL",
        "The broker: amqp://USER:PASSWORD@HOST/VHOST, or amqps://…"),
    setting("amqp_prefix", "amqp-prefix", "ONCELEDGER_AMQP_PREFIX", "onceledger", QUEUES, "NAME",
        "First part of every exchange and queue name that the service declares"),
    setting("queues", "queues", "ONCELEDGER_QUEUES", "events={prefix}.events", QUEUES, "SOURCE=QUEUE,…",
        "Queues to consume; details of a queue stand in the file, under [[queue]]"),
    setting("prefetch", "prefetch", "ONCELEDGER_PREFETCH", "2000", QUEUES, "1..2000",
        "Most unacknowledged deliveries of one queue"),
    setting("http_addr", "http-addr", "ONCELEDGER_HTTP_ADDR", "127.0.0.1:8080", HTTP, "HOST:PORT",
        "Where HTTP is served; a loopback address unless --insecure"),
    setting("insecure", "insecure", "ONCELEDGER_INSECURE", "", SERVICE, "",
        "Serve on any address although every caller may then do everything"),
    setting("lanes", "lanes", "ONCELEDGER_LANES", "3 on PostgreSQL, 1 on SQLite", WRITING, "1..64",
        "How many accounts are written side by side"),
    setting("batch_max", "batch-max", "ONCELEDGER_BATCH_MAX", "500", WRITING, "1..5000",
        "Most events in one transaction"),
    setting("batch_linger_ms", "batch-linger-ms", "ONCELEDGER_BATCH_LINGER_MS", "0", WRITING, "0..1000",
        "How long a batch that is not full waits for more, in milliseconds"),
    setting("sweep_secs", "sweep-secs", "ONCELEDGER_SWEEP_SECS", "5", PARKING, "SECONDS",
        "How often the sweeper looks after what waits"),
    setting("park_limit_secs", "park-limit-secs", "ONCELEDGER_PARK_LIMIT_SECS", "86400", PARKING, "SECONDS",
        "How long an event may wait for its account or for earlier versions"),
    setting("expiry_grace_secs", "expiry-grace-secs", "ONCELEDGER_EXPIRY_GRACE_SECS", "600", PARKING, "SECONDS",
        "How long after a start or a broker outage nothing expires"),
    setting("event_bytes_max", "event-bytes-max", "ONCELEDGER_EVENT_BYTES_MAX", "65536", LIMITS, "BYTES",
        "Most bytes of one event"),
    setting("body_bytes_max", "body-bytes-max", "ONCELEDGER_BODY_BYTES_MAX", "16777216", HTTP, "BYTES",
        "Most bytes of the body of one HTTP request"),
    setting("log", "log", "ONCELEDGER_LOG", "info,lapin=off,sqlx=error, or what RUST_LOG says", LOGS, "FILTER",
        "What is logged: error, warn, info, debug, or a filter such as info,onceledger=debug"),
    setting("log_format", "log-format", "ONCELEDGER_LOG_FORMAT", "text", LOGS, "text|json",
        "How it is logged, on standard error"),
];

/// Settings of the contract that this version can't honour yet: their variable,
/// and what a person who sets one must know. They are refused, never ignored.
pub(crate) const LATER: &[(&str, &str, &str)] = &[
    (
        "api_keys_file",
        "ONCELEDGER_API_KEYS_FILE",
        "this version has no API keys yet; leave it unset and serve on a loopback address",
    ),
    (
        "outcomes_exchange",
        "ONCELEDGER_OUTCOMES_EXCHANGE",
        OUTCOMES_LATER,
    ),
    (
        "gap_notice_secs",
        "ONCELEDGER_GAP_NOTICE_SECS",
        OUTCOMES_LATER,
    ),
    (
        "outbox_max_attempts",
        "ONCELEDGER_OUTBOX_MAX_ATTEMPTS",
        OUTCOMES_LATER,
    ),
    (
        "outbox_retry_ms",
        "ONCELEDGER_OUTBOX_RETRY_MS",
        OUTCOMES_LATER,
    ),
    (
        "outbox_retention_secs",
        "ONCELEDGER_OUTBOX_RETENTION_SECS",
        OUTCOMES_LATER,
    ),
    (
        "confirm_timeout_ms",
        "ONCELEDGER_CONFIRM_TIMEOUT_MS",
        OUTCOMES_LATER,
    ),
    (
        "letter_retention_secs",
        "ONCELEDGER_LETTER_RETENTION_SECS",
        "this version keeps every dead letter; leave it unset",
    ),
];

/// What is said about everything that sends outcome messages.
pub(crate) const OUTCOMES_LATER: &str =
    "outcome messages come with a later version; leave it unset";

const fn setting(
    key: &'static str,
    flag: &'static str,
    env: &'static str,
    default: &'static str,
    group: u16,
    value: &'static str,
    help: &'static str,
) -> Setting {
    Setting {
        key,
        flag,
        env,
        default,
        group,
        value,
        help,
    }
}

impl Setting {
    /// The setting of this key.
    pub(crate) fn named(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// Whether it takes no value as a flag.
    pub(crate) fn is_switch(&self) -> bool {
        self.value.is_empty()
    }

    fn heading(&self) -> &'static str {
        HEADINGS
            .iter()
            .find(|(group, _)| *group == self.group)
            .map_or("Options", |(_, heading)| heading)
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.key)
            .long(self.flag)
            .help_heading(self.heading());
        if self.is_switch() {
            return arg
                .action(ArgAction::SetTrue)
                .help(format!("{} [env: {}]", self.help, self.env));
        }
        arg.action(ArgAction::Set)
            .value_name(self.value)
            .allow_hyphen_values(true)
            .help(format!(
                "{} [env: {}] [default: {}]",
                self.help, self.env, self.default
            ))
    }
}

/// The flags that a command takes: those of some groups of settings.
#[derive(Clone, Debug, Default)]
pub struct Flags<const GROUPS: u16>(pub Given);

/// What was given as flags.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// Values by key.
    pub values: BTreeMap<&'static str, String>,
}

impl<const GROUPS: u16> Args for Flags<GROUPS> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help_heading("Settings")
            .help(
                "The file with settings; flags and the environment go before it \
                 [env: ONCELEDGER_CONFIG] [default: onceledger.toml, where it exists]",
            );
        let settings = SETTINGS.iter().filter(|s| s.group & GROUPS != 0);
        command.arg(config).args(settings.map(Setting::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const GROUPS: u16> FromArgMatches for Flags<GROUPS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Given {
            config: matches.get_one::<PathBuf>("config").cloned(),
            values: BTreeMap::new(),
        };
        for setting in SETTINGS.iter().filter(|s| s.group & GROUPS != 0) {
            if setting.is_switch() {
                if matches.get_flag(setting.key) {
                    given.values.insert(setting.key, "true".to_owned());
                }
            } else if let Some(value) = matches.get_one::<String>(setting.key) {
                given.values.insert(setting.key, value.clone());
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
