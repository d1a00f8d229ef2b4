//! The store on SQLite: the books in one file, for a small house or a trial.
//!
//! | phase | statement | calls | what it costs |
//! | --- | --- | --- | --- |
//! | load | accounts by name, and whether something waits | 1 | an index probe an account, one more into the small index of what is parked |
//! | | what waits, where something does | 0 or 1 | at most twice 1,001 rows an account |
//! | lookup | known identities of the batch | 1 each 512 | an index probe an identity |
//! | commit | `BEGIN IMMEDIATE` … `COMMIT` around: | 2 | one fsync of the write-ahead log |
//! | · accounts that move | `MOVE` | 0 or some | a row an account |
//! | · accounts that stay | `FENCE`, `OPENED` | 0 or some | an index probe an account |
//! | · accounts that are new | `OPEN` | 0 or some | a row and an index entry an account |
//! | · identities that are new | `INSERT`, `KEEP` | 0 or some | a row and two index entries an event |
//! | · identities that change their status | `UPDATE`, `KEEP` | 0 or some | a row an event |
//! | · dead letters, those dealt with, audits | `LETTERS`, `RESOLVE`, `AUDITS` | 0 or some | a row each |
//!
//! "Some": a call for each 128 rows, and for the rest one for each power of two
//! in it (see [`bulk`]). One connection writes, the others read snapshots and
//! never wait for it. What lives here: the connections and the trait, put
//! together from one file a phase. What must not: rules and retries.

mod aside;
mod bulk;
#[path = "../shared/checks.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod checks;
mod commit;
mod error;
mod events;
mod file;
mod load;
#[path = "../shared/reads.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod reads;
#[path = "../shared/reads_aside.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod reads_aside;
#[path = "../shared/rows.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod rows;
#[path = "../shared/totals.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod totals;
mod unit;
mod verify;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sqlx::migrate::{MigrateError, Migrator};
use uuid::Uuid;

use self::{error::failed, file::File, unit::Unit};
use super::{
    AccountFilter, AuditFilter, AuditView, Committed, Direction, EventFilter, EventView,
    EventsFound, LetterFilter, LetterView, Result, Store, StoreError, StoreOptions, Totals,
    Verified, Waiting, doubt::Doubt,
};
use crate::domain::{
    Account, AccountKey, EventKey, Identity, Letter, Page, Plan, Record, Timestamp,
};

type Db = sqlx::Sqlite;
type Pool = sqlx::SqlitePool;
type Row = sqlx::sqlite::SqliteRow;

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// Books kept in one SQLite file.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    /// The one connection that writes.
    writer: Pool,
    /// What the path of an event reads.
    ledger: Pool,
    /// For everything else that only reads.
    reads: Pool,
    /// For what walks the whole history, one at a time.
    walks: Pool,
    doubt: Doubt,
}

impl SqliteStore {
    /// Opens a file that is there; never makes one.
    ///
    /// # Errors
    /// [`StoreError::Schema`] where there is no such file, and others.
    pub async fn connect(url: &str, options: &StoreOptions) -> Result<Self> {
        Self::at(url, options, false).await
    }

    /// Opens a file, and makes it where it is missing (not its folder).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn connect_or_create(url: &str, options: &StoreOptions) -> Result<Self> {
        Self::at(url, options, true).await
    }

    async fn at(url: &str, options: &StoreOptions, make: bool) -> Result<Self> {
        let file = File::of_url(url)?;
        file.check(make)?;
        Ok(Self {
            writer: file.writer(make).await?,
            ledger: file.readers(options.ledger_connections, options),
            reads: file.readers(options.read_connections, options),
            walks: file.walker(options),
            doubt: Doubt::default(),
        })
    }

    /// Brings the schema up to date. Several processes may do so at once: sqlx
    /// has no lock for that on SQLite, so that who comes second fails on what
    /// the first has made, looks again and finds it done.
    ///
    /// # Errors
    /// [`StoreError::Schema`] where the schema there is newer than this program,
    /// or was changed by hand.
    pub async fn migrate(&self) -> Result<()> {
        const ATTEMPTS: u32 = 5;
        const PAUSE: Duration = Duration::from_millis(200);
        for _ in 1..ATTEMPTS {
            match MIGRATIONS.run(&self.writer).await {
                Err(MigrateError::Execute(_) | MigrateError::ExecuteMigration(..)) => {
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done.map_err(migration_failed),
            }
        }
        MIGRATIONS.run(&self.writer).await.map_err(migration_failed)
    }

    /// Checks that the schema is the one this program works with.
    ///
    /// # Errors
    /// [`StoreError::Schema`], with the version that is there and the one needed.
    pub async fn check_schema(&self) -> Result<()> {
        let needed = MIGRATIONS.iter().map(|it| it.version).max().unwrap_or(0);
        let made: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'",
        )
        .fetch_one(&self.reads)
        .await
        .map_err(failed)?;
        let there: i64 = match made {
            0 => 0,
            _ => sqlx::query_scalar(
                "SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success",
            )
            .fetch_one(&self.reads)
            .await
            .map_err(failed)?,
        };
        if there == needed {
            return Ok(());
        }
        Err(StoreError::Schema(format!(
            "the schema is at version {there}, this program works with version {needed}"
        )))
    }
}

