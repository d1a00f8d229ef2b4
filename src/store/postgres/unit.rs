//! A connection on loan, and one transaction on it: safe against being dropped
//! half-way.
//!
//! `Pool::begin` of sqlx 0.9, cancelled while it waits for the server, gives a
//! connection back that stands inside a transaction; later writes on it answer
//! `Ok` and are lost. A connection whose server went away without a word would
//! be waited for as long. Here what did not end well goes back to nobody: the
//! connection is closed, and the server rolls back.

use scopeguard::ScopeGuard;
use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};
use tokio::sync::OwnedSemaphorePermit;

use super::{connections::Connections, error::failed};
use crate::store::{Result, StoreError};

/// A connection that is closed unless it was given back.
pub(super) struct Loan {
    connection: ScopeGuard<PoolConnection<Postgres>, fn(PoolConnection<Postgres>)>,
    /// Where it lies ready afterwards; none: it goes back to its pool.
    home: Option<(Connections, OwnedSemaphorePermit)>,
}

impl Loan {
    /// Takes one of the ledger's connections.
    pub(super) async fn of(connections: &Connections) -> Result<Self> {
        let (connection, permit) = connections.take().await?;
        Ok(Self {
            connection: scopeguard::guard(connection, close),
            home: Some((connections.clone(), permit)),
        })
    }

    /// Takes a connection of a pool.
    pub(super) async fn of_pool(pool: &PgPool) -> Result<Self> {
        let connection = pool.acquire().await.map_err(failed)?;
        Ok(Self {
            connection: scopeguard::guard(connection, close),
            home: None,
        })
    }

    /// The connection.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Gives the connection back, unless the server does not answer on it, or
    /// takes no writes: a session that stands on a server (or under a setting)
    /// that is read-only stays so when everything else is well again.
    pub(super) fn back<T>(self, result: Result<T>) -> Result<T> {
        if result.as_ref().err().is_none_or(keeps) {
            self.sound();
        }
        result
    }

    /// Gives the connection back.
    fn sound(self) {
        let connection = ScopeGuard::into_inner(self.connection);
        // The right to another one ends after this one lies ready.
        if let Some((home, _permit)) = self.home {
            home.keep(connection);
        }
    }
}

fn close(mut connection: PoolConnection<Postgres>) {
    connection.close_on_drop();
}

/// Whether a connection on which this went wrong may be used again.
fn keeps(error: &StoreError) -> bool {
    !matches!(error, StoreError::Away(_) | StoreError::Unwritable(_))
}

/// An open transaction.
pub(super) struct Unit(Loan);

impl Unit {
    /// Opens a transaction; `how` is the `BEGIN` statement.
    pub(super) async fn begin(loan: Loan, how: &'static str) -> Result<Self> {
        let mut unit = Self(loan);
        unit.say(how).await?;
        Ok(unit)
    }

    /// The connection, for statements inside the transaction.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        self.0.connection()
    }

    /// Makes it true. After an error nobody knows whether it is.
    pub(super) async fn commit(mut self) -> Result<()> {
        self.say("COMMIT").await?;
        self.0.back(Ok(()))
    }

    /// Undoes it. Where even that fails, the connection is closed, which undoes
    /// it as well.
    pub(super) async fn roll_back(mut self) {
        if self.say("ROLLBACK").await.is_ok() {
            self.0.sound();
        }
    }

    /// Undoes it after a failure, which also says whether the connection is worth
    /// keeping.
    pub(super) async fn fail(mut self, error: StoreError) -> StoreError {
        if self.say("ROLLBACK").await.is_ok() && keeps(&error) {
            self.0.sound();
        }
        error
    }

    async fn say(&mut self, what: &'static str) -> Result<()> {
        sqlx::raw_sql(what)
            .execute(self.connection())
            .await
            .map_err(failed)?;
        Ok(())
    }
}
