//! `onceledger serve`: the service, until a signal ends it.

use std::{io, process::ExitCode};

use anyhow::{Context, bail};
use clap::Args;
use tokio::{net::TcpListener, sync::oneshot};

use super::prepare;
use crate::{
    app::App,
    clock::Clock,
    config::{ALL, Flags, Purpose},
};

/// Run the service: consume the queues and serve HTTP
///
/// Brings the database's schema up to date first. A database or a broker that is
/// away is waited for. SIGTERM or Ctrl-C: takes nothing more, finishes and
/// acknowledges what is in hand, and ends within ten seconds; a second one ends
/// at once.
///
/// Examples:
///   onceledger serve
///   DATABASE_URL=postgres://ledger:…@db/ledger AMQP_URL=amqp://ledger:…@mq onceledger serve
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Serve {
    #[command(flatten)]
    flags: Flags<ALL>,
}

impl Serve {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let config = prepare(&self.flags.0, Purpose::Serve)?.config;
        let mut signals = Signals::listen().context("signals can't be listened to")?;
        let address = config.http_addr;
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("HTTP can't be served on {address}"))?;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            database = %config.database_url,
            broker = config.amqp_url.as_ref().map(ToString::to_string),
            "onceledger starts"
        );
        tracing::info!(address = %listener.local_addr()?, "serving HTTP");
        if config.insecure && !address.ip().is_loopback() {
            tracing::warn!("insecure: whoever reaches this address may do everything");
        }
        let (first, stop) = oneshot::channel();
        let shutdown = async {
            // The sender lives as long as this.
            let _ = stop.await;
        };
        let second = async {
            let signal = signals.next().await;
            tracing::info!(signal, "told to stop");
            // Nobody listens where the service is stopping already.
            let _ = first.send(());
            signals.next().await
        };
        tokio::select! {
            end = App::start(config, Clock::system()).serve(listener, shutdown) => end?,
            signal = second => bail!("ended at once by a second signal ({signal})"),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The signals that end the service.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// The signal that ends the service.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> &'static str {
        // Where it can't be listened to, only the system can end the service.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
