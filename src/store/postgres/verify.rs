//! Every invariant, checked in one snapshot while the service works. The
//! database does the walking and answers with nothing but offenders, so that a
//! long history costs time and no memory.
//!
//! Money is added up as `numeric`: a sum that leaves 64 bits is found, not hidden
//! by an error.

use sqlx::PgPool;

use super::{
    checks,
    unit::{Loan, Unit},
};
use crate::store::{Result, Verified};

const ACCOUNTS: &str = "SELECT count(*) FROM account WHERE version >= 1";
const ENTRIES: &str = "SELECT count(*) FROM event WHERE version IS NOT NULL";

/// Along each account's entries by version: each is looked at beside the one
/// before it. The walk follows `event_account_version_key`. Of each entry the
/// first fault is named; CASE builds its words only where there is one.
const CHAIN: &str = "\
SELECT tenant, account_id, 'version ' || version || ': ' || fault
FROM (
    SELECT e.tenant, e.account_id, e.version, CASE
        WHEN e.version <> coalesce(e.version_before + 1, 1)
        THEN 'the entry before it is ' || coalesce(e.version_before::text, 'missing')
        WHEN (e.type = 'opening') <> (e.version = 1)
          OR e.type NOT IN ('opening', 'debit', 'credit')
          OR e.type <> 'opening' AND e.amount < 1
        THEN 'an entry of type ' || e.type || ' over ' || e.amount
        WHEN e.balance_after IS NULL
          OR e.balance_after <> coalesce(e.balance_before::numeric, 0)
              + CASE WHEN e.type = 'debit' THEN -e.amount::numeric ELSE e.amount END
        THEN 'balance ' || coalesce(e.balance_after::text, 'missing') || ' does not follow from '
            || coalesce(e.balance_before, 0) || ' and a ' || e.type || ' over ' || e.amount
        WHEN e.decided_at < e.decided_before
        THEN 'applied before the entry before it'
        WHEN e.type = 'debit' AND e.balance_after < e.floor
        THEN 'balance ' || e.balance_after || ' is below the floor ' || e.floor
        WHEN e.expected_version <> e.version - 1
        THEN 'it expected version ' || e.expected_version
        WHEN e.currency <> a.currency
        THEN 'currency ' || e.currency || ' on an account in ' || a.currency
    END AS fault
    FROM (
        SELECT v.*,
            lag(v.version) OVER chain AS version_before,
            lag(v.balance_after) OVER chain AS balance_before,
            lag(v.decided_at) OVER chain AS decided_before
        FROM event v WHERE v.version IS NOT NULL
        WINDOW chain AS (PARTITION BY v.account ORDER BY v.version)
    ) AS e
    LEFT JOIN account a ON a.id = e.account
) AS entry
WHERE fault IS NOT NULL
LIMIT $1";

/// Each account against its last entry.
const STATES: &str = "\
SELECT tenant, account_id, fault
FROM (
    SELECT a.tenant, a.account_id, CASE
        WHEN a.version <> coalesce(last.version, 0)
        THEN 'the account is at version ' || a.version || ', its last entry is '
            || coalesce(last.version::text, 'missing')
        WHEN a.balance <> coalesce(last.balance_after, 0)
        THEN 'the account''s balance is ' || a.balance || ', after its last entry '
            || coalesce(last.balance_after, 0)
        WHEN (a.version = 0) <> (a.status = 'awaited')
          OR a.status NOT IN ('awaited', 'open', 'frozen', 'closed')
        THEN 'status ' || a.status || ' at version ' || a.version
        WHEN a.version >= 1 AND a.currency IS NULL
        THEN 'no currency'
        WHEN a.status = 'closed' AND a.balance <> 0
        THEN 'closed with a balance of ' || a.balance
    END AS fault
    FROM account a
    LEFT JOIN LATERAL (
        SELECT e.version, e.balance_after FROM event e
        WHERE e.account = a.id AND e.version IS NOT NULL ORDER BY e.version DESC LIMIT 1
    ) AS last ON true
) AS state
WHERE fault IS NOT NULL
LIMIT $1";

/// Each event against its account and its own identity: a key that belongs to
/// the texts, and that stands once, says that no identity stands twice.
const EVENTS: &str = "\
SELECT tenant, account_id, 'event ' || event_id || ' of ' || source || ': ' || fault
FROM (
    SELECT e.tenant, e.account_id, e.event_id, e.source, CASE
        WHEN a.id IS NULL
        THEN 'its account is missing'
        WHEN a.tenant <> e.tenant OR a.account_id <> e.account_id
        THEN 'it stands on account ' || a.account_id || ' of tenant ' || a.tenant
        WHEN uuid_send(e.key) <> substring(sha256(
                int8send(octet_length(e.tenant)::bigint) || convert_to(e.tenant, 'UTF8')
                || int8send(octet_length(e.source)::bigint) || convert_to(e.source, 'UTF8')
                || int8send(octet_length(e.event_id)::bigint) || convert_to(e.event_id, 'UTF8')
            ) FROM 1 FOR 16)
        THEN 'its key is not the one of its identity'
        WHEN e.status NOT IN ('pending', 'applied', 'rejected', 'parked', 'dead', 'discarded')
          OR (e.status = 'applied') <> (e.version IS NOT NULL AND e.balance_after IS NOT NULL)
        THEN 'status ' || e.status || ' with version ' || coalesce(e.version::text, 'none')
    END AS fault
    FROM event e LEFT JOIN account a ON a.id = e.account
) AS known
WHERE fault IS NOT NULL
LIMIT $1";

/// Each reversal names an entry of its account before it, opposite and of the
/// same amount. That each entry has at most one follows from the identity.
const REVERSALS: &str = "\
SELECT e.tenant, e.account_id, 'version ' || e.version || ': ' || e.event_id || ' names no entry that it reverses'
FROM event e
WHERE e.source = 'onceledger.reversal' AND e.version IS NOT NULL
  AND NOT EXISTS (
    SELECT FROM event o
    WHERE o.account = e.account AND o.version < e.version AND o.amount = e.amount
      AND o.source <> e.source
      AND (o.type, e.type) IN (('debit', 'credit'), ('credit', 'debit'))
      AND o.version = CASE WHEN e.event_id ~ ':v[0-9]{1,18}$'
                           THEN substring(e.event_id FROM ':v([0-9]{1,18})$')::bigint END
      AND e.event_id = e.account_id || ':v' || o.version)
LIMIT $1";

/// No identity stands twice, whatever became of the constraint.
const IDENTITIES: &str = "\
SELECT min(e.tenant), min(e.account_id), 'event ' || min(e.event_id) || ' of ' || min(e.source) || ' stands ' || count(*) || ' times'
FROM event e GROUP BY e.key HAVING count(*) > 1
LIMIT $1";

/// Checks everything.
pub(super) async fn verify(pool: &PgPool) -> Result<Verified> {
    let loan = Loan::of_pool(pool).await?;
    let mut unit = Unit::begin(loan, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let statements = [CHAIN, STATES, EVENTS, REVERSALS, IDENTITIES];
    let verified = checks::run(unit.connection(), ACCOUNTS, ENTRIES, &statements).await;
    unit.roll_back().await;
    verified
}
