//! What the rules look at, and what the sweeper looks for.
//!
//! What lives here: the reads on the path of an event. What must not: writes,
//! and the reads that both databases share.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use sqlx::AssertSqlSafe;

use super::{
    Pool, failed,
    rows::{self, Cells},
};
use crate::{
    domain::{AccountKey, EventKey, Page, RELEASE_MAX, Raw, Record, Timestamp},
    store::{Result, StoreError, Waiting},
};

/// Most keys of one look-up; shorter ones are filled up to a power of two.
const KEYS_MAX: usize = 512;

/// The pages of accounts, in the order asked for, out of one snapshot.
pub(super) async fn load(pool: &Pool, accounts: &[AccountKey]) -> Result<Vec<Page>> {
    let mut snapshot = pool.begin().await.map_err(failed)?;
    let named: Vec<[&str; 2]> = accounts
        .iter()
        .map(|key| [&*key.tenant, &*key.id])
        .collect();
    let sql = format!(
        "SELECT j.key, EXISTS (SELECT 1 FROM event INDEXED BY event_parked_idx \
           WHERE account = a.id AND version IS NULL AND status = 'parked'), {} \
         FROM json_each($1) j CROSS JOIN account a \
         ON a.tenant = j.value ->> 0 AND a.account_id = j.value ->> 1",
        rows::ACCOUNT
    );
    let found = sqlx::query(AssertSqlSafe(sql))
        .bind(json(&named)?)
        .fetch_all(&mut *snapshot)
        .await
        .map_err(failed)?;
    let mut pages = vec![Page::default(); accounts.len()];
    let mut places: FxHashMap<i64, Vec<usize>> = FxHashMap::default();
    for row in &found {
        let mut cells = Cells::of(row, "account");
        let place: i64 = cells.take()?;
        let waited_for: bool = cells.take()?;
        let account = rows::account(&mut cells)?;
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        if waited_for {
            places.entry(account.row).or_default().push(place);
        }
        if let Some(page) = pages.get_mut(place) {
            page.account = Some(account);
        }
    }
    if !places.is_empty() {
        let rows: Vec<i64> = places.keys().copied().collect();
        let waiting = sqlx::query(AssertSqlSafe(waiting_sql()))
            .bind(json(&rows)?)
            .fetch_all(&mut *snapshot)
            .await
            .map_err(failed)?;
        let mut of_account: FxHashMap<i64, Vec<(i64, Record)>> = FxHashMap::default();
        for row in &waiting {
            let mut cells = Cells::of(row, "event");
            let account: i64 = cells.take()?;
            let seq: i64 = cells.take()?;
            let record = rows::record(&mut cells)?;
            of_account.entry(account).or_default().push((seq, record));
        }
        for (account, waiting) in of_account {
            let waiting = Waits::lined_up(waiting);
            for place in places.get(&account).into_iter().flatten() {
                if let Some(page) = pages.get_mut(*place) {
                    waiting.clone().put_on(page);
                }
            }
        }
    }
    snapshot.commit().await.map_err(failed)?;
    Ok(pages)
}

/// For each of some accounts the first events that wait, those with a version
/// and those without, each one more than a page carries.
fn waiting_sql() -> String {
    let first = |unversioned: u8| {
        format!(
            "SELECT seq FROM (SELECT seq FROM event INDEXED BY event_parked_idx \
             WHERE account = j.value AND version IS NULL AND status = 'parked' AND (expected_version IS NULL) = {unversioned} \
             ORDER BY expected_version, seq LIMIT {})",
            RELEASE_MAX + 1
        )
    };
    format!(
        "SELECT e.account, e.seq, {} FROM json_each($1) j \
         CROSS JOIN event e ON e.seq IN ({} UNION ALL {}) \
         LEFT JOIN event_detail d ON d.key = e.key",
        rows::RECORD,
        first(0),
        first(1)
    )
}

/// What waits for one account.
#[derive(Clone)]
struct Waits {
    first: Vec<Arc<Record>>,
    more_versioned: bool,
    more_unversioned: bool,
}

impl Waits {
    /// In the order of release, each group cut.
    fn lined_up(mut waiting: Vec<(i64, Record)>) -> Self {
        let expected = |record: &Record| record.event.content.expected_version;
        waiting.sort_unstable_by_key(|(seq, record)| {
            (expected(record).is_none(), expected(record), *seq)
        });
        let versioned = waiting.partition_point(|(_, record)| expected(record).is_some());
        let mut unversioned = waiting.split_off(versioned);
        let more_versioned = waiting.len() > RELEASE_MAX;
        let more_unversioned = unversioned.len() > RELEASE_MAX;
        waiting.truncate(RELEASE_MAX);
        unversioned.truncate(RELEASE_MAX);
        let both = waiting.into_iter().chain(unversioned);
        Self {
            first: both.map(|(_, record)| Arc::new(record)).collect(),
            more_versioned,
            more_unversioned,
        }
    }

