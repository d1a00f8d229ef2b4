//! Logs, on standard error: for people, or one JSON object a line.
//!
//! What lives here: how logs are written. What must not: what is logged, and
//! figures (they are metrics).

use std::io::{IsTerminal, stderr};

use anyhow::Context;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, fmt,
    layer::{Layered, SubscriberExt},
    util::SubscriberInitExt,
};

use crate::config::LogFormat;

/// The filter stands before the lines and not on them: a filter of one layer keeps what
/// it answered last, and where somebody only asks whether an event would be wanted, as
/// sqlx does, the next line of that thread went missing with the one not wanted.
type Filtered = Layered<EnvFilter, Registry>;

/// Begins to write logs. Once for a process.
///
/// # Errors
/// Where the filter is none, or logs are written already.
pub fn start(filter: &str, format: LogFormat) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).context("the log filter can't be read")?;
    let lines = fmt::layer()
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    let lines: Box<dyn Layer<Filtered> + Send + Sync> = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .context("logs are written already")
}
