//! Every invariant, checked in one snapshot while the service works. The
//! database does the walking and answers with nothing but offenders, so that a
//! long history costs time and no memory.
//!
//! A sum that leaves 64 bits becomes a float in SQLite, which may even equal the
//! integer it should not: its type is looked at, not only its value.

use futures_util::TryStreamExt as _;
use sqlx::SqliteConnection;

use super::{Pool, checks, failed, rows::Cells};
use crate::{
    domain::Identity,
    store::{Offence, Result, Verified},
};

const ACCOUNTS: &str = "SELECT count(*) FROM account WHERE version >= 1";
const ENTRIES: &str = "SELECT count(*) FROM event WHERE version IS NOT NULL";

/// Along each account's entries by version: each is looked at beside the one
/// before it.
const CHAIN: &str = "\
WITH e AS (
    SELECT v.*,
        lag(v.version) OVER chain AS version_before,
        lag(v.decided_at) OVER chain AS decided_before,
        coalesce(lag(v.balance_after) OVER chain, 0) AS balance_before
    FROM event v WHERE v.version IS NOT NULL
    WINDOW chain AS (PARTITION BY v.account ORDER BY v.version)
), follows AS (
    SELECT e.*, CASE WHEN e.type = 'debit' THEN e.balance_before - e.amount
                     ELSE e.balance_before + e.amount END AS balance_due
    FROM e
), faults AS (
    SELECT e.tenant, e.account_id, e.version, concat_ws('; ',
        CASE WHEN e.version <> coalesce(e.version_before, 0) + 1
             THEN 'the entry before it is ' || coalesce(e.version_before, 'missing') END,
        CASE WHEN (e.type = 'opening') <> (e.version = 1)
             THEN 'an entry of type ' || e.type END,
        CASE WHEN e.type NOT IN ('opening', 'debit', 'credit') OR e.type <> 'opening' AND e.amount < 1
             THEN 'an entry of type ' || e.type || ' over ' || e.amount END,
        CASE WHEN e.balance_after <> e.balance_due OR typeof(e.balance_due) <> 'integer'
             THEN 'balance ' || e.balance_after || ' does not follow from ' || e.balance_before
                  || ' and a ' || e.type || ' over ' || e.amount END,
        CASE WHEN e.decided_at < e.decided_before
             THEN 'applied before the entry before it' END,
        CASE WHEN e.type = 'debit' AND e.balance_after < e.floor
             THEN 'balance ' || e.balance_after || ' is below the floor ' || e.floor END,
        CASE WHEN e.expected_version <> e.version - 1
             THEN 'it expected version ' || e.expected_version END,
        CASE WHEN e.currency <> a.currency
             THEN 'currency ' || e.currency || ' on an account in ' || a.currency END
    ) AS what
    FROM follows e LEFT JOIN account a ON a.id = e.account
)
SELECT tenant, account_id, 'version ' || version || ': ' || what
FROM faults WHERE what <> '' LIMIT $1";

/// Each account against its last entry.
const STATES: &str = "\
WITH faults AS (
    SELECT a.tenant, a.account_id, concat_ws('; ',
        CASE WHEN a.version <> coalesce(e.version, 0)
             THEN 'the account is at version ' || a.version || ', its last entry is '
                  || coalesce(e.version, 'missing') END,
        CASE WHEN a.balance <> coalesce(e.balance_after, 0)
             THEN 'the account''s balance is ' || a.balance || ', after its last entry '
                  || coalesce(e.balance_after, 0) END,
        CASE WHEN (a.version = 0) <> (a.status = 'awaited')
                  OR a.status NOT IN ('awaited', 'open', 'frozen', 'closed')
             THEN 'status ' || a.status || ' at version ' || a.version END,
        CASE WHEN a.version >= 1 AND a.currency IS NULL THEN 'no currency' END,
        CASE WHEN a.status = 'closed' AND a.balance <> 0
             THEN 'closed with a balance of ' || a.balance END
    ) AS what
    FROM account a LEFT JOIN event e ON e.account = a.id
        AND e.version = (SELECT max(version) FROM event WHERE account = a.id AND version IS NOT NULL)
)
SELECT tenant, account_id, what FROM faults WHERE what <> '' LIMIT $1";