fn migration_failed(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => failed(error),
        error => StoreError::Schema(format!("the schema can't be brought up to date: {error}")),
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn load(&self, accounts: &[AccountKey]) -> Result<Vec<Page>> {
        load::load(&self.ledger, accounts).await
    }

    async fn lookup(&self, keys: &[EventKey]) -> Result<Vec<Record>> {
        load::lookup(&self.ledger, keys).await
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        self.doubt.noted(commit::commit(&self.writer, plan).await)
    }

    /// SQLite locks no rows.
    async fn locked(&self, _accounts: &[AccountKey]) -> Result<Vec<AccountKey>> {
        Ok(Vec::new())
    }

    async fn set_aside(&self, letters: &[Letter], at: Timestamp) -> Result<()> {
        let letters: Vec<&Letter> = letters.iter().collect();
        let mut unit = Unit::begin(&self.writer).await?;
        let done = aside::letters(unit.connection(), &letters, at).await;
        self.doubt.noted(unit.end(done).await)
    }

    async fn count_copies(&self, copies: &[(EventKey, i64)], at: Timestamp) -> Result<()> {
        let mut unit = Unit::begin(&self.writer).await?;
        let done = aside::copies(unit.connection(), copies, at).await;
        self.doubt.noted(unit.end(done).await)
    }

    async fn due(&self, limit: i64) -> Result<Vec<AccountKey>> {
        load::due(&self.reads, limit).await
    }

    async fn expired(&self, parked_before: Timestamp, limit: i64) -> Result<Vec<Waiting>> {
        load::expired(&self.reads, parked_before, limit).await
    }

    async fn account(&self, key: &AccountKey) -> Result<Option<Account>> {
        reads::account(&self.reads, key).await
    }

    async fn accounts(
        &self,
        tenant: &str,
        filter: &AccountFilter,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<(Arc<str>, Account)>> {
        reads::accounts(&self.reads, tenant, filter, after, limit).await
    }

    async fn entry(&self, key: &AccountKey, version: i64) -> Result<Option<Record>> {
        reads::entry(&self.reads, key, version).await
    }

    async fn version_at(&self, key: &AccountKey, at: Timestamp) -> Result<Option<i64>> {
        reads::version_at(&self.reads, key, at).await
    }

    async fn history(
        &self,
        key: &AccountKey,
        after: Option<i64>,
        direction: Direction,
        limit: i64,
    ) -> Result<Vec<Record>> {
        reads::history(&self.reads, key, after, direction, limit).await
    }

    async fn event(&self, identity: &Identity) -> Result<Option<EventView>> {
        reads_aside::event(&self.reads, identity).await
    }

    async fn events_of(&self, identities: &[Identity]) -> Result<Vec<EventView>> {
        reads_aside::events_of(&self.reads, identities).await
    }

    async fn events(
        &self,
        tenant: &str,
        filter: &EventFilter,
        before: Option<i64>,
        limit: i64,
    ) -> Result<EventsFound> {
        reads_aside::events(&self.reads, tenant, filter, before, limit).await
    }

    async fn letters(
        &self,
        tenant: &str,
        filter: &LetterFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<LetterView>> {
        reads_aside::letters(&self.reads, tenant, filter, before, limit).await
    }

    async fn letter(&self, tenant: &str, id: Uuid) -> Result<Option<LetterView>> {
        reads_aside::letter(&self.reads, tenant, id).await
    }

    async fn audits(
        &self,
        tenant: &str,
        filter: &AuditFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<AuditView>> {
        reads_aside::audits(&self.reads, tenant, filter, before, limit).await
    }

    /// Takes the write lock and writes a row that it takes back: a file that is
    /// read-only, a table that is missing or a lock that never ends shows. In doubt it
    /// really writes.
    async fn ping(&self) -> Result<()> {
        if self.doubt.stands() {
            aside::prove(&self.writer).await?;
            self.doubt.settle();
            return Ok(());
        }
        let mut unit = Unit::begin(&self.writer).await?;
        let written =
            sqlx::query("INSERT INTO event_seen (key, copies, last_seen_at) VALUES (x'00', 0, 0)")
                .execute(unit.connection())
                .await
                .map_err(failed);
        unit.roll_back().await;
        written.map(drop)
    }

    async fn totals(&self, tenant: &str, at: Option<Timestamp>) -> Result<Vec<Totals>> {
        totals::totals(&self.walks, tenant, at).await
    }

    async fn verify(&self) -> Result<Verified> {
        verify::verify(&self.walks).await
    }

    /// The writer last: who closes last moves the write-ahead log into the file.
    async fn close(&self) {
        self.walks.close().await;
        self.reads.close().await;
        self.ledger.close().await;
        self.writer.close().await;
    }
}
