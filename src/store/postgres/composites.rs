//! Rows sent as they are: arrays of composites.
//!
//! `unnest` over many arrays keeps a list for each of them, and of the 24 columns
//! of an event that took the server 3 µs a row; over one array of rows it takes
//! 0.4 (PostgreSQL 15). So what is sent with every batch is sent like this; what is
//! rare goes by columns, which needs no type in the schema ([`super::columns`]).
//! What must not be here: statements.

use sqlx::{
    Postgres,
    postgres::{PgArguments, PgHasArrayType, PgTypeInfo},
    query::Query,
};
use uuid::Uuid;

use super::rows;
use crate::{
    domain::{Account, Record},
    store::Result,
};

/// A statement to which rows are bound.
type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// What is expected of accounts, and what they become.
#[derive(Default)]
pub(super) struct Moves(Vec<Move>);

/// The type `account_move`: its fields, in its order.
#[derive(sqlx::Encode)]
struct Move {
    id: i64,
    version: i64,
    revision: i64,
    balance: i64,
    moves: bool,
    version_after: i64,
    revision_after: i64,
    balance_after: i64,
    updated_after: i64,
}

impl Moves {
    /// An account that must be as it was; where it moves, it becomes `after`.
    pub(super) fn push(&mut self, id: i64, before: &Account, after: &Account, moves: bool) {
        self.0.push(Move {
            id,
            version: before.version,
            revision: before.revision,
            balance: before.balance,
            moves,
            version_after: after.version,
            revision_after: after.revision,
            balance_after: after.balance,
            updated_after: after.updated_at.0,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether none of them only stays as it is.
    pub(super) fn all_move(&self) -> bool {
        self.0.iter().all(|row| row.moves)
    }

    /// Binds them in the order of their ids, in which they are to be locked.
    pub(super) fn bind(mut self, query: Statement<'_>) -> Statement<'_> {
        self.0.sort_unstable_by_key(|row| row.id);
        query.bind(self.0)
    }
}

/// Rows of `event`, as they are inserted or as they become.
#[derive(Default)]
pub(super) struct Events<'a>(Vec<EventRow<'a>>);

/// The type that the table `event` gives its rows: its columns, in its order.
#[derive(sqlx::Encode)]
struct EventRow<'a> {
    /// The database's to choose.
    seq: Option<i64>,
    account: i64,
    version: Option<i64>,
    amount: i64,
    balance_after: Option<i64>,
    floor: Option<i64>,
    expected_version: Option<i64>,
    found_version: Option<i64>,
    found_balance: Option<i64>,
    occurred_at: Option<i64>,
    first_seen_at: i64,
    decided_at: i64,
    decision: i64,
    key: Uuid,
    derived: bool,
    kind: &'a str,
    status: &'a str,
    reason: Option<&'a str>,
    tenant: &'a str,
    source: &'a str,
    event_id: &'a str,
    account_id: &'a str,
    currency: Option<&'a str>,
    reference: Option<&'a str>,
    trail: Option<String>,
}

impl<'a> Events<'a> {
    /// A row on the account that is stored as `account`.
    pub(super) fn push(&mut self, account: i64, record: &'a Record) -> Result<()> {
        let event = &*record.event;
        let content = &event.content;
        self.0.push(EventRow {
            seq: None,
            account,
            version: record.version,
            amount: content.amount,
            balance_after: record.balance_after,
            floor: record.floor,
            expected_version: content.expected_version,
            found_version: record.found.map(|it| it.version),
            found_balance: record.found.map(|it| it.balance),
            occurred_at: event.occurred_at.map(|at| at.0),
            first_seen_at: record.first_seen_at.0,
            decided_at: record.decided_at.0,
            decision: record.decision,
            key: rows::uuid(event.identity.key()),
            derived: event.derived,
            kind: content.kind.as_str(),
            status: record.status.as_str(),
            reason: record.reason.map(|it| it.as_str()),
            tenant: &event.identity.tenant,
            source: &event.identity.source,
            event_id: &event.identity.event_id,
            account_id: &content.account_id,
            currency: content.currency.as_ref().map(|code| code.as_str()),
            reference: event.reference.as_deref(),
            trail: rows::trail_text(record)?,
        });
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bind(self, query: Statement<'a>) -> Statement<'a> {
        query.bind(self.0)
    }
}

impl sqlx::Type<Postgres> for Move {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("account_move")
    }
}

impl PgHasArrayType for Move {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::array_of("account_move")
    }
}

impl sqlx::Type<Postgres> for EventRow<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("event")
    }
}

impl PgHasArrayType for EventRow<'_> {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::array_of("event")
    }
}
