//! PostgreSQL alone.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use sqlx::{
    AssertSqlSafe, PgConnection, PgPool, Row,
    postgres::{PgPoolOptions, PgRow},
};

use super::{Entry, Folded, SOURCE, Shape, fold};
use crate::store;

/// Each statement finds few rows by an index, on fresh tables too.
const SESSION: &str = "\
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";

/// The columns of an entry that are not null.
const COLUMNS: &str = "account, version, amount, balance_after, key, event_id, account_id, reference, \
occurred_at, first_seen_at, decided_at, decision, derived, type, status, tenant, source, currency";

const MINIMAL: &str = "\
CREATE TABLE minimal_account (id bigint PRIMARY KEY, balance bigint NOT NULL, version bigint NOT NULL)
    WITH (fillfactor = 70);
CREATE TABLE minimal_entry (key uuid NOT NULL UNIQUE, account bigint NOT NULL, version bigint NOT NULL,
    amount bigint NOT NULL, UNIQUE (account, version))";

const MINIMAL_BATCH: &str = "\
WITH moved AS (
    UPDATE minimal_account a SET balance = a.balance - f.total, version = a.version + f.count
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS f (id, version, count, total)
    WHERE a.id = f.id AND a.version = f.version RETURNING a.id
)
INSERT INTO minimal_entry (account, version, amount, key)
SELECT e.account, e.version, e.amount, e.key
FROM unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::uuid[]) AS e (account, version, amount, key)
WHERE CASE WHEN e.account IN (SELECT id FROM moved) THEN true ELSE false END";

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
                           updated_at = $13
                    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
                        AS f (id, version, count, total)
                    WHERE a.id = f.id AND a.version = f.version RETURNING a.id
                )
                INSERT INTO event ({COLUMNS})
                SELECT e.account, e.version, e.amount, e.balance_after, e.key, e.event_id, e.account_id,
                       e.reference, $13, $13, $13, {constants}
                FROM unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[],
                            $10::text[], $11::text[], $12::text[])
                    AS e (account, version, amount, balance_after, key, event_id, account_id, reference)
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

    pub(super) async fn make_minimal(&self, rows: &[i64]) -> anyhow::Result<()> {
        sqlx::raw_sql(MINIMAL).execute(&self.pool).await?;
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
            .bind(entry.key)
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
        let folded = fold(batch);
        let done = sqlx::query(AssertSqlSafe(self.batch.as_str()))
            .bind(numbers(&folded, |it| it.account))
            .bind(numbers(&folded, |it| it.version))
            .bind(numbers(&folded, |it| it.count))
            .bind(numbers(&folded, |it| it.total))
            .bind(column(batch, |it| it.account))
            .bind(column(batch, |it| it.version))
            .bind(column(batch, |it| it.amount))
            .bind(column(batch, |it| it.balance_after))
            .bind(column(batch, |it| it.key))
            .bind(column(batch, |it| it.event_id.as_str()))
            .bind(column(batch, |it| it.account_id.as_str()))
            .bind(column(batch, |it| it.reference.as_str()))
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
    let folded = fold(batch);
    let done = sqlx::query(MINIMAL_BATCH)
        .bind(numbers(&folded, |it| it.account))
        .bind(numbers(&folded, |it| it.version))
        .bind(numbers(&folded, |it| it.count))
        .bind(numbers(&folded, |it| it.total))
        .bind(column(batch, |it| it.account))
        .bind(column(batch, |it| it.version))
        .bind(column(batch, |it| it.amount))
        .bind(column(batch, |it| uuid::Uuid::from_bytes(it.key)))
        .execute(connection)
        .await?;
    ensure!(
        done.rows_affected() == batch.len() as u64,
        "a batch was not written"
    );
    Ok(())
}

fn numbers(folded: &[Folded], of: fn(&Folded) -> i64) -> Vec<i64> {
    folded.iter().map(of).collect()
}

fn column<'a, T>(batch: &'a [Entry], of: impl Fn(&'a Entry) -> T) -> Vec<T> {
    batch.iter().map(of).collect()
}
