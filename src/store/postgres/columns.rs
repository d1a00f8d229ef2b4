//! Rows turned by ninety degrees: one array for each column, the way `unnest`
//! takes them. What is sent with every batch goes row by row instead, which costs
//! the server less ([`super::composites`]). What must not be here: statements.
//!
//! `unnest` pads a shorter array with nulls. A column in which every value is
//! null is therefore sent as an empty array, which costs nothing; any other
//! array has one element for each row, since only `push` lengthens them.

use sqlx::{
    Postgres,
    postgres::{PgArguments, PgHasArrayType},
    query::Query,
};

use uuid::Uuid;

use super::rows;
use crate::domain::{Account, AccountKey, Record, Status};

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

/// What stands beside events: metadata, and messages as they came.
#[derive(Default)]
pub(super) struct DetailColumns<'a> {
    account: Vec<i64>,
    key: Vec<Uuid>,
    metadata: Vec<Option<&'a str>>,
    queue: Vec<Option<&'a str>>,
    headers: Vec<Option<&'a str>>,
    marks: Vec<Option<&'a str>>,
    body: Vec<Option<&'a [u8]>>,
    correction: Vec<Option<&'a str>>,
}

impl<'a> DetailColumns<'a> {
    /// What stands beside a record, if anything does; `raw` says whether the
    /// message as it came is to be kept.
    pub(super) fn push(&mut self, row: i64, record: &'a Record, raw: bool) {
        let raw = record.raw.as_deref().filter(|_| raw);
        let metadata = record.event.metadata.as_deref();
        let correction = record.correction.as_deref();
        if raw.is_none() && metadata.is_none() && correction.is_none() {
            return;
        }
        self.account.push(row);
        self.key.push(rows::uuid(record.event.identity.key()));
        self.metadata.push(metadata);
        self.queue.push(raw.map(|raw| &*raw.queue));
        self.headers.push(raw.map(|raw| &*raw.headers));
        self.marks.push(raw.map(|raw| &*raw.marks));
        self.body.push(raw.map(|raw| &*raw.body));
        self.correction.push(correction);
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

    /// With corrections, which only an event has that is stored already.
    pub(super) fn bind_corrected(mut self, query: Statement<'a>) -> Statement<'a> {
        let correction = std::mem::take(&mut self.correction);
        self.bind(query).bind(sparse(correction))
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
