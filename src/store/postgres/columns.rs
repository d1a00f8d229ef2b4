//! Rows turned by ninety degrees: one array for each column, the way `unnest`
//! takes them. What must not be here: statements.
//!
//! `unnest` pads a shorter array with nulls. A column in which every value is
//! null is therefore sent as an empty array, which costs nothing; any other
//! array has one element for each row, since only `push` lengthens them.

use sqlx::{
    Postgres,
    postgres::{PgArguments, PgHasArrayType},
    query::Query,
};

use super::rows::trail_text;
use crate::{
    domain::{Account, AccountKey, Record, Status},
    store::Result,
};

/// A statement to which columns are bound, one after the other.
type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// A column in which most values are null.
fn sparse<T>(column: Vec<Option<T>>) -> Vec<Option<T>>
where
    Option<T>: PgHasArrayType,
{
    if column.iter().all(Option::is_none) {
        Vec::new()
    } else {
        column
    }
}

/// What is expected of accounts, and what they become.
#[derive(Default)]
pub(super) struct AccountColumns<'a>(Vec<AccountRow<'a>>);

struct AccountRow<'a> {
    id: i64,
    before: &'a Account,
    after: &'a Account,
    moves: bool,
}

impl<'a> AccountColumns<'a> {
    /// An account that must be as it was; where it moves, it becomes `after`.
    pub(super) fn push(&mut self, id: i64, before: &'a Account, after: &'a Account, moves: bool) {
        self.0.push(AccountRow {
            id,
            before,
            after,
            moves,
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
        let numbers =
            |of: fn(&AccountRow<'_>) -> i64| -> Vec<i64> { self.0.iter().map(of).collect() };
        query
            .bind(numbers(|row| row.id))
            .bind(numbers(|row| row.before.version))
            .bind(numbers(|row| row.before.revision))
            .bind(numbers(|row| row.before.balance))
            .bind(self.0.iter().map(|row| row.moves).collect::<Vec<bool>>())
            .bind(numbers(|row| row.after.version))
            .bind(numbers(|row| row.after.revision))
            .bind(numbers(|row| row.after.balance))
            .bind(numbers(|row| row.after.updated_at.0))
    }
}

/// Rows of `event`, as they are inserted or as they become.
#[derive(Default)]
pub(super) struct EventColumns<'a> {
    account: Vec<i64>,
    version: Vec<Option<i64>>,
    amount: Vec<i64>,
    balance_after: Vec<Option<i64>>,
    floor: Vec<Option<i64>>,
    expected_version: Vec<Option<i64>>,
    found_version: Vec<Option<i64>>,
    found_balance: Vec<Option<i64>>,
    occurred_at: Vec<Option<i64>>,
    first_seen_at: Vec<i64>,
    decided_at: Vec<i64>,
    decision: Vec<i64>,
    key: Vec<[u8; 16]>,
    derived: Vec<bool>,
    kind: Vec<&'static str>,
    status: Vec<&'static str>,
    reason: Vec<Option<&'static str>>,
    tenant: Vec<&'a str>,
    source: Vec<&'a str>,
    event_id: Vec<&'a str>,
    account_id: Vec<&'a str>,
    currency: Vec<Option<&'a str>>,
    reference: Vec<Option<&'a str>>,
    trail: Vec<Option<String>>,
}

impl<'a> EventColumns<'a> {
    pub(super) fn push(&mut self, row: i64, record: &'a Record) -> Result<()> {
        let event = &*record.event;
        let content = &event.content;
        self.trail.push(trail_text(record)?);
        self.account.push(row);
        self.version.push(record.version);
        self.amount.push(content.amount);
        self.balance_after.push(record.balance_after);
        self.floor.push(record.floor);
        self.expected_version.push(content.expected_version);
        self.found_version.push(record.found.map(|it| it.version));
        self.found_balance.push(record.found.map(|it| it.balance));
        self.occurred_at.push(event.occurred_at.map(|at| at.0));
        self.first_seen_at.push(record.first_seen_at.0);
        self.decided_at.push(record.decided_at.0);
        self.decision.push(record.decision);
        self.key.push(event.identity.key().0);
        self.derived.push(event.derived);
        self.kind.push(content.kind.as_str());
        self.status.push(record.status.as_str());
        self.reason.push(record.reason.map(|it| it.as_str()));
        self.tenant.push(&event.identity.tenant);
        self.source.push(&event.identity.source);
        self.event_id.push(&event.identity.event_id);
        self.account_id.push(&content.account_id);
        self.currency
            .push(content.currency.as_ref().map(|code| code.as_str()));
        self.reference.push(event.reference.as_deref());
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.account.len()
    }

    pub(super) fn bind(self, query: Statement<'a>) -> Statement<'a> {
        query
            .bind(self.account)
            .bind(sparse(self.version))
            .bind(self.amount)
            .bind(sparse(self.balance_after))
            .bind(sparse(self.floor))
            .bind(sparse(self.expected_version))
            .bind(sparse(self.found_version))
            .bind(sparse(self.found_balance))
            .bind(sparse(self.occurred_at))
            .bind(self.first_seen_at)
            .bind(self.decided_at)
            .bind(self.decision)
            .bind(self.key)
            .bind(self.derived)
            .bind(self.kind)
            .bind(self.status)
            .bind(sparse(self.reason))
            .bind(self.tenant)
            .bind(self.source)
            .bind(self.event_id)
            .bind(self.account_id)
            .bind(sparse(self.currency))
            .bind(sparse(self.reference))
            .bind(sparse(self.trail))
    }
}

/// What stands beside events: metadata, and messages as they came.
#[derive(Default)]
pub(super) struct DetailColumns<'a> {
    account: Vec<i64>,
    key: Vec<[u8; 16]>,
    metadata: Vec<Option<&'a str>>,
    queue: Vec<Option<&'a str>>,
    headers: Vec<Option<&'a str>>,
    marks: Vec<Option<&'a str>>,
    body: Vec<Option<&'a [u8]>>,
}

impl<'a> DetailColumns<'a> {
    /// What stands beside a record, if anything does; `raw` says whether the
    /// message as it came is to be kept.
    pub(super) fn push(&mut self, row: i64, record: &'a Record, raw: bool) {
        let raw = record.raw.as_deref().filter(|_| raw);
        let metadata = record.event.metadata.as_deref();
        if raw.is_none() && metadata.is_none() {
            return;
        }
        self.account.push(row);
        self.key.push(record.event.identity.key().0);
        self.metadata.push(metadata);
        self.queue.push(raw.map(|raw| &*raw.queue));
        self.headers.push(raw.map(|raw| &*raw.headers));
        self.marks.push(raw.map(|raw| &*raw.marks));
        self.body.push(raw.map(|raw| &*raw.body));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.key.is_empty()
    }

    pub(super) fn bind(self, query: Statement<'a>) -> Statement<'a> {
        query
            .bind(self.account)
            .bind(self.key)
            .bind(sparse(self.metadata))
            .bind(sparse(self.queue))
            .bind(sparse(self.headers))
            .bind(sparse(self.marks))
            .bind(sparse(self.body))
    }
}

/// The state that changed identities must still have.
#[derive(Default)]
pub(super) struct ConditionColumns {
    status: Vec<&'static str>,
    decision: Vec<i64>,
}

impl ConditionColumns {
    pub(super) fn push(&mut self, status: Status, decision: i64) {
        self.status.push(status.as_str());
        self.decision.push(decision);
    }

    pub(super) fn bind(self, query: Statement<'_>) -> Statement<'_> {
        query.bind(self.status).bind(self.decision)
    }
}

/// Accounts whole: new ones, or such whose settings change.
#[derive(Default)]
pub(super) struct SettingColumns<'a> {
    id: Vec<i64>,
    balance: Vec<i64>,
    version: Vec<i64>,
    revision: Vec<i64>,
    settings_revision: Vec<i64>,
    floor: Vec<Option<i64>>,
    opened_at: Vec<i64>,
    updated_at: Vec<i64>,
    tenant: Vec<&'a str>,
    account_id: Vec<&'a str>,
    status: Vec<&'static str>,
    currency: Vec<Option<&'a str>>,
    metadata: Vec<Option<&'a str>>,
}

impl<'a> SettingColumns<'a> {
    pub(super) fn push(&mut self, key: &'a AccountKey, account: &'a Account) {
        self.id.push(account.row);
        self.balance.push(account.balance);
        self.version.push(account.version);
        self.revision.push(account.revision);
        self.settings_revision.push(account.settings_revision);
        self.floor.push(account.floor);
        self.opened_at.push(account.opened_at.0);
        self.updated_at.push(account.updated_at.0);
        self.tenant.push(&key.tenant);
        self.account_id.push(&key.id);
        self.status.push(account.status.as_str());
        self.currency
            .push(account.currency.as_ref().map(|code| code.as_str()));
        self.metadata.push(account.metadata.as_deref());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    pub(super) fn bind(self, query: Statement<'a>) -> Statement<'a> {
        query
            .bind(self.id)
            .bind(self.balance)
            .bind(self.version)
            .bind(self.revision)
            .bind(self.settings_revision)
            .bind(sparse(self.floor))
            .bind(self.opened_at)
            .bind(self.updated_at)
            .bind(self.tenant)
            .bind(self.account_id)
            .bind(self.status)
            .bind(sparse(self.currency))
            .bind(sparse(self.metadata))
    }
}