    fn put_on(self, page: &mut Page) {
        page.waiting = self.first;
        page.more_versioned = self.more_versioned;
        page.more_unversioned = self.more_unversioned;
    }
}

/// The records of those identities that are known.
pub(super) async fn lookup(pool: &Pool, keys: &[EventKey]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for part in keys.chunks(KEYS_MAX) {
        // A key that stands twice is found once.
        let length = part.len().next_power_of_two();
        let sql = format!(
            "SELECT {} FROM event e LEFT JOIN event_detail d ON d.key = e.key \
             WHERE e.key IN ({}?)",
            rows::RECORD,
            "?,".repeat(length - 1)
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for key in part.iter().chain(std::iter::repeat(&part[0])).take(length) {
            query = query.bind(key.0.to_vec());
        }
        let rows = query.fetch_all(pool).await.map_err(failed)?;
        for row in &rows {
            records.push(rows::record(&mut Cells::of(row, "event"))?);
        }
    }
    Ok(records)
}

/// Steps from account to account in the index of what waits, and looks at the
/// first ones of each. Nothing waits for an account that is opened: what still
/// says so is judged anew, as far as one transaction looks. The index is named, here
/// and wherever it is about what waits: SQLite takes the one of all that is set aside
/// for as good, which is walked from end to end for the least account.
fn due_sql() -> String {
    format!(
        "WITH RECURSIVE awaited (account) AS ( \
           SELECT min(account) FROM event INDEXED BY event_parked_idx \
           WHERE version IS NULL AND status = 'parked' \
           UNION ALL \
           SELECT (SELECT min(e.account) FROM event e INDEXED BY event_parked_idx \
                   WHERE e.version IS NULL AND e.status = 'parked' AND e.account > w.account) \
           FROM awaited w WHERE w.account IS NOT NULL \
         ) \
         SELECT a.tenant, a.account_id FROM awaited w CROSS JOIN account a ON a.id = w.account \
         WHERE a.version >= 1 AND ( \
           EXISTS (SELECT 1 FROM event INDEXED BY event_parked_idx \
                   WHERE account = a.id AND version IS NULL AND status = 'parked' \
                   AND (expected_version IS NULL) = 0 AND expected_version <= a.version) \
           OR EXISTS (SELECT 1 FROM event INDEXED BY event_parked_idx \
                   WHERE account = a.id AND version IS NULL AND status = 'parked' \
                      AND (expected_version IS NULL) = 1) \
           OR EXISTS (SELECT 1 FROM (SELECT reason FROM event INDEXED BY event_parked_idx \
                      WHERE account = a.id AND version IS NULL AND status = 'parked' AND (expected_version IS NULL) = 0 \
                      ORDER BY expected_version, seq LIMIT {RELEASE_MAX}) \
                      WHERE reason = 'account_not_found')) \
         LIMIT $1"
    )
}

/// Accounts for which something that waits is due at their version.
pub(super) async fn due(pool: &Pool, limit: i64) -> Result<Vec<AccountKey>> {
    let rows = sqlx::query(AssertSqlSafe(due_sql()))
        .bind(limit)
        .fetch_all(pool)
        .await
        .map_err(failed)?;
    rows.iter()
        .map(|row| {
            let mut cells = Cells::of(row, "account");
            Ok(AccountKey::new(cells.text()?, cells.text()?))
        })
        .collect()
}

/// Parked events that wait since that moment or longer, oldest first.
pub(super) async fn expired(
    pool: &Pool,
    parked_before: Timestamp,
    limit: i64,
) -> Result<Vec<Waiting>> {
    let sql = format!(
        "SELECT e.tenant, e.account_id, e.key, {} FROM event e INDEXED BY event_parked_since_idx \
         LEFT JOIN event_detail d ON d.key = e.key \
         WHERE e.version IS NULL AND e.status = 'parked' AND e.decided_at <= $1 ORDER BY e.decided_at, e.seq LIMIT $2",
        rows::RAW
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(parked_before.0)
        .bind(limit)
        .fetch_all(pool)
        .await
        .map_err(failed)?;
    rows.iter()
        .map(|row| {
            let mut cells = Cells::of(row, "event");
            Ok(Waiting {
                account: AccountKey::new(cells.text()?, cells.text()?),
                key: cells.key()?,
                raw: rows::raw(&mut cells)?.unwrap_or_else(nothing_kept),
            })
        })
        .collect()
}

/// Stands for a message that was not kept.
fn nothing_kept() -> Arc<Raw> {
    Arc::new(Raw {
        headers: Arc::from("{}"),
        ..Raw::default()
    })
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(error.to_string()))
}
