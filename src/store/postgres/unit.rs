//! One transaction on one connection, safe against being dropped half-way.
//!
//! `Pool::begin` of sqlx 0.9, cancelled while it waits for the server, gives a
//! connection back that stands inside a transaction; later writes on it answer
//! `Ok` and are lost. Here a connection whose transaction did not end goes back
//! to nobody: it is closed, and the server rolls back.

use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};

use super::error::failed;
use crate::store::Result;

/// An open transaction.
pub(super) struct Unit {
    connection: PoolConnection<Postgres>,
    ended: bool,
}

impl Unit {
    /// Opens a transaction; `how` is the `BEGIN` statement.
    pub(super) async fn begin(pool: &PgPool, how: &'static str) -> Result<Self> {
        let mut unit = Self {
            connection: pool.acquire().await.map_err(failed)?,
            ended: false,
        };
        unit.say(how).await?;
        Ok(unit)
    }

    /// The connection, for statements inside the transaction.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Makes it true. After an error nobody knows whether it is.
    pub(super) async fn commit(mut self) -> Result<()> {
        self.say("COMMIT").await?;
        self.ended = true;
        Ok(())
    }

    /// Undoes it. Where even that fails, the connection is closed, which undoes
    /// it as well.
    pub(super) async fn roll_back(mut self) {
        self.ended = self.say("ROLLBACK").await.is_ok();
    }

    async fn say(&mut self, what: &'static str) -> Result<()> {
        sqlx::raw_sql(what)
            .execute(&mut *self.connection)
            .await
            .map_err(failed)?;
        Ok(())
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}
