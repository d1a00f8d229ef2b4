//! One write transaction on the one writing connection, safe against being
//! dropped half-way.
//!
//! It is begun and ended by plain statements, not by sqlx's `Transaction`: after
//! a full disk SQLite has rolled back already, sqlx's own ROLLBACK then fails,
//! and its count of open transactions never comes down again. Here a connection
//! whose transaction did not end cleanly is closed, which undoes it, and the
//! pool opens another.

use sqlx::{Sqlite, SqliteConnection, pool::PoolConnection};

use super::{Pool, failed};
use crate::store::Result;

/// An open write transaction.
pub(super) struct Unit {
    connection: PoolConnection<Sqlite>,
    ended: bool,
}

impl Unit {
    /// Opens a transaction that holds the write lock from its first moment. One
    /// that read first and wrote then would fail with 517 whenever somebody else
    /// wrote in between, however long it is willing to wait.
    pub(super) async fn begin(writer: &Pool) -> Result<Self> {
        let mut unit = Self {
            connection: writer.acquire().await.map_err(failed)?,
            ended: false,
        };
        match unit.say("BEGIN IMMEDIATE").await {
            Ok(()) => Ok(unit),
            Err(error) => {
                // Nothing was begun; the connection is as good as before.
                unit.ended = matches!(error, crate::store::StoreError::Conflicted(_));
                Err(error)
            }
        }
    }

    /// The connection, for statements inside the transaction.
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Makes it true.
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

    /// Ends it by how its work went.
    pub(super) async fn end<T>(self, done: Result<T>) -> Result<T> {
        match done {
            Ok(done) => {
                self.commit().await?;
                Ok(done)
            }
            Err(error) => {
                self.roll_back().await;
                Err(error)
            }
        }
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

#[cfg(test)]
mod tests {
    use crate::{
        domain::{Letter, Raw, Reason, Timestamp},
        store::{SqliteStore, Store as _, StoreError, StoreOptions},
    };

    fn letter(n: usize) -> Letter {
        Letter {
            tenant: "default".into(),
            reason: Reason::Invalid,
            detail: serde_json::json!({}),
            source: None,
            event_id: None,
            account_id: None,
            event: None,
            raw: std::sync::Arc::new(Raw {
                queue: "q".into(),
                body: format!("{n:01000}").into_bytes(),
                headers: "{}".into(),
                marks: "".into(),
            }),
        }
    }

    #[tokio::test]
    async fn after_a_full_disk_the_writer_is_as_good_as_new() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("books.db").display());
        let store = SqliteStore::connect_or_create(&url, &StoreOptions::default())
            .await
            .unwrap();
        store.migrate().await.unwrap();
        // SQLite's own limit answers as a full disk does.
        let limit = async |pragma: &'static str| {
            let done = sqlx::query(pragma).fetch_all(&store.writer).await;
            done.unwrap();
        };
        limit("PRAGMA max_page_count = 1").await;
        let letters: Vec<Letter> = (0..400).map(letter).collect();
        let full = store.set_aside(&letters, Timestamp(1)).await;
        assert!(matches!(full, Err(StoreError::Unwritable(_))), "{full:?}");
        limit("PRAGMA max_page_count = 1000000").await;
        for _ in 0..2 {
            store.set_aside(&letters, Timestamp(1)).await.unwrap();
        }
        let seen: i64 = sqlx::query_scalar("SELECT sum(seen) FROM dead_letter")
            .fetch_one(&store.reads)
            .await
            .unwrap();
        assert_eq!(seen, 800);
    }
}
