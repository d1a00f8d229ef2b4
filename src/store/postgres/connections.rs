//! The ledger's connections, which stay at hand between two statements.
//!
//! sqlx's pool asks the server on every return whether the connection still works:
//! one more round trip for each statement, which at one event a batch is as much as
//! the statement's own. Here a connection that did well lies ready for the next one,
//! and goes back to the pool only after a pause. What must not live here: what is
//! said on a connection.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sqlx::{PgPool, Postgres, pool::PoolConnection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::failed;
use crate::store::{Result, StoreError};

/// One that lay idle for longer is asked again, by the pool, before it is used: what
/// stands between here and the server may have forgotten it.
const AT_HAND_MAX: Duration = Duration::from_secs(30);

/// A pool with the connections that lie ready.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    pool: PgPool,
    ready: Arc<Mutex<Vec<Ready>>>,
    /// One for each connection that may be there: who has one finds a connection
    /// ready, or room for another in the pool.
    permits: Arc<Semaphore>,
    patience: Duration,
}

#[derive(Debug)]
struct Ready {
    connection: PoolConnection<Postgres>,
    since: Instant,
}

impl Connections {
    /// All connections of a pool. `patience` is how long one is waited for.
    pub(super) fn of(pool: PgPool, patience: Duration) -> Self {
        let count = pool.options().get_max_connections();
        Self {
            pool,
            ready: Arc::default(),
            permits: Arc::new(Semaphore::new(count as usize)),
            patience,
        }
    }

    /// Takes a connection, with the right to have one.
    pub(super) async fn take(&self) -> Result<(PoolConnection<Postgres>, OwnedSemaphorePermit)> {
        let waiting = self.permits.clone().acquire_owned();
        let away = || StoreError::Away("no connection became free in time".to_owned());
        let permit = tokio::time::timeout(self.patience, waiting)
            .await
            .map_err(|_| away())?
            // Only a semaphore that was closed refuses, and this one never is.
            .map_err(|_| away())?;
        let ready = self.lock().pop();
        let fresh = ready.filter(|ready| ready.since.elapsed() < AT_HAND_MAX);
        let connection = match fresh {
            Some(ready) => ready.connection,
            None => self.pool.acquire().await.map_err(failed)?,
        };
        Ok((connection, permit))
    }

    /// Lays a connection ready that did well.
    pub(super) fn keep(&self, connection: PoolConnection<Postgres>) {
        let mut ready = self.lock();
        // Asked under the lock: after `close` took it, nothing is laid ready.
        if self.pool.is_closed() {
            return;
        }
        ready.push(Ready {
            connection,
            since: Instant::now(),
        });
    }

    /// The pool, for what it knows of itself.
    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Closes those that lie ready: they may be dead.
    pub(super) fn forget(&self) {
        for ready in self.lock().drain(..) {
            let mut connection = ready.connection;
            connection.close_on_drop();
        }
    }

    /// Closes all of them; those in use when they are given back.
    pub(super) async fn close(&self) {
        let closing = self.pool.close();
        // The pool waits for each.
        self.lock().clear();
        closing.await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ready>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
