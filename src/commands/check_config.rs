//! `onceledger check-config`: all settings, checked and shown.

use std::process::ExitCode;

use clap::Args;

use crate::config::{self, ALL, Flags, Purpose};

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
        for shown in &loaded.shown {
            println!("{} = {}  # {}", shown.key, shown.value, shown.origin);
        }
        for queue in &loaded.config.queues {
            println!("\n[[queue]]");
            println!("name = {:?}", queue.name);
            println!("source = {:?}", queue.source);
            if let Some(scope) = &queue.scope {
                println!("scope = {scope:?}");
            }
            println!("tenant = {:?}", queue.tenant);
            if let Some(kind) = queue.kind {
                println!("type = {:?}", kind.as_str());
            }
            if let Some(prefetch) = queue.prefetch {
                println!("prefetch = {prefetch}");
            }
            if let Some(declare) = queue.declare {
                println!("declare = {declare}");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
