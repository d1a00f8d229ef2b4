//! The store on PostgreSQL.
//!
//! | phase | statement | round trips | what it costs |
//! | --- | --- | --- | --- |
//! | load | accounts by name, and whether something waits | 1 | an index probe an account, one more into the small index of what is parked |
//! | | what waits, where something does | 0 or 1 | at most twice 1,001 rows an account |
//! | lookup | known identities of the batch | 1 | an index probe an identity |
//! | commit, plain: entries, refusals, parking on known accounts, fences | one posting, its own transaction | **1** | an index probe and an update an account (beside fences two probes and a lock), a row and two index entries an event |
//! | commit, otherwise | `BEGIN` … `COMMIT` around: | 2 | |
//! | · accounts that are new | `OPEN` | 0 or 1 | a row and an index entry an account |
//! | · accounts that must be absent | `OPENED` | 0 or 1 | an index probe an account |
//! | · the rest of the plain commit | one posting | 0 or 1 | as above |
//! | · settings | `SETTLE` | 0 or 1 | a second update of the account |
//! | · identities that change their status | `CHANGE`, `KEEP` | 0 to 2 | an update an event, never HOT where its status is indexed |
//! | · dead letters, those dealt with, audits | `LETTERS`, `RESOLVE`, `AUDITS` | 0 to 3 | a row each |
//!
//! READ COMMITTED throughout: a version that moved is zero rows, never an error.
//! Lock order: new account rows by name, then accounts by id, then identities,
//! then letters by digest. What lives here: the connections and the trait, put
//! together from one file a phase. What must not: rules and retries.

mod aside;
#[path = "../shared/checks.rs"]
#[expect(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod checks;
mod columns;
mod commit;
mod composites;
mod connections;
mod error;
mod load;
mod post;
mod prober;
mod reach;
#[path = "../shared/reads.rs"]
#[expect(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod reads;
#[path = "../shared/reads_aside.rs"]
#[expect(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod reads_aside;
#[path = "../shared/rows.rs"]
#[expect(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod rows;
mod sweep;
#[path = "../shared/totals.rs"]
#[expect(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod totals;
mod unit;
mod verify;

use std::{str::FromStr, sync::Arc, time::Duration};

use async_trait::async_trait;
use sqlx::{
    migrate::Migrator,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use uuid::Uuid;

use self::{
    connections::Connections,
    error::{failed, migration_failed},
    prober::Prober,
};
use super::{
    AccountFilter, AuditFilter, AuditView, Committed, Direction, EventFilter, EventView,
    EventsFound, LetterFilter, LetterView, Result, Store, StoreError, StoreOptions, Totals,
    Verified, Waiting, doubt::Doubt,
};
use crate::domain::{
    Account, AccountKey, EventKey, Identity, Letter, Page, Plan, Record, Timestamp,
};

type Db = sqlx::Postgres;
type Pool = sqlx::PgPool;
type Row = sqlx::postgres::PgRow;

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// What every connection is told first. No `statement_timeout`: a slow disk is
/// no reason to give a batch up. `lock_timeout`: one locked row must not stop a
/// lane. The idle limit frees the locks of a process that hangs.
const SESSION: &str = "\
SET default_transaction_isolation = 'read committed';
SET lock_timeout = '2s';
SET idle_in_transaction_session_timeout = '30s';
SET timezone = 'UTC'";

/// What the connections of the ledger are told besides. Every statement of theirs
/// finds a few rows by an index, and nothing else is ever right: a plan that
/// was made and kept while there were ten accounts must not read all of them
/// when there are a million. Behind a pooler that loses settings, the server's
/// own choice holds, which is good as long as its statistics are.
const LEDGER_SESSION: &str = "\
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET cpu_tuple_cost = 1;
SET jit = off";

/// What the connections that read are told. Each of their statements finds few rows by
/// an index; on a table that was never analysed the server thinks otherwise, and would
/// compile them first, which takes it thirty times as long as answering does.
const READ_SESSION: &str = "SET jit = off";

/// What the connection that walks the history is told: a caller who went away must
/// not keep it for ever.
const WALK_SESSION: &str = "SET statement_timeout = '60s'";

/// Books kept in PostgreSQL (15 or newer).
#[derive(Clone, Debug)]
pub struct PostgresStore {
    /// For the path of an event and whatever else writes.
    ledger: Connections,
    /// For everything that only reads.
    reads: Pool,
    /// For what walks the whole history: one at a time, so that the readers keep
    /// their connections.
    walks: Pool,
    prober: Arc<Prober>,
    answer_timeout: Duration,
    doubt: Doubt,
}

impl PostgresStore {
    /// Connects. A database that does not answer is [`StoreError::Away`]; whether
    /// its schema is the right one is a question of its own.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn connect(url: &str, options: &StoreOptions) -> Result<Self> {
        let server = PgConnectOptions::from_str(url)
            .map_err(failed)?
            .application_name("onceledger")
            .statement_cache_capacity(options.statement_cache);
        // The pools are lazy, and say of a server that is away no more than that
        // they waited for it.
        let (server, prober) = reach::reach(server, options.acquire_timeout).await?;
        Ok(Self {
            // A connection that died is told by the first statement on it, and
            // the caller then waits as for any database that is away.
            ledger: Connections::of(
                pool(options, options.ledger_connections, LEDGER_SESSION)
                    .test_before_acquire(false)
                    .connect_lazy_with(server.clone()),
                options.acquire_timeout,
            ),
            reads: pool(options, options.read_connections, READ_SESSION)
                .connect_lazy_with(server.clone()),
            walks: pool(options, 1, WALK_SESSION).connect_lazy_with(server),
            prober: Arc::new(prober),
            answer_timeout: options.answer_timeout,
            doubt: Doubt::default(),
        })
    }

    /// How the server is reached.
    pub(super) async fn as_reached(url: &str) -> Result<PgConnectOptions> {
        let server = PgConnectOptions::from_str(url).map_err(failed)?;
        let (server, prober) = reach::reach(server, Duration::from_secs(30)).await?;
        prober.close().await;
        Ok(server)
    }

    /// Brings the schema up to date. Several instances may do so at once: one
    /// works and the others wait, however long it takes.
    ///
    /// # Errors
    /// [`StoreError::Schema`] where the schema there is newer than this program,
    /// or was changed by hand.
    pub async fn migrate(&self) -> Result<()> {
        // Not from the store's pools: their limits on waiting are not for this.
        let alone = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(30))
            .connect_lazy_with(self.reads.connect_options().as_ref().clone());
        let done = MIGRATIONS.run(&alone).await.map_err(migration_failed);
        alone.close().await;
        done
    }

    /// Checks that the schema is the one this program works with.
    ///
    /// # Errors
    /// [`StoreError::Schema`], with the version that is there and the one needed.
    pub async fn check_schema(&self) -> Result<()> {
        let needed = MIGRATIONS.iter().map(|it| it.version).max().unwrap_or(0);
        let made: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
            .fetch_one(&self.reads)
            .await
            .map_err(failed)?;
        let there: i64 = if made {
            sqlx::query_scalar(
                "SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success",
            )
            .fetch_one(&self.reads)
            .await
            .map_err(failed)?
        } else {
            0
        };
        if there == needed {
            return Ok(());
        }
        Err(StoreError::Schema(format!(
            "the schema is at version {there}, this program works with version {needed}"
        )))
    }

    /// A server that went away without a word would be waited for without an end.
    async fn patient<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.answer_timeout;
        let away = |_| StoreError::Away(format!("no answer within {limit:?}"));
        tokio::time::timeout(limit, work).await.map_err(away)?
    }
}

