//! A connection that is there for one question: does the server answer, and does it
//! take writes?
//!
//! What must not live here: any other question. The pools are no place for this one:
//! theirs may be dead connections of before, and to a server that refuses them they
//! try on until their time is over.

use std::time::Duration;

use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, postgres::PgConnectOptions};
use tokio::sync::Mutex;

use super::{connections::Connections, error::failed};
use crate::store::{Result, StoreError};

/// Asks on a connection of its own, and makes it anew where it broke.
#[derive(Debug)]
pub(super) struct Prober {
    server: PgConnectOptions,
    connect_max: Duration,
    connection: Mutex<Option<PgConnection>>,
}

impl Prober {
    pub(super) async fn connect(server: &PgConnectOptions, connect_max: Duration) -> Result<Self> {
        let prober = Self {
            server: server.clone(),
            connect_max,
            connection: Mutex::default(),
        };
        let connection = prober.fresh().await?;
        *prober.connection.lock().await = Some(connection);
        Ok(prober)
    }

    /// Whether the server answers and takes writes. Where this connection turns out
    /// dead, those that idle elsewhere count as dead too, so that no caller meets one
    /// when the server is back.
    pub(super) async fn writable(&self, ledger: &Connections, pools: &[&PgPool]) -> Result<()> {
        let mut place = self.connection.lock().await;
        // Taken out while it is asked: one that is given up half-way is not used again.
        if let Some(mut connection) = place.take()
            && let Ok(writable) = ask(&mut connection).await
        {
            // A session that began while nothing could be written stays so.
            *place = writable.then_some(connection);
            if writable {
                return Ok(());
            }
        }
        let mut connection = self.fresh().await?;
        ledger.forget();
        forget_idle(ledger.pool());
        pools.iter().copied().for_each(forget_idle);
        let writable = ask(&mut connection).await?;
        *place = Some(connection);
        match writable {
            true => Ok(()),
            false => Err(StoreError::Unwritable("the server is read-only".to_owned())),
        }
    }

    pub(super) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take() {
            // The end of the process closes it as well.
            let _ = connection.close().await;
        }
    }

    async fn fresh(&self) -> Result<PgConnection> {
        let connecting = tokio::time::timeout(self.connect_max, self.server.connect());
        let away = |_| StoreError::Away("it can't be connected to in time".to_owned());
        connecting
            .await
            .map_err(away)?
            .map_err(|error| match error {
                // A peer that hangs up in the middle of the first words.
                sqlx::Error::Protocol(_) => StoreError::Away(error.to_string()),
                error => failed(error),
            })
    }
}

fn forget_idle(pool: &PgPool) {
    while let Some(connection) = pool.try_acquire() {
        drop(connection.detach());
    }
}

async fn ask(connection: &mut PgConnection) -> Result<bool> {
    sqlx::query_scalar(
        "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'",
    )
    .fetch_one(connection)
    .await
    .map_err(failed)
}
