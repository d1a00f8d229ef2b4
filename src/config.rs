//! The settings of a running service: from flags, then the environment, then
//! `onceledger.toml`; checked as a whole before anything starts.
//!
//! What lives here: what can be set, and the only reading of the environment.
//! What must not: anything that acts on a setting.

mod file;
mod layers;
mod problem;
mod queues;
mod resolve;
mod secret;
mod settings;

use std::{collections::BTreeMap, net::SocketAddr, path::Path, sync::Arc};

pub use problem::{Invalid, Problem};
pub use secret::{SecretUrl, redacted};
pub use settings::{
    ALL, DATABASE, Flags, Given, HTTP, LIMITS, LOGS, PARKING, QUEUES, SERVICE, WRITING,
};

use crate::domain::Kind;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// `sqlite://FILE` or `postgres://…`.
    pub database_url: SecretUrl,
    /// `amqp://…` or `amqps://…`; `None`: no queue is consumed.
    pub amqp_url: Option<SecretUrl>,
    /// Where HTTP is served.
    pub http_addr: SocketAddr,
    /// Serve on an address that is not loopback without API keys.
    pub insecure: bool,
    /// First part of every exchange and queue name that the service declares.
    pub amqp_prefix: String,
    /// The queues to consume.
    pub queues: Vec<QueueConfig>,
    /// Most unacknowledged deliveries of one queue.
    pub prefetch: u16,
    /// Most asks in one transaction.
    pub batch_max: usize,
    /// How long a batch that is not full waits for more, in milliseconds; 0: not at all.
    pub batch_linger_ms: u64,
    /// How many lanes write side by side.
    pub lanes: usize,
    /// The sweeper's interval, in seconds.
    pub sweep_secs: u64,
    /// How long an event may stay parked, in seconds.
    pub park_limit_secs: u64,
    /// How long after a start or an outage nothing expires, in seconds.
    pub expiry_grace_secs: u64,
    /// Most bytes of one event.
    pub event_bytes_max: usize,
    /// Most bytes of one HTTP request's body.
    pub body_bytes_max: usize,
    /// Apply migrations at start.
    pub migrate: bool,
    /// What is logged, as a filter of `tracing`.
    pub log: String,
    /// How it is logged.
    pub log_format: LogFormat,
}

/// One queue to consume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// The queue's name at the broker.
    pub name: Arc<str>,
    /// The source of what it carries, where the messages do not say.
    pub source: Arc<str>,
    /// Put before the source.
    pub scope: Option<Arc<str>>,
    /// Whose ledger it feeds.
    pub tenant: Arc<str>,
    /// What a message means where it does not say.
    pub kind: Option<Kind>,
    /// Most unacknowledged deliveries; `None`: the general setting.
    pub prefetch: Option<u16>,
    /// Whether to declare it; `None`: only the service's own queue is declared.
    pub declare: Option<bool>,
}

/// How logs are written.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::Display,
)]
#[strum(serialize_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What the settings are wanted for. Only what bears on that is checked, so that
/// `verify` works beside a service whatever that one's address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The whole service.
    Serve,
    /// Writing events without the service.
    Write,
    /// Looking, or bringing the schema up to date.
    Look,
}

/// The settings in force, and where each comes from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Each setting as it may be shown.
    pub shown: Vec<Shown>,
    /// What is allowed, and yet perhaps not meant.
    pub warnings: Vec<String>,
}

/// One setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its key in the file.
    pub key: &'static str,
    /// Its value as it stands in a TOML file, without passwords.
    pub value: String,
    /// Where it comes from.
    pub origin: String,
}

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The flags.
    pub flags: Given,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The file's name and text, where there is one.
    pub file: Option<(String, String)>,
}

/// The file that is used where it exists and none is named.
const FILE: &str = "onceledger.toml";

/// Reads and checks all settings.
///
/// # Errors
/// [`Invalid`], with every problem at once.
pub fn load(flags: &Given, purpose: Purpose) -> Result<Loaded, Invalid> {
    let env = environment();
    let named = flags
        .config
        .clone()
        .map(|path| ("--config", path))
        .or_else(|| {
            let path = env
                .get("ONCELEDGER_CONFIG")
                .filter(|path| !path.is_empty())?;
            Some(("ONCELEDGER_CONFIG", path.into()))
        });
    let file = match named {
        Some((setting, path)) => Some(read(setting, &path)?),
        None if Path::new(FILE).exists() => Some(read(FILE, Path::new(FILE))?),
        None => None,
    };
    let sources = Sources {
        flags: flags.clone(),
        env,
        file,
    };
    resolve::resolve(&sources, purpose)
}

/// Checks settings from given sources.
///
/// # Errors
/// [`Invalid`], with every problem at once.
pub fn resolve(sources: &Sources, purpose: Purpose) -> Result<Loaded, Invalid> {
    resolve::resolve(sources, purpose)
}

fn read(setting: &str, path: &Path) -> Result<(String, String), Invalid> {
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Invalid(vec![Problem {
            setting: setting.to_owned(),
            given: Some(name),
            allowed: format!("a file that can be read is needed: {error}"),
        }])),
    }
}

/// The environment, read here and nowhere else.
#[expect(clippy::disallowed_methods, reason = "this is the environment's home")]
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .map(|(name, value)| {
            let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
            (text(name), text(value))
        })
        .collect()
}
