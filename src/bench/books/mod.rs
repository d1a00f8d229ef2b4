//! The database alone: the rows that the service would write, into the same
//! tables and indexes, by statements without rules, refusals or look-ups.
//!
//! What must not live here: the service's own statements. These are what it is
//! measured against.

mod postgres;
mod sqlite;

use std::time::Duration;

use rustc_hash::FxHashMap;

use super::workload::{Accounts, Draft, Workshop};
use crate::domain::{DEFAULT_TENANT, Identity, Timestamp};

/// Source of everything that is sent.
pub(super) const SOURCE: &str = "events";

/// What every account is opened with, in minor units: more than a run can take.
pub(super) const OPENING: i64 = 1_000_000_000_000_000;

/// The tables, reached by a pool of the measurement's own.
#[derive(Debug)]
pub(super) enum Books {
    Postgres(postgres::Books),
    Sqlite(sqlite::Books),
}

/// How the database alone is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Shape {
    /// One statement an event, which moves the account and writes the entry.
    PerEvent,
    /// One statement a batch, its accounts folded.
    Batch,
    /// The same on a schema of two narrow tables.
    Minimal,
}

/// One entry as it is written, made before the clock starts.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) account: i64,
    /// The version that it produces.
    pub(super) version: i64,
    pub(super) amount: i64,
    pub(super) balance_after: i64,
    pub(super) key: [u8; 16],
    pub(super) event_id: String,
    pub(super) account_id: String,
    pub(super) reference: String,
    /// When it is written, in microseconds since 1970.
    pub(super) at: i64,
}

/// What one account has in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Folded {
    pub(super) account: i64,
    /// Its version before the batch.
    pub(super) version: i64,
    pub(super) count: i64,
    pub(super) total: i64,
}

/// The accounts of the measurements without the service, as they stand.
#[derive(Debug, Default)]
pub(super) struct Standing {
    accounts: Accounts,
    /// For each: its row, version and balance.
    of: Vec<(i64, i64, i64)>,
}

impl Standing {
    /// Accounts that were just opened; `rows` are theirs, in order.
    pub(super) fn opened(accounts: Accounts, rows: Vec<i64>) -> Self {
        let of = rows.into_iter().map(|row| (row, 1, OPENING)).collect();
        Self { accounts, of }
    }

    /// The entries of a sample. All of them must be written.
    pub(super) fn entries(
        &mut self,
        drafts: &[Draft],
        workshop: &Workshop,
        at: Timestamp,
    ) -> Vec<Entry> {
        let entry = |draft: &Draft| {
            let (row, version, balance) = self.of.get_mut(draft.account as usize)?;
            *version += 1;
            *balance -= draft.amount;
            let event_id = workshop.event_id(draft.number);
            Some(Entry {
                account: *row,
                version: *version,
                amount: draft.amount,
                balance_after: *balance,
                key: Identity::new(DEFAULT_TENANT, SOURCE, event_id.as_str())
                    .key()
                    .0,
                event_id,
                account_id: self.accounts.id(draft.account),
                reference: format!("order-{:012}", draft.number),
                at: at.0,
            })
        };
        drafts.iter().filter_map(entry).collect()
    }
}

impl Books {
    /// Connects, with room for this many connections at once.
    pub(super) async fn connect(url: &str, connections: u32) -> anyhow::Result<Self> {
        Ok(if url.starts_with("sqlite:") {
            Self::Sqlite(sqlite::Books::connect(url).await?)
        } else {
            Self::Postgres(postgres::Books::connect(url, connections).await?)
        })
    }

    /// Which database it is, with its version and the settings that decide its speed.
    pub(super) async fn about(&self) -> anyhow::Result<String> {
        match self {
            Self::Postgres(books) => books.about().await,
            Self::Sqlite(books) => books.about().await,
        }
    }

    /// Connections at once that are worth measuring.
    pub(super) fn connections(&self, shape: Shape) -> &'static [usize] {
        match (self, shape) {
            (Self::Sqlite(_), _) => &[1],
            (Self::Postgres(_), Shape::PerEvent) => &[1, 8, 32],
            (Self::Postgres(_), _) => &[1, 2],
        }
    }

    /// The rows of accounts, by their ids in order.
    pub(super) async fn rows(&self, accounts: Accounts) -> anyhow::Result<Vec<i64>> {
        let prefix = accounts.prefix;
        let pattern = format!("{prefix}-%");
        match self {
            Self::Postgres(books) => books.rows(&pattern).await,
            Self::Sqlite(books) => books.rows(&pattern).await,
        }
    }

    /// Makes what is measured beside the service's tables: two narrow ones, with an
    /// account for each row.
    pub(super) async fn make_beside(&self, rows: &[i64]) -> anyhow::Result<()> {
        match self {
            Self::Postgres(books) => books.make_beside(rows).await,
            Self::Sqlite(_) => Ok(()),
        }
    }

    /// Writes entries, so many in one transaction, over so many connections, and
    /// says how long it took.
    pub(super) async fn write(
        &self,
        shape: Shape,
        entries: Vec<Entry>,
        batch: usize,
        connections: usize,
    ) -> anyhow::Result<Duration> {
        match self {
            Self::Postgres(books) => books.write(shape, entries, batch, connections).await,
            Self::Sqlite(books) => books.write(shape, &entries, batch).await,
        }
    }

    /// Writes one entry the way a hand-written consumer does: a transaction with a
    /// statement for the account and one for the entry.
    pub(super) async fn write_one(&self, entry: &Entry) -> anyhow::Result<()> {
        match self {
            Self::Postgres(books) => books.write_one(entry).await,
            Self::Sqlite(books) => books.write_one(entry).await,
        }
    }

    /// Bytes that the table of events and each of its indexes take, and its rows.
    pub(super) async fn sizes(&self) -> anyhow::Result<(u64, Vec<(String, u64)>)> {
        match self {
            Self::Postgres(books) => books.sizes().await,
            Self::Sqlite(books) => books.sizes().await,
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Postgres(books) => books.close().await,
            Self::Sqlite(books) => books.close().await,
        }
    }
}

/// What each account has in a batch, by their rows in order.
fn fold(batch: &[Entry]) -> Vec<Folded> {
    let mut places: FxHashMap<i64, usize> = FxHashMap::default();
    let mut folded: Vec<Folded> = Vec::new();
    for entry in batch {
        let place = *places.entry(entry.account).or_insert_with(|| {
            folded.push(Folded {
                account: entry.account,
                version: entry.version - 1,
                count: 0,
                total: 0,
            });
            folded.len() - 1
        });
        folded[place].count += 1;
        folded[place].total += entry.amount;
    }
    folded.sort_unstable_by_key(|it| it.account);
    folded
}
