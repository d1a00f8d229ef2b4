//! The one statement that moves balances: it proves accounts current, locks
//! them, moves them and writes their events, in one round trip.
//!
//! What must not be here: anything that needs a second statement (see
//! [`super::commit`]).

use sqlx::{AssertSqlSafe, PgExecutor};

use super::{
    columns::DetailColumns,
    composites::{Events, Moves},
    error::failed,
    rows::Cells,
};
use crate::store::Result;

/// What is expected of accounts and what they become, in the order of their ids.
const WANTED: &str = "unnest($1::account_move[]) AS w";

/// Where every account moves. A row that moved while this waited for its lock is
/// judged by its newest version. The rows are met, and so locked, in the order
/// of their ids (a nested loop over the array, see the ledger's session), so that
/// two writers do not wait for each other; where a pooler lost those settings
/// they might, and one of them is told to try again.
const MOVE_ALL: &str = "\
proven AS (
    UPDATE account a
    SET balance = w.balance_after, version = w.version_after,
        revision = w.revision_after, updated_at = w.updated_after
    FROM {wanted}
    WHERE a.id = w.id
      AND a.version = w.version AND a.revision = w.revision AND a.balance = w.balance
    RETURNING a.id
)";

/// Where some must only stay as they are: all are locked first, in one order
/// (the lock is taken above the sort), then those that move are moved.
const MOVE_SOME: &str = "\
held AS MATERIALIZED (
    SELECT a.id, w.moves, w.version_after, w.revision_after, w.balance_after, w.updated_after
    FROM {wanted}
    JOIN account a ON a.id = w.id
    WHERE a.version = w.version AND a.revision = w.revision AND a.balance = w.balance
    ORDER BY a.id
    FOR NO KEY UPDATE OF a
), moved AS (
    UPDATE account a
    SET balance = h.balance_after, version = h.version_after,
        revision = h.revision_after, updated_at = h.updated_after
    FROM held h WHERE a.id = h.id AND h.moves
    RETURNING a.id
), proven AS (
    SELECT id FROM moved UNION ALL SELECT id FROM held WHERE NOT moves
)";

/// Events are written only for accounts that were proven. A plain INSERT: an
/// identity or an entry that is there already fails the statement as a whole,
/// which is [`crate::store::StoreError::Raced`].
///
/// - Whether an event's account is proven is asked inside a CASE: there the
///   planner can't make a join of it, and answers from a hash table whatever it
///   thinks of the lengths of arrays.
/// - Events are inserted in the order in which they are given, since nothing stands
///   between the array and the table: `seq` keeps it.
const WRITE: &str = "\
written AS (
    INSERT INTO event (
        account, version, amount, balance_after, floor, expected_version, found_version,
        found_balance, occurred_at, first_seen_at, decided_at, decision, key, derived, type,
        status, reason, tenant, source, event_id, account_id, currency, reference, trail)
    SELECT
        e.account, e.version, e.amount, e.balance_after, e.floor, e.expected_version, e.found_version,
        e.found_balance, e.occurred_at, e.first_seen_at, e.decided_at, e.decision, e.key, e.derived, e.type,
        e.status, e.reason, e.tenant, e.source, e.event_id, e.account_id, e.currency, e.reference, e.trail
    FROM unnest($2::event[]) AS e
    WHERE CASE WHEN e.account IN (SELECT id FROM proven) THEN true ELSE false END
), kept AS (
    INSERT INTO event_detail (key, metadata, queue, headers, marks, body)
    SELECT d.key, d.metadata, d.queue, d.headers, d.marks, d.body
    FROM unnest($3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[])
        AS d (account, key, metadata, queue, headers, marks, body)
    WHERE CASE WHEN d.account IN (SELECT id FROM proven) THEN true ELSE false END
    ON CONFLICT (key) DO UPDATE
    SET metadata = EXCLUDED.metadata, queue = EXCLUDED.queue, headers = EXCLUDED.headers,
        marks = EXCLUDED.marks, body = EXCLUDED.body
)
SELECT coalesce(array_agg(id), '{}') FROM proven";

/// What one posting is about.
#[derive(Default)]
pub(super) struct Posting<'a> {
    /// Accounts that must be as they were, and what they become.
    pub(super) accounts: Moves,
    /// Identities that are new.
    pub(super) events: Events<'a>,
    /// What stands beside them.
    pub(super) details: DetailColumns<'a>,
}

impl Posting<'_> {
    /// Posts, and answers the rows of those accounts that were as expected.
    pub(super) async fn send(self, executor: impl PgExecutor<'_>) -> Result<Vec<i64>> {
        if self.accounts.is_empty() {
            return Ok(Vec::new());
        }
        let prove = if self.accounts.all_move() {
            MOVE_ALL
        } else {
            MOVE_SOME
        };
        let sql = format!("WITH {}, {WRITE}", prove.replace("{wanted}", WANTED));
        let query = self.accounts.bind(sqlx::query(AssertSqlSafe(sql)));
        let query = self.events.bind(query);
        let query = self.details.bind(query);
        let row = query.fetch_one(executor).await.map_err(failed)?;
        Cells::of(&row, "account").take()
    }
}
