//! PostgreSQL alone.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use sqlx::{
    AssertSqlSafe, PgConnection, PgPool, Postgres, Row,
    postgres::{PgHasArrayType, PgPoolOptions, PgRow, PgTypeInfo},
};
use uuid::Uuid;

use super::{Entry, Folded, SOURCE, Shape, fold};
use crate::store;

/// Each statement finds few rows by an index, on fresh tables too.
const SESSION: &str = "\
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";

/// The columns of an entry that are not null.
const COLUMNS: &str = "account, version, amount, balance_after, key, event_id, account_id, reference, \
occurred_at, first_seen_at, decided_at, decision, derived, type, status, tenant, source, currency";

/// What is made beside the service's tables: two narrow ones, and the types in which
/// batches are sent, as the service sends its own.
const BESIDE: &str = "\
CREATE TABLE minimal_account (id bigint PRIMARY KEY, balance bigint NOT NULL, version bigint NOT NULL)
    WITH (fillfactor = 70);
CREATE TABLE minimal_entry (key uuid NOT NULL UNIQUE, account bigint NOT NULL, version bigint NOT NULL,
    amount bigint NOT NULL, UNIQUE (account, version));
CREATE TYPE folded AS (id bigint, version bigint, count bigint, total bigint);
CREATE TYPE entry AS (account bigint, version bigint, amount bigint, balance_after bigint, key uuid,
    event_id text, account_id text, reference text)";

const MINIMAL_BATCH: &str = "\
WITH moved AS (
    UPDATE minimal_account a SET balance = a.balance - f.total, version = a.version + f.count
    FROM unnest($1::folded[]) AS f
    WHERE a.id = f.id AND a.version = f.version RETURNING a.id
)
INSERT INTO minimal_entry (account, version, amount, key)
SELECT e.account, e.version, e.amount, e.key
FROM unnest($2::minimal_entry[]) AS e
WHERE CASE WHEN e.account IN (SELECT id FROM moved) THEN true ELSE false END";

/// What an account has in a batch: the type `folded`.
#[derive(sqlx::Encode)]
struct FoldedRow {
    id: i64,
    version: i64,
    count: i64,
    total: i64,
}

/// The type `entry`.
#[derive(sqlx::Encode)]
struct EntryRow<'a> {
    account: i64,
    version: i64,
    amount: i64,
    balance_after: i64,
    key: Uuid,
    event_id: &'a str,
    account_id: &'a str,
    reference: &'a str,
}

/// The type of the table `minimal_entry`.
#[derive(sqlx::Encode)]
struct MinimalRow {
    key: Uuid,
    account: i64,
    version: i64,
    amount: i64,
}

#[derive(Debug)]
pub(in crate::bench) struct Books {
    pool: PgPool,
    batch: String,
    one: String,
    insert: String,
}

