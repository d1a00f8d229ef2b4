//! What the path of an event reads: pages, known identities, and who is locked.
//!
//! What must not be here: the reads of the outside, which are the same on both
//! databases.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

use super::{
    connections::Connections,
    error::failed,
    rows::{self, Cells},
    unit::Loan,
};
use crate::{
    domain::{Account, AccountKey, EventKey, Page, RELEASE_MAX, Record},
    store::Result,
};

/// Reads the pages of accounts, in the order asked for: one statement, and a
/// second one only where something waits. What was parked after the first one's
/// snapshot has moved the revision, and the commit notices.
pub(super) async fn load(connections: &Connections, keys: &[AccountKey]) -> Result<Vec<Page>> {
    let mut loan = Loan::of(connections).await?;
    let pages = pages(loan.connection(), keys).await;
    loan.back(pages)
}

async fn pages(connection: &mut PgConnection, keys: &[AccountKey]) -> Result<Vec<Page>> {
    let mut pages: Vec<Page> = Vec::new();
    pages.resize_with(keys.len(), Page::default);
    let mut waited_for = FxHashMap::default();
    for (place, account, waits) in accounts(&mut *connection, keys).await? {
        if waits {
            waited_for.insert(account.row, place);
        }
        pages[place].account = Some(account);
    }
    if waited_for.is_empty() {
        return Ok(pages);
    }
    for (row, record) in waiting(connection, waited_for.keys().copied().collect()).await? {
        if let Some(place) = waited_for.get(&row) {
            pages[*place].waiting.push(Arc::new(record));
        }
    }
    for page in &mut pages {
        cut(page);
    }
    Ok(pages)
}

/// Accounts with their place among the keys, and whether something waits.
async fn accounts(
    connection: &mut PgConnection,
    keys: &[AccountKey],
) -> Result<Vec<(usize, Account, bool)>> {
    let sql = format!(
        "SELECT w.place - 1,
            EXISTS (SELECT FROM event e WHERE e.account = a.id AND e.version IS NULL AND e.status = 'parked'), {}
         FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (tenant, account_id, place)
         JOIN account a ON a.tenant = w.tenant AND a.account_id = w.account_id",
        rows::ACCOUNT
    );
    let (tenants, ids): (Vec<&str>, Vec<&str>) =
        keys.iter().map(|key| (&*key.tenant, &*key.id)).unzip();
    let found = sqlx::query(AssertSqlSafe(sql))
        .bind(tenants)
        .bind(ids)
        .fetch_all(connection)
        .await
        .map_err(failed)?;
    let read = |row| {
        let mut cells = Cells::of(row, "account");
        let place: i64 = cells.take()?;
        let waits = cells.take()?;
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        Ok((place, rows::account(&mut cells)?, waits))
    };
    found.iter().map(read).collect()
}

/// What waits for these accounts, versioned ones first, one more of each kind
/// than a page carries.
async fn waiting(connection: &mut PgConnection, accounts: Vec<i64>) -> Result<Vec<(i64, Record)>> {
    let limit = RELEASE_MAX + 1;
    // Both halves walk `event_parked_idx` in its own order.
    let sql = format!(
        "SELECT e.account, {}
         FROM unnest($1::bigint[]) AS w (account)
         CROSS JOIN LATERAL (
            (SELECT * FROM event v
             WHERE v.account = w.account AND v.version IS NULL AND v.status = 'parked' AND v.expected_version IS NOT NULL
             ORDER BY v.expected_version, v.seq LIMIT {limit})
            UNION ALL
            (SELECT * FROM event u
             WHERE u.account = w.account AND u.version IS NULL AND u.status = 'parked' AND u.expected_version IS NULL
             ORDER BY u.expected_version, u.seq LIMIT {limit})
         ) AS e
         LEFT JOIN event_detail d ON d.key = e.key
         ORDER BY e.account, e.expected_version, e.seq",
        rows::RECORD
    );
    let found = sqlx::query(AssertSqlSafe(sql))
        .bind(accounts)
        .fetch_all(connection)
        .await
        .map_err(failed)?;
    let read = |row| {
        let mut cells = Cells::of(row, "event");
        Ok((cells.take()?, rows::record(&mut cells)?))
    };
    found.iter().map(read).collect()
}

/// Takes what is past the page's limit away, and notes that there is more.
fn cut(page: &mut Page) {
    let waiting = std::mem::take(&mut page.waiting);
    let (mut versioned, mut unversioned): (Vec<_>, Vec<_>) = waiting
        .into_iter()
        .partition(|record| record.event.content.expected_version.is_some());
    page.more_versioned = versioned.len() > RELEASE_MAX;
    page.more_unversioned = unversioned.len() > RELEASE_MAX;
    versioned.truncate(RELEASE_MAX);
    unversioned.truncate(RELEASE_MAX);
    versioned.append(&mut unversioned);
    page.waiting = versioned;
}

/// The records of those identities that are known.
pub(super) async fn lookup(connections: &Connections, keys: &[EventKey]) -> Result<Vec<Record>> {
    let sql = format!(
        "SELECT {} FROM event e LEFT JOIN event_detail d ON d.key = e.key WHERE e.key = ANY ($1)",
        rows::RECORD
    );
    let keys: Vec<Uuid> = keys.iter().copied().map(rows::uuid).collect();
    let mut loan = Loan::of(connections).await?;
    let found = sqlx::query(AssertSqlSafe(sql))
        .bind(keys)
        .fetch_all(loan.connection())
        .await
        .map_err(failed);
    loan.back(found)?
        .iter()
        .map(|row| rows::record(&mut Cells::of(row, "event")))
        .collect()
}

/// Of these accounts those that somebody else holds right now. The locks taken
/// to find out end with the statement.
const LOCKED: &str = "\
WITH asked AS (
    SELECT a.id, a.tenant, a.account_id
    FROM unnest($1::text[], $2::text[]) AS w (tenant, account_id)
    JOIN account a ON a.tenant = w.tenant AND a.account_id = w.account_id
), free AS MATERIALIZED (
    SELECT a.id FROM account a WHERE a.id IN (SELECT id FROM asked)
    FOR NO KEY UPDATE OF a SKIP LOCKED
)
SELECT tenant, account_id FROM asked WHERE id NOT IN (SELECT id FROM free)";

/// Which of these accounts are locked.
pub(super) async fn locked(
    connections: &Connections,
    keys: &[AccountKey],
) -> Result<Vec<AccountKey>> {
    let (tenants, ids): (Vec<&str>, Vec<&str>) =
        keys.iter().map(|key| (&*key.tenant, &*key.id)).unzip();
    let mut loan = Loan::of(connections).await?;
    let rows: Result<Vec<(String, String)>> = sqlx::query_as(LOCKED)
        .bind(tenants)
        .bind(ids)
        .fetch_all(loan.connection())
        .await
        .map_err(failed);
    Ok(loan
        .back(rows)?
        .into_iter()
        .map(|(tenant, id)| AccountKey::new(tenant, id))
        .collect())
}
