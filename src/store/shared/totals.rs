//! What a tenant's accounts hold together, by currency.
//!
//! What lives here: one statement that both databases understand alike; compiled
//! into both databases' modules (`#[path]`). What must not: anything that
//! writes. It walks the history, so it has a connection of its own.

use sqlx::AssertSqlSafe;

use super::{Db, Pool, failed, rows::Cells};
use crate::{
    domain::Timestamp,
    store::{Offence, Result, StoreError, Totals},
};

type Connection = <Db as sqlx::Database>::Connection;

const OCCUPIED: StoreError = StoreError::Occupied("another call walks the history");

/// Sums up one snapshot: now, or at a moment.
pub(super) async fn totals(
    pool: &Pool,
    tenant: &str,
    at: Option<Timestamp>,
) -> Result<Vec<Totals>> {
    let mut alone = pool.acquire().await.map_err(|error| match error {
        sqlx::Error::PoolTimedOut => OCCUPIED,
        error => failed(error),
    })?;
    of(&mut alone, tenant, at).await
}

/// The same where a transaction is open already.
pub(super) async fn of(
    connection: &mut Connection,
    tenant: &str,
    at: Option<Timestamp>,
) -> Result<Vec<Totals>> {
    let sql = match at {
        None => sql("", NOW),
        Some(_) => sql("AND e.decided_at <= $2", THEN),
    };
    let mut query = sqlx::query(AssertSqlSafe(sql)).bind(tenant);
    if let Some(at) = at {
        query = query.bind(at.0);
    }
    let rows = query.fetch_all(connection).await.map_err(failed)?;
    rows.iter()
        .map(|row| {
            let mut cells = Cells::of(row, "account");
            Ok(Totals {
                currency: cells.text()?,
                accounts: cells.take()?,
                balances: whole(&mut cells)?,
                openings: whole(&mut cells)?,
                credits: whole(&mut cells)?,
                debits: whole(&mut cells)?,
            })
        })
        .collect()
}

/// Where the totals of a tenant do not agree; each sum by itself is made of rows that
/// the other does not look at.
pub(super) async fn disagreements(connection: &mut Connection) -> Result<Vec<Offence>> {
    let tenants: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT tenant FROM account WHERE version >= 1 ORDER BY tenant",
    )
    .fetch_all(&mut *connection)
    .await
    .map_err(failed)?;
    let mut offences = Vec::new();
    for tenant in tenants {
        for totals in of(connection, &tenant, None).await? {
            let due = totals.openings + totals.credits - totals.debits;
            if due != totals.balances {
                offences.push(Offence {
                    tenant: tenant.clone(),
                    account_id: format!("all in {}", totals.currency),
                    what: format!(
                        "openings {} + credits {} - debits {} = {due}, and the balances are {}",
                        totals.openings, totals.credits, totals.debits, totals.balances
                    ),
                });
            }
        }
    }
    Ok(offences)
}

/// What accounts hold now.
const NOW: &str = "SELECT currency, balance FROM account WHERE tenant = $1 AND version >= 1";

/// What accounts held then: the balance after the last entry of each.
const THEN: &str = "SELECT a.currency, e.balance_after AS balance \
     FROM (SELECT account, max(version) AS version FROM event \
           WHERE tenant = $1 AND version IS NOT NULL AND decided_at <= $2 GROUP BY account) l \
     JOIN account a ON a.id = l.account \
     JOIN event e ON e.account = l.account AND e.version = l.version";

fn sql(until: &str, balances: &str) -> String {
    format!(
        "WITH held AS ({balances}), \
         balances AS (SELECT currency, count(*) AS accounts, {} FROM held GROUP BY currency), \
         entries AS (SELECT a.currency, {}, {}, {} \
           FROM event e JOIN account a ON a.id = e.account \
           WHERE e.tenant = $1 AND e.version IS NOT NULL {until} GROUP BY a.currency) \
         SELECT b.currency, b.accounts, b.balance_high, b.balance_low, \
           coalesce(e.opening_high, 0), coalesce(e.opening_low, 0), \
           coalesce(e.credit_high, 0), coalesce(e.credit_low, 0), \
           coalesce(e.debit_high, 0), coalesce(e.debit_low, 0) \
         FROM balances b LEFT JOIN entries e ON e.currency = b.currency \
         WHERE b.currency IS NOT NULL ORDER BY b.currency",
        halves("balance", "balance"),
        halves(
            "CASE WHEN e.type = 'opening' THEN e.amount ELSE 0 END",
            "opening"
        ),
        halves(
            "CASE WHEN e.type = 'credit' THEN e.amount ELSE 0 END",
            "credit"
        ),
        halves(
            "CASE WHEN e.type = 'debit' THEN e.amount ELSE 0 END",
            "debit"
        ),
    )
}

/// A sum may need more than 64 bits, which SQLite calls an error: the upper and the
/// lower half of each number are summed apart, and neither sum leaves 64 bits before
/// there are two thousand million rows.
fn halves(number: &str, name: &str) -> String {
    format!(
        "CAST(sum(({number}) >> 32) AS bigint) AS {name}_high, \
         CAST(sum(({number}) & 4294967295) AS bigint) AS {name}_low"
    )
}

fn whole(cells: &mut Cells<'_>) -> Result<i128> {
    let (high, low): (i64, i64) = (cells.take()?, cells.take()?);
    Ok((i128::from(high) << 32) + i128::from(low))
}
