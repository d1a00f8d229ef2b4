//! How the server is reached: with TLS or without.
//!
//! `sslmode=prefer`, the default, promises nothing: it takes TLS where the server has
//! it and goes without where it has not. On the way to this very machine TLS protects
//! from nobody, and costs dearly: sqlx 0.9 leaves Nagle's algorithm on (RFC 896), so
//! that each message of several TLS records waits up to 40 ms for an acknowledgement
//! that the server delays (RFC 1122, section 4.2.3.2): batches of 500 come to a third
//! of their rate. So there `prefer` begins without, as libpq's `allow` does
//! (<https://www.postgresql.org/docs/current/libpq-ssl.html>). Whoever asks for TLS
//! gets it.

use std::{net::IpAddr, time::Duration};

use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::prober::Prober;
use crate::store::{Result, StoreError};

/// Makes the first connection, and says how the others are to be made.
pub(super) async fn reach(
    server: PgConnectOptions,
    connect_max: Duration,
) -> Result<(PgConnectOptions, Prober)> {
    if matches!(server.get_ssl_mode(), PgSslMode::Prefer) && is_here(server.get_host()) {
        let plain = server.clone().ssl_mode(PgSslMode::Disable);
        match Prober::connect(&plain, connect_max).await {
            // It may take nobody without TLS; whatever else it has to say, it says
            // again.
            Err(StoreError::Other(_)) => {}
            done => return Ok((plain, done?)),
        }
    }
    let prober = Prober::connect(&server, connect_max).await?;
    Ok((server, prober))
}

/// Whether it is this machine.
fn is_here(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_here() {
        for host in ["localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"] {
            assert!(is_here(host), "{host}");
        }
        for host in ["db", "10.0.0.1", "localhost.example", "::2", ""] {
            assert!(!is_here(host), "{host}");
        }
    }
}