/// Each event against its account.
const EVENTS: &str = "\
WITH faults AS (
    SELECT e.tenant, e.account_id, e.source, e.event_id, concat_ws('; ',
        CASE WHEN a.id IS NULL THEN 'its account is missing' END,
        CASE WHEN a.tenant <> e.tenant OR a.account_id <> e.account_id
             THEN 'it stands on account ' || a.account_id || ' of tenant ' || a.tenant END,
        CASE WHEN e.status NOT IN ('pending', 'applied', 'rejected', 'parked', 'dead', 'discarded')
             THEN 'status ' || e.status END,
        CASE WHEN (e.status = 'applied') <> (e.version IS NOT NULL AND e.balance_after IS NOT NULL)
             THEN 'status ' || e.status || ' with version ' || coalesce(e.version, 'none') END
    ) AS what
    FROM event e LEFT JOIN account a ON a.id = e.account
)
SELECT tenant, account_id, 'event ' || event_id || ' of ' || source || ': ' || what
FROM faults WHERE what <> '' LIMIT $1";

/// Each reversal names an entry of its account before it, opposite and of the
/// same amount. That each entry has at most one follows from the identity.
const REVERSALS: &str = "\
SELECT e.tenant, e.account_id,
    'version ' || e.version || ': ' || e.event_id || ' names no entry that it reverses'
FROM event e
WHERE e.source = 'onceledger.reversal' AND e.version IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM event o
    WHERE o.account = e.account
      AND o.version = CAST(substr(e.event_id, length(e.account_id) + 3) AS INTEGER)
      AND e.event_id = e.account_id || ':v' || o.version
      AND o.version < e.version AND o.amount = e.amount AND o.source <> e.source
      AND (o.type, e.type) IN (VALUES ('debit', 'credit'), ('credit', 'debit')))
LIMIT $1";

/// No identity stands twice, whatever became of the constraint.
const IDENTITIES: &str = "\
SELECT min(e.tenant), min(e.account_id),
    'event ' || min(e.event_id) || ' of ' || min(e.source) || ' stands ' || count(*) || ' times'
FROM event e GROUP BY e.key HAVING count(*) > 1 LIMIT $1";

const KEYS: &str = "SELECT e.key, e.tenant, e.source, e.event_id, e.account_id FROM event e";

/// Checks everything.
pub(super) async fn verify(pool: &Pool) -> Result<Verified> {
    let mut snapshot = pool.begin().await.map_err(failed)?;
    let verified = walk(&mut snapshot).await;
    snapshot.rollback().await.map_err(failed)?;
    verified
}

async fn walk(connection: &mut SqliteConnection) -> Result<Verified> {
    let statements = [CHAIN, STATES, EVENTS, REVERSALS, IDENTITIES];
    let mut verified = checks::run(connection, ACCOUNTS, ENTRIES, &statements).await?;
    keys(connection, &mut verified.offences).await?;
    Ok(verified)
}

/// Each key is the one of its identity. SQLite knows no SHA-256, so that this
/// one check is made here, row by row.
async fn keys(connection: &mut SqliteConnection, offences: &mut Vec<Offence>) -> Result<()> {
    let mut rows = sqlx::query(KEYS).fetch(connection);
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        let mut cells = Cells::of(&row, "event");
        let key: &[u8] = cells.take()?;
        let identity = Identity::new(cells.text()?, cells.text()?, cells.text()?);
        if key != identity.key().0 && offences.len() < Verified::OFFENCES_MAX {
            offences.push(Offence {
                tenant: identity.tenant.to_string(),
                account_id: cells.take()?,
                what: format!(
                    "event {} of {}: its key is not the one of its identity",
                    identity.event_id, identity.source
                ),
            });
        }
    }
    Ok(())
}