fn pool(options: &StoreOptions, connections: u32, session: &'static str) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections.max(1))
        .acquire_timeout(options.acquire_timeout)
        .acquire_slow_threshold(Duration::from_secs(1))
        .after_connect(move |connection, _| {
            Box::pin(async move {
                sqlx::raw_sql(SESSION).execute(&mut *connection).await?;
                sqlx::raw_sql(session).execute(connection).await?;
                Ok(())
            })
        })
}

#[async_trait]
impl Store for PostgresStore {
    async fn load(&self, accounts: &[AccountKey]) -> Result<Vec<Page>> {
        self.patient(load::load(&self.ledger, accounts)).await
    }

    async fn lookup(&self, keys: &[EventKey]) -> Result<Vec<Record>> {
        self.patient(load::lookup(&self.ledger, keys)).await
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        let committed = self.patient(commit::commit(&self.ledger, plan)).await;
        self.doubt.noted(committed)
    }

    async fn locked(&self, accounts: &[AccountKey]) -> Result<Vec<AccountKey>> {
        self.patient(load::locked(&self.ledger, accounts)).await
    }

    async fn set_aside(&self, letters: &[Letter], at: Timestamp) -> Result<()> {
        let kept = self.patient(aside::set_aside(&self.ledger, letters, at));
        self.doubt.noted(kept.await)
    }

    async fn count_copies(&self, copies: &[(EventKey, i64)], at: Timestamp) -> Result<()> {
        let counted = self.patient(aside::copies(&self.ledger, copies, at));
        self.doubt.noted(counted.await)
    }

    async fn due(&self, limit: i64) -> Result<Vec<AccountKey>> {
        sweep::due(&self.reads, limit).await
    }

    async fn expired(&self, parked_before: Timestamp, limit: i64) -> Result<Vec<Waiting>> {
        sweep::expired(&self.reads, parked_before, limit).await
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

    async fn ping(&self) -> Result<()> {
        let pools = [&self.reads, &self.walks];
        self.patient(self.prober.writable(&self.ledger, &pools))
            .await?;
        if self.doubt.stands() {
            self.patient(aside::prove(&self.ledger)).await?;
            self.doubt.settle();
        }
        Ok(())
    }

    async fn totals(&self, tenant: &str, at: Option<Timestamp>) -> Result<Vec<Totals>> {
        totals::totals(&self.walks, tenant, at).await
    }

    async fn verify(&self) -> Result<Verified> {
        verify::verify(&self.reads).await
    }

    async fn close(&self) {
        self.ledger.close().await;
        self.prober.close().await;
        self.reads.close().await;
        self.walks.close().await;
    }
}
