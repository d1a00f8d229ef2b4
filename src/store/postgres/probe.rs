//! Whether the server answers and takes writes, asked on a connection of its own:
//! a pool says of a server that is away no more than that it waited, and a rush of
//! callers must not look like an outage.
//!
//! What must not live here: when to ask, and what follows from the answer.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use sqlx::{ConnectOptions as _, PgConnection, PgPool, postgres::PgConnectOptions};
use tokio::sync::Mutex;

use super::error::failed;
use crate::store::{Result, StoreError};

/// A server that takes longer to say `SELECT` is away.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A disk may take longer to write a megabyte.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// Makes a table grow by about a megabyte, and leaves nothing: whether there is
/// room shows only where a file grows. A temporary table stands in the database's
/// own tablespace, as the books do.
const GROW: &str = "\
BEGIN;
CREATE TEMPORARY TABLE onceledger_room (filler text) ON COMMIT DROP;
INSERT INTO onceledger_room SELECT repeat('x', 1900) FROM generate_series(1, 600);
ROLLBACK";

/// Asks the server.
#[derive(Debug)]
pub(super) struct Probe {
    server: PgConnectOptions,
    connection: Mutex<Option<PgConnection>>,
    /// A write was refused, and none has succeeded since.
    refused: AtomicBool,
}

impl Probe {
    pub(super) fn new(server: PgConnectOptions) -> Self {
        Self {
            server,
            connection: Mutex::new(None),
            refused: AtomicBool::new(false),
        }
    }

    /// Remembers that a write was refused: a full disk answers every question.
    pub(super) fn heed<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(StoreError::Unwritable(_)) = &result {
            self.refused.store(true, Ordering::Release);
        }
        result
    }

    /// Whether the server answers and takes writes. Whoever finds this connection
    /// dead takes those for dead that idle in `pools`, so that no caller meets one.
    pub(super) async fn ask(&self, pools: &[&PgPool]) -> Result<()> {
        let mut place = self.connection.lock().await;
        // Taken out: one that was left in the middle of an answer is not used again.
        let mut connection = within(ANSWER_MAX, self.look(place.take(), pools)).await?;
        if self.refused.load(Ordering::Acquire) {
            let growing = async {
                let grown = sqlx::raw_sql(GROW).execute(&mut connection).await;
                grown.map(drop).map_err(failed)
            };
            within(WRITE_MAX, growing).await?;
            self.refused.store(false, Ordering::Release);
        }
        *place = Some(connection);
        Ok(())
    }

    /// A session that somebody ended says nothing of the server: another is asked.
    async fn look(&self, kept: Option<PgConnection>, pools: &[&PgPool]) -> Result<PgConnection> {
        if let Some(connection) = kept {
            match look_on(connection).await {
                Err(StoreError::Away(_)) => {}
                answer => return answer,
            }
        }
        let connection = self.server.connect().await.map_err(failed)?;
        pools.iter().copied().for_each(forget_idle);
        look_on(connection).await
    }
}

async fn look_on(mut connection: PgConnection) -> Result<PgConnection> {
    let writable: bool = sqlx::query_scalar(
        "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'",
    )
    .fetch_one(&mut connection)
    .await
    .map_err(failed)?;
    match writable {
        true => Ok(connection),
        false => Err(StoreError::Unwritable("the server is read-only".to_owned())),
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    let away = |_| StoreError::Away(format!("no answer within {limit:?}"));
    tokio::time::timeout(limit, work).await.map_err(away)?
}

fn forget_idle(pool: &PgPool) {
    while let Some(connection) = pool.try_acquire() {
        drop(connection.detach());
    }
}
