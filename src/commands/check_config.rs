//! `onceledger check-config`: all settings, checked and shown.

use std::process::ExitCode;

use clap::Args;

use super::output::print;
use crate::config::{self, ALL, Flags, Purpose, QueueConfig};

/// Check all settings and show those in force, each with where it comes from
///
/// Checks what `serve` would check, without a database and a broker. Passwords
/// are not shown. What is printed can stand in onceledger.toml.
///
/// Example:
///   ONCELEDGER_PREFETCH=200 onceledger check-config --config production.toml
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct CheckConfig {
    #[command(flatten)]
    flags: Flags<ALL>,
}

impl CheckConfig {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let loaded = config::load(&self.flags.0, Purpose::Serve)?;
        for warning in &loaded.warnings {
            eprintln!("warning: {warning}");
        }
        let mut text = String::new();
        for shown in &loaded.shown {
            text += &format!("{} = {}  # {}\n", shown.key, shown.value, shown.origin);
        }
        for queue in &loaded.config.queues {
            text += &entry(queue);
        }
        print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A queue as it stands in the file.
fn entry(queue: &QueueConfig) -> String {
    let quoted = |text: &str| format!("{text:?}");
    [
        ("name", Some(quoted(&queue.name))),
        ("source", Some(quoted(&queue.source))),
        ("scope", queue.scope.as_deref().map(quoted)),
        ("tenant", Some(quoted(&queue.tenant))),
        ("type", queue.kind.map(|kind| quoted(kind.as_str()))),
        ("prefetch", queue.prefetch.map(|count| count.to_string())),
        ("declare", queue.declare.map(|declare| declare.to_string())),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some(format!("{key} = {}\n", value?)))
    .fold("\n[[queue]]\n".to_owned(), |text, line| text + &line)
}
