//! The program: parse, get ready, run one command, say how it ended.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use onceledger::commands::{self, Cli};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The only provider in this program; it fails only where one is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return commands::failed(&error.into()),
    };
    let end = runtime.block_on(commands::run(cli));
    // A read that still waits for a terminal must not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(200));
    end.unwrap_or_else(|error| commands::failed(&error))
}
