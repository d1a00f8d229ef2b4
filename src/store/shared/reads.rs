//! Reading accounts and their history, as the outside sees them.
//!
//! What lives here: statements that both databases understand alike; compiled
//! into both databases' modules (`#[path]`). What must not: anything that
//! writes, and what only one of the two understands. A place for events that
//! came before their account (version 0) is no account here.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, QueryBuilder};

use super::{
    Db, Pool, failed,
    rows::{self, Cells},
};
use crate::{
    domain::{Account, AccountKey, Record, Timestamp},
    store::{AccountFilter, Direction, Result},
};

/// Sorts behind every character that an account id may have.
const LAST_CHARACTER: char = '\u{10FFFF}';

/// One account.
pub(super) async fn account(pool: &Pool, key: &AccountKey) -> Result<Option<Account>> {
    let sql = format!(
        "SELECT {} FROM account a WHERE a.tenant = $1 AND a.account_id = $2 AND a.version >= 1",
        rows::ACCOUNT
    );
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(&*key.tenant)
        .bind(&*key.id)
        .fetch_optional(pool)
        .await
        .map_err(failed)?;
    row.as_ref()
        .map(|row| rows::account(&mut Cells::of(row, "account")))
        .transpose()
}

/// Accounts by id, after one.
pub(super) async fn accounts(
    pool: &Pool,
    tenant: &str,
    filter: &AccountFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<(Arc<str>, Account)>> {
    let texts = [&filter.currency, &filter.prefix];
    if unmatchable(texts.into_iter().flatten().map(String::as_str).chain(after)) {
        return Ok(Vec::new());
    }
    let mut query = QueryBuilder::<Db>::new("SELECT ");
    query
        .push(rows::ACCOUNT)
        .push(", a.account_id FROM account a WHERE a.version >= 1 AND a.tenant = ")
        .push_bind(tenant);
    if let Some(after) = after {
        query.push(" AND a.account_id > ").push_bind(after);
    }
    if let Some(currency) = &filter.currency {
        query
            .push(" AND a.currency = ")
            .push_bind(currency.as_str());
    }
    if let Some(status) = filter.status {
        query.push(" AND a.status = ").push_bind(status.as_str());
    }
    // A range of the index; LIKE would give % and _ a meaning.
    if let Some(prefix) = &filter.prefix {
        query
            .push(" AND a.account_id >= ")
            .push_bind(prefix.as_str())
            .push(" AND a.account_id < ")
            .push_bind(format!("{prefix}{LAST_CHARACTER}"));
    }
    query.push(" ORDER BY a.account_id LIMIT ").push_bind(limit);
    let rows = query.build().fetch_all(pool).await.map_err(failed)?;
    rows.iter()
        .map(|row| {
            let mut cells = Cells::of(row, "account");
            let account = rows::account(&mut cells)?;
            Ok((cells.text()?, account))
        })
        .collect()
}

/// One entry of an account's history, with its metadata.
pub(super) async fn entry(pool: &Pool, key: &AccountKey, version: i64) -> Result<Option<Record>> {
    let sql = format!("{} AND e.version = $3", entries());
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(&*key.tenant)
        .bind(&*key.id)
        .bind(version)
        .fetch_optional(pool)
        .await
        .map_err(failed)?;
    row.as_ref()
        .map(|row| rows::record(&mut Cells::of(row, "event")))
        .transpose()
}

/// The newest version of an account at a moment. Since `applied_at` never goes back
/// while versions rise, half of what is left is passed over at each step: some 25
/// probes of the history's index find one among 20 million, and no index has to be
/// kept for it.
pub(super) async fn version_at(
    pool: &Pool,
    key: &AccountKey,
    at: Timestamp,
) -> Result<Option<i64>> {
    let found: Option<i64> = sqlx::query_scalar(VERSION_AT)
        .bind(&*key.tenant)
        .bind(&*key.id)
        .bind(at.0)
        .fetch_optional(pool)
        .await
        .map_err(failed)?;
    Ok(found.filter(|version| *version >= 1))
}

/// The version looked for is one of `low` to `high`; 0 stands for none.
const VERSION_AT: &str = "\
WITH RECURSIVE search (account, low, high) AS ( \
  SELECT id, CAST(0 AS bigint), version FROM account WHERE tenant = $1 AND account_id = $2 \
  UNION ALL \
  SELECT s.account, CASE WHEN e.decided_at <= $3 THEN e.version ELSE s.low END, \
    CASE WHEN e.decided_at <= $3 THEN s.high ELSE e.version - 1 END \
  FROM search s JOIN event e ON e.account = s.account \
    AND e.version = s.high - (s.high - s.low) / 2 \
  WHERE s.low < s.high \
) \
SELECT low FROM search WHERE low = high";

/// Entries past a version in one direction, with their metadata.
pub(super) async fn history(
    pool: &Pool,
    key: &AccountKey,
    after: Option<i64>,
    direction: Direction,
    limit: i64,
) -> Result<Vec<Record>> {
    let (after, past) = match direction {
        Direction::Ascending => (after.unwrap_or(0), "e.version > $3 ORDER BY e.version"),
        Direction::Descending => (
            after.unwrap_or(i64::MAX),
            "e.version < $3 ORDER BY e.version DESC",
        ),
    };
    let sql = format!("{} AND {past} LIMIT $4", entries());
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(&*key.tenant)
        .bind(&*key.id)
        .bind(after)
        .bind(limit)
        .fetch_all(pool)
        .await
        .map_err(failed)?;
    rows.iter()
        .map(|row| rows::record(&mut Cells::of(row, "event")))
        .collect()
}

/// Whether a text can't be in the books: U+0000 is let into none of them, and
/// PostgreSQL would take it for an error of ours.
pub(super) fn unmatchable<'a>(mut texts: impl Iterator<Item = &'a str>) -> bool {
    texts.any(|text| text.contains('\0'))
}

fn entries() -> String {
    format!(
        "SELECT {} FROM event e LEFT JOIN event_detail d ON d.key = e.key \
         WHERE e.account = (SELECT id FROM account WHERE tenant = $1 AND account_id = $2)",
        rows::RECORD
    )
}
