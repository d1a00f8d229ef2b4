//! The settings of a running service: from flags, then the environment, then
//! `onceledger.toml`; checked as a whole before anything starts.

use std::{net::SocketAddr, sync::Arc};

use crate::domain::Kind;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// `sqlite://FILE` or `postgres://…`.
    pub database_url: String,
    /// `amqp://…` or `amqps://…`; `None`: no queue is consumed.
    pub amqp_url: Option<String>,
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
