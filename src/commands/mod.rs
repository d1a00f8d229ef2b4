//! The command line: what can be asked of the program, one file a command.
//!
//! What lives here: the commands with their help, and what an ending means to
//! the shell. What must not: the work itself.

mod apply;
mod bench;
mod check_config;
mod healthcheck;
mod migrate;
mod openapi;
mod output;
mod reconcile;
mod serve;
mod verify;

use std::{fmt, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::{
    config::{self, Given, Invalid, Loaded, Purpose},
    telemetry,
};

/// An account ledger that makes each debit event take effect exactly once.
///
/// Events come from RabbitMQ queues, over HTTP or from a file. Each is applied to
/// its account under a version, in one transaction, however often it is delivered.
///
/// Settings come from flags, then the environment, then onceledger.toml.
/// `onceledger check-config` shows those in force.
#[derive(Debug, Parser)]
#[command(
    name = "onceledger",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 failed, 2 bad usage or settings"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Apply(apply::Apply),
    Verify(verify::Verify),
    Reconcile(reconcile::Reconcile),
    Bench(bench::Bench),
    Migrate(migrate::Migrate),
    CheckConfig(check_config::CheckConfig),
    Healthcheck(healthcheck::Healthcheck),
    Openapi(openapi::Openapi),
}

/// What the user gave can't be worked with: the ending is that of bad usage.
#[derive(Debug)]
pub struct Unusable(pub String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

/// Runs the command.
///
/// # Errors
/// Whatever keeps the command from doing its work.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(serve) => serve.run().await,
        Command::Apply(apply) => apply.run().await,
        Command::Verify(verify) => verify.run().await,
        Command::Reconcile(reconcile) => reconcile.run().await,
        Command::Bench(bench) => bench.run().await,
        Command::Migrate(migrate) => migrate.run().await,
        Command::CheckConfig(check) => check.run(),
        Command::Healthcheck(check) => check.run().await,
        Command::Openapi(openapi) => openapi.run(),
    }
}

/// Tells on standard error why a command failed, with its causes, and answers
/// the exit code for it.
#[must_use]
pub fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because: {cause}");
    }
    let usage = error
        .chain()
        .any(|cause| cause.is::<Invalid>() || cause.is::<Unusable>());
    ExitCode::from(if usage { 2 } else { 1 })
}

/// Reads the settings and begins to log.
fn prepare(flags: &Given, purpose: Purpose) -> anyhow::Result<Loaded> {
    let loaded = config::load(flags, purpose)?;
    telemetry::logs::start(&loaded.config.log, loaded.config.log_format)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(loaded)
}
