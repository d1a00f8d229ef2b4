//! The program: parse, get ready, run one command, say how it ended.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use onceledger::commands::{self, Cli};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    small_pages();
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

/// The allocator asks for huge pages, of which a service with small buffers leaves
/// most untouched: 145 MB instead of 75 at a backlog of a million messages, with no
/// gain in speed (docs/performance.md). A kernel that does not know the wish is no
/// reason not to start.
fn small_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
