//! SQLite alone, through the same driver.

use std::{
    str::FromStr,
    time::{Duration, Instant},
};

use anyhow::ensure;
use sqlx::{
    AssertSqlSafe, ConnectOptions, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{Entry, Folded, SOURCE, Shape, fold};

/// Rows of one statement: 50 to 250 are equally fast.
const ROWS: usize = 125;

const COLUMNS: &str = "account, version, amount, balance_after, key, event_id, account_id, reference, \
occurred_at, first_seen_at, decided_at, decision, derived, type, status, tenant, source, currency";

#[derive(Debug)]
pub(in crate::bench) struct Books {
    pool: SqlitePool,
}

impl Books {
    /// One connection: SQLite has one writer. Set up as the service's own.
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let options = SqliteConnectOptions::from_str(url)?
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(10))
            .pragma("wal_autocheckpoint", "16000")
            .pragma("cache_size", "-65536")
            .disable_statement_logging();
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options)
            .await?;
        Ok(Self { pool })
    }

    pub(super) async fn about(&self) -> anyhow::Result<String> {
        let version: String = sqlx::query_scalar("SELECT sqlite_version()")
            .fetch_one(&self.pool)
            .await?;
        Ok(format!(
            "SQLite {version} (journal_mode=WAL, synchronous=FULL)"
        ))
    }

    pub(super) async fn rows(&self, pattern: &str) -> anyhow::Result<Vec<i64>> {
        let rows = sqlx::query_scalar(
            "SELECT id FROM account WHERE account_id LIKE $1 ORDER BY account_id",
        );
        Ok(rows.bind(pattern).fetch_all(&self.pool).await?)
    }

    pub(super) async fn write(
        &self,
        shape: Shape,
        entries: &[Entry],
        batch: usize,
    ) -> anyhow::Result<Duration> {
        let began = Instant::now();
        match shape {
            Shape::PerEvent => {
                for entry in entries {
                    self.write_one(entry).await?;
                }
            }
            Shape::Batch | Shape::Minimal => {
                let mut connection = self.pool.acquire().await?;
                for batch in entries.chunks(batch) {
                    sqlx::raw_sql("BEGIN IMMEDIATE")
                        .execute(&mut *connection)
                        .await?;
                    for part in fold(batch).chunks(ROWS) {
                        move_accounts(&mut connection, part).await?;
                    }
                    for part in batch.chunks(ROWS) {
                        insert(&mut connection, part).await?;
                    }
                    sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
                }
            }
        }
        Ok(began.elapsed())
    }

    pub(super) async fn write_one(&self, entry: &Entry) -> anyhow::Result<()> {
        let mut connection = self.pool.acquire().await?;
        sqlx::raw_sql("BEGIN IMMEDIATE")
            .execute(&mut *connection)
            .await?;
        let moved = sqlx::query(
            "UPDATE account SET balance = balance - $3, version = version + 1 WHERE id = $1 AND version = $2",
        )
        .bind(entry.account)
        .bind(entry.version - 1)
        .bind(entry.amount)
        .execute(&mut *connection)
        .await?;
        ensure!(moved.rows_affected() == 1, "an account was not moved");
        insert(&mut connection, std::slice::from_ref(entry)).await?;
        sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
        Ok(())
    }

    pub(super) async fn sizes(&self) -> anyhow::Result<(u64, Vec<(String, u64)>)> {
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM event")
            .fetch_one(&self.pool)
            .await?;
        let bytes: i64 = sqlx::query_scalar(
            "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok((
            u64::try_from(rows)?,
            vec![("whole file".to_owned(), u64::try_from(bytes)?)],
        ))
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

async fn move_accounts(connection: &mut SqliteConnection, part: &[Folded]) -> anyhow::Result<()> {
    let sql = format!(
        "WITH f (id, version, count, total) AS (VALUES {}) \
         UPDATE account SET balance = balance - f.total, version = account.version + f.count \
         FROM f WHERE account.id = f.id AND account.version = f.version",
        places("(?,?,?,?)", part.len())
    );
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for it in part {
        query = query
            .bind(it.account)
            .bind(it.version)
            .bind(it.count)
            .bind(it.total);
    }
    let done = query.execute(connection).await?;
    ensure!(
        done.rows_affected() == part.len() as u64,
        "an account was not moved"
    );
    Ok(())
}

async fn insert(connection: &mut SqliteConnection, part: &[Entry]) -> anyhow::Result<()> {
    let row = format!("(?,?,?,?,?,?,?,?,?,?,?,1,0,'debit','applied','default','{SOURCE}','EUR')");
    let sql = format!(
        "INSERT INTO event ({COLUMNS}) VALUES {}",
        places(&row, part.len())
    );
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for entry in part {
        query = query
            .bind(entry.account)
            .bind(entry.version)
            .bind(entry.amount)
            .bind(entry.balance_after)
            .bind(entry.key.as_slice())
            .bind(entry.event_id.as_str())
            .bind(entry.account_id.as_str())
            .bind(entry.reference.as_str())
            .bind(entry.at)
            .bind(entry.at)
            .bind(entry.at);
    }
    query.execute(connection).await?;
    Ok(())
}

fn places(row: &str, count: usize) -> String {
    vec![row; count].join(",")
}
