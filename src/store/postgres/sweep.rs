//! What the sweeper asks: what is due, and what has waited too long.

use sqlx::{AssertSqlSafe, PgPool};

use super::{
    error::failed,
    rows::{self, Cells},
};
use crate::{
    domain::{AccountKey, Timestamp},
    store::{Result, Waiting},
};

/// Walks what is parked, never the accounts: few events wait, many accounts don't.
/// What can move comes before what only waits for another reason now than its
/// row says, so that many of the latter hold nobody up.
const DUE: &str = "\
SELECT a.tenant, a.account_id
FROM event e JOIN account a ON a.id = e.account
WHERE e.version IS NULL AND e.status = 'parked' AND a.version >= 1
  AND (e.expected_version <= a.version OR e.expected_version IS NULL OR e.reason = 'account_not_found')
GROUP BY a.id
ORDER BY bool_or(e.expected_version IS NULL OR e.expected_version <= a.version) DESC, min(e.seq)
LIMIT $1";

/// Accounts for which something that waits is due.
pub(super) async fn due(pool: &PgPool, limit: i64) -> Result<Vec<AccountKey>> {
    let rows: Vec<(String, String)> = sqlx::query_as(DUE)
        .bind(limit)
        .fetch_all(pool)
        .await
        .map_err(failed)?;
    Ok(rows
        .into_iter()
        .map(|(tenant, id)| AccountKey::new(tenant, id))
        .collect())
}

/// Parked events that wait since before a moment, oldest first.
pub(super) async fn expired(
    pool: &PgPool,
    parked_before: Timestamp,
    limit: i64,
) -> Result<Vec<Waiting>> {
    let sql = format!(
        "SELECT e.tenant, e.account_id, e.key, {}
         FROM event e LEFT JOIN event_detail d ON d.key = e.key
         WHERE e.version IS NULL AND e.status = 'parked' AND e.decided_at <= $1
         ORDER BY e.decided_at, e.seq LIMIT $2",
        rows::RAW
    );
    let found = sqlx::query(AssertSqlSafe(sql))
        .bind(parked_before.0)
        .bind(limit)
        .fetch_all(pool)
        .await
        .map_err(failed)?;
    let read = |row| {
        let mut cells = Cells::of(row, "event");
        Ok(Waiting {
            account: AccountKey::new(cells.text()?, cells.text()?),
            key: cells.key()?,
            raw: rows::raw(&mut cells)?.unwrap_or_default(),
        })
    };
    found.iter().map(read).collect()
}