impl Books {
    pub(super) async fn connect(url: &str, connections: u32) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(Duration::from_secs(30))
            .after_connect(|connection, _| {
                Box::pin(async move {
                    sqlx::raw_sql(SESSION).execute(connection).await?;
                    Ok(())
                })
            })
            // As the service itself reaches it, or nothing could be compared.
            .connect_with(store::postgres_as_reached(url).await?)
            .await?;
        let constants = format!("1, false, 'debit', 'applied', 'default', '{SOURCE}', 'EUR'");
        Ok(Self {
            pool,
            batch: format!(
                "WITH moved AS (
                    UPDATE account a SET balance = a.balance - f.total, version = a.version + f.count,
                           updated_at = $3
                    FROM unnest($1::folded[]) AS f
                    WHERE a.id = f.id AND a.version = f.version RETURNING a.id
                )
                INSERT INTO event ({COLUMNS})
                SELECT e.account, e.version, e.amount, e.balance_after, e.key, e.event_id, e.account_id,
                       e.reference, $3, $3, $3, {constants}
                FROM unnest($2::entry[]) AS e
                WHERE CASE WHEN e.account IN (SELECT id FROM moved) THEN true ELSE false END"
            ),
            one: format!(
                "WITH moved AS (
                    UPDATE account SET balance = balance - $3, version = version + 1, updated_at = $9
                    WHERE id = $1 AND version = $2 - 1 RETURNING id
                )
                INSERT INTO event ({COLUMNS})
                SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $9, {constants} FROM moved"
            ),
            insert: format!(
                "INSERT INTO event ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $9, {constants})"
            ),
        })
    }

    pub(super) async fn about(&self) -> anyhow::Result<String> {
        let version: String = sqlx::query_scalar("SHOW server_version")
            .fetch_one(&self.pool)
            .await?;
        let settings: Vec<(String, String)> = sqlx::query_as(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name IN \
             ('synchronous_commit', 'fsync', 'full_page_writes', 'shared_buffers', 'max_wal_size', \
              'checkpoint_timeout', 'wal_compression', 'autovacuum') ORDER BY name",
        )
        .fetch_all(&self.pool)
        .await?;
        let settings: Vec<String> = settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        Ok(format!("PostgreSQL {version} ({})", settings.join(", ")))
    }

    pub(super) async fn rows(&self, pattern: &str) -> anyhow::Result<Vec<i64>> {
        let rows = sqlx::query_scalar(
            "SELECT id FROM account WHERE account_id LIKE $1 ORDER BY account_id",
        );
        Ok(rows.bind(pattern).fetch_all(&self.pool).await?)
    }

    pub(super) async fn make_beside(&self, rows: &[i64]) -> anyhow::Result<()> {
        sqlx::raw_sql(BESIDE).execute(&self.pool).await?;
        sqlx::query("INSERT INTO minimal_account SELECT unnest($1::bigint[]), $2, 1")
            .bind(rows)
            .bind(super::OPENING)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    pub(super) async fn write(
        &self,
        shape: Shape,
        entries: Vec<Entry>,
        batch: usize,
        connections: usize,
    ) -> anyhow::Result<Duration> {
        let mut parts: Vec<Vec<Entry>> = vec![Vec::new(); connections];
        for entry in entries {
            let part = usize::try_from(entry.account).unwrap_or(0) % connections;
            parts[part].push(entry);
        }
        let mut ready = Vec::new();
        for part in parts {
            ready.push((self.pool.acquire().await?, part));
        }
        let began = Instant::now();
        let writing = ready.into_iter().map(|(mut connection, part)| async move {
            match shape {
                Shape::PerEvent => {
                    for entry in &part {
                        self.write_entry(&mut connection, &self.one, entry).await?;
                    }
                }
                Shape::Batch => {
                    for batch in part.chunks(batch) {
                        self.write_batch(&mut connection, batch).await?;
                    }
                }
                Shape::Minimal => {
                    for batch in part.chunks(batch) {
                        write_minimal(&mut connection, batch).await?;
                    }
                }
            }
            anyhow::Ok(())
        });
        try_join_all(writing).await?;
        Ok(began.elapsed())
    }

    async fn write_entry(
        &self,
        connection: &mut PgConnection,
        sql: &str,
        entry: &Entry,
    ) -> anyhow::Result<()> {
        let done = sqlx::query(AssertSqlSafe(sql))
            .bind(entry.account)
            .bind(entry.version)
            .bind(entry.amount)
            .bind(entry.balance_after)
            .bind(Uuid::from_bytes(entry.key))
            .bind(&entry.event_id)
            .bind(&entry.account_id)
            .bind(&entry.reference)
            .bind(entry.at)
            .execute(connection)
            .await?;
        ensure!(done.rows_affected() == 1, "an entry was not written");
        Ok(())
    }

    async fn write_batch(
        &self,
        connection: &mut PgConnection,
        batch: &[Entry],
    ) -> anyhow::Result<()> {
        let entries: Vec<EntryRow<'_>> = batch.iter().map(EntryRow::of).collect();
        let done = sqlx::query(AssertSqlSafe(self.batch.as_str()))
            .bind(folded(batch))
            .bind(entries)
            .bind(batch.first().map_or(0, |it| it.at))
            .execute(connection)
            .await?;
        ensure!(
            done.rows_affected() == batch.len() as u64,
            "a batch was not written"
        );
        Ok(())
    }

    pub(super) async fn write_one(&self, entry: &Entry) -> anyhow::Result<()> {
        let mut transaction = self.pool.begin().await?;
        let moved = sqlx::query(
            "UPDATE account SET balance = balance - $3, version = version + 1, updated_at = $4 \
             WHERE id = $1 AND version = $2",
        )
        .bind(entry.account)
        .bind(entry.version - 1)
        .bind(entry.amount)
        .bind(entry.at)
        .execute(&mut *transaction)
        .await?;
        ensure!(moved.rows_affected() == 1, "an account was not moved");
        self.write_entry(&mut transaction, &self.insert, entry)
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    pub(super) async fn sizes(&self) -> anyhow::Result<(u64, Vec<(String, u64)>)> {
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM event")
            .fetch_one(&self.pool)
            .await?;
        let found = sqlx::query(
            "SELECT 'event'::text, pg_table_size('event') \
             UNION ALL SELECT c.relname::text, pg_relation_size(c.oid) FROM pg_index i \
             JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'event'::regclass ORDER BY 1",
        )
        .fetch_all(&self.pool)
        .await?;
        let size = |row: &PgRow| {
            let bytes: i64 = row.try_get(1)?;
            anyhow::Ok((row.try_get(0)?, u64::try_from(bytes)?))
        };
        let sizes: anyhow::Result<Vec<_>> = found.iter().map(size).collect();
        Ok((u64::try_from(rows)?, sizes.context("sizes can't be read")?))
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

async fn write_minimal(connection: &mut PgConnection, batch: &[Entry]) -> anyhow::Result<()> {
    let entries: Vec<MinimalRow> = batch.iter().map(MinimalRow::of).collect();
    let done = sqlx::query(MINIMAL_BATCH)
        .bind(folded(batch))
        .bind(entries)
        .execute(connection)
        .await?;
    ensure!(
        done.rows_affected() == batch.len() as u64,
        "a batch was not written"
    );
    Ok(())
}

fn folded(batch: &[Entry]) -> Vec<FoldedRow> {
    let row = |folded: &Folded| FoldedRow {
        id: folded.account,
        version: folded.version,
        count: folded.count,
        total: folded.total,
    };
    fold(batch).iter().map(row).collect()
}

impl<'a> EntryRow<'a> {
    fn of(entry: &'a Entry) -> Self {
        Self {
            account: entry.account,
            version: entry.version,
            amount: entry.amount,
            balance_after: entry.balance_after,
            key: Uuid::from_bytes(entry.key),
            event_id: &entry.event_id,
            account_id: &entry.account_id,
            reference: &entry.reference,
        }
    }
}

impl MinimalRow {
    fn of(entry: &Entry) -> Self {
        Self {
            key: Uuid::from_bytes(entry.key),
            account: entry.account,
            version: entry.version,
            amount: entry.amount,
        }
    }
}

/// Says under which name the server knows a row.
macro_rules! named {
    ($row:ty, $name:literal) => {
        impl sqlx::Type<Postgres> for $row {
            fn type_info() -> PgTypeInfo {
                PgTypeInfo::with_name($name)
            }
        }

        impl PgHasArrayType for $row {
            fn array_type_info() -> PgTypeInfo {
                PgTypeInfo::array_of($name)
            }
        }
    };
}

named!(FoldedRow, "folded");
named!(EntryRow<'_>, "entry");
named!(MinimalRow, "minimal_entry");
