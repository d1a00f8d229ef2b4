//! `onceledger healthcheck`: asks a running service how it is, for containers
//! that have no other HTTP client.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use super::output::print;
use crate::config::{self, Flags, HTTP, Purpose};

/// Docker gives a check some seconds; ours ends sooner, with a reason.
const AT_MOST: Duration = Duration::from_secs(4);

/// Ask the service on this machine whether it is well
///
/// Exits with 0 where GET /readyz?only=database answers 200, else with 1. A broker
/// that is away does not count: starting the service anew would not bring it back.
///
/// Example, in a Dockerfile:
///   HEALTHCHECK CMD ["onceledger", "healthcheck"]
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Healthcheck {
    /// Ask only whether the process answers (GET /livez)
    #[arg(long)]
    live: bool,

    #[command(flatten)]
    flags: Flags<HTTP>,
}

impl Healthcheck {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let config = config::load(&self.flags.0, Purpose::Look)?.config;
        let address = reachable(config.http_addr);
        let path = if self.live {
            "/livez"
        } else {
            "/readyz?only=database"
        };
        let answer = tokio::time::timeout(AT_MOST, ask(address, path))
            .await
            .unwrap_or_else(|_| bail!("no answer within {} s", AT_MOST.as_secs()));
        let status = answer.with_context(|| format!("http://{address}{path} does not answer"))?;
        if status != 200 {
            bail!("http://{address}{path} answers {status}");
        }
        print(&format!("http://{address}{path} answers 200\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Where to reach a service that serves on this address: one that serves on all
/// of them is reached on the loopback one.
fn reachable(mut served: SocketAddr) -> SocketAddr {
    if served.ip().is_unspecified() {
        served.set_ip(match served.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    served
}

/// The status of a GET request.
async fn ask(address: SocketAddr, path: &str) -> anyhow::Result<u16> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    // RFC 9112 section 4: HTTP-version SP status-code SP [reason-phrase].
    match line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
    {
        Some(status) if line.starts_with("HTTP/1.") => Ok(status),
        _ => bail!("what answers there is no HTTP server"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_on_all_addresses_is_reached_on_the_loopback_one() {
        for (served, reached) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("10.1.2.3:80", "10.1.2.3:80"),
        ] {
            assert_eq!(reachable(served.parse().unwrap()).to_string(), reached);
        }
    }
}
