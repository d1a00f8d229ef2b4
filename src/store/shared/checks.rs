//! Walking over the checks of `verify` in one snapshot.
//!
//! What lives here: what is done with the statements of both databases; compiled
//! into both databases' modules (`#[path]`). What must not: the statements. Each
//! answers with offenders only, so that a long history costs time and no memory.

use super::{Db, failed, totals};
use crate::store::{Offence, Result, Verified};

type Connection = <Db as sqlx::Database>::Connection;

/// Counts and checks; `connection` stands in a snapshot. Each check takes the most rows
/// that it may answer, and answers tenant, account and what is wrong.
pub(super) async fn run(
    connection: &mut Connection,
    accounts: &'static str,
    entries: &'static str,
    checks: &[&'static str],
) -> Result<Verified> {
    let mut verified = Verified {
        accounts: count(connection, accounts).await?,
        entries: count(connection, entries).await?,
        offences: Vec::new(),
    };
    for check in checks {
        let room = Verified::OFFENCES_MAX - verified.offences.len();
        let rows: Vec<(String, String, String)> = sqlx::query_as(*check)
            .bind(i64::try_from(room).unwrap_or(i64::MAX))
            .fetch_all(&mut *connection)
            .await
            .map_err(failed)?;
        let offences = rows.into_iter().map(|(tenant, account_id, what)| Offence {
            tenant,
            account_id,
            what,
        });
        verified.offences.extend(offences);
    }
    let totals = totals::disagreements(connection).await?;
    verified.offences.extend(totals);
    verified.offences.truncate(Verified::OFFENCES_MAX);
    Ok(verified)
}

async fn count(connection: &mut Connection, sql: &'static str) -> Result<i64> {
    sqlx::query_scalar(sql)
        .fetch_one(connection)
        .await
        .map_err(failed)
}
