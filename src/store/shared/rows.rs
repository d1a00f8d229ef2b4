//! Rows become what the domain knows: records, accounts, letters.
//!
//! What lives here: the lists of columns, and their decoding (and the trail, both
//! ways, so that its form is known in one place). This file is
//! compiled into both databases' modules (`#[path]`), each of which says what a
//! [`Row`] is there. What must not: statements, and anything that only one of
//! the two databases understands.
//!
//! A row that can't be read was not written by this program: it is
//! [`StoreError::Other`] with table, column and value, never a panic.

use std::{str::FromStr, sync::Arc};

use sqlx::Row as _;
use uuid::Uuid;

use super::{Db, Row};
use crate::{
    domain::{
        Account, Audit, Content, Currency, Event, EventKey, Found, Identity, Letter, Raw, Record,
        Timestamp,
    },
    store::{AuditView, LetterView, Result, StoreError},
};

/// What [`account`] reads; the table's alias is `a`.
pub(super) const ACCOUNT: &str = "a.id, a.balance, a.version, a.revision, a.settings_revision, \
     a.floor, a.opened_at, a.updated_at, a.status, a.currency, a.metadata";

/// What [`record`] reads; `e` is `event`, `d` is `event_detail` (left joined by key).
pub(super) const RECORD: &str = "e.key, e.version, e.amount, e.balance_after, e.floor, \
     e.expected_version, e.found_version, e.found_balance, e.occurred_at, e.first_seen_at, \
     e.decided_at, e.decision, e.derived, e.type, e.status, e.reason, e.tenant, e.source, \
     e.event_id, e.account_id, e.currency, e.reference, e.trail, d.metadata";

/// What [`raw`] reads; `d` is `event_detail`.
pub(super) const RAW: &str = "d.queue, d.headers, d.marks, d.body";

/// What [`audit`] reads; the table's alias is `u`.
pub(super) const AUDIT: &str =
    "u.id, u.at, u.tenant, u.subject, u.action, u.account_id, u.detail, u.note";

/// What [`letter`] reads before the body; the table's alias is `l`. The body
/// follows, whole or cut.
pub(super) const LETTER: &str = "l.id, l.seen, l.received_at, l.last_seen_at, l.event_key, \
     l.tenant, l.status, l.reason, l.queue, l.source, l.event_id, l.account_id, l.detail, \
     l.headers, l.marks, CAST(length(l.body) AS bigint)";

/// The key of an identity, as a column holds it: 16 bytes, the narrowest type for
/// which is `uuid` on PostgreSQL.
pub(super) fn uuid(key: EventKey) -> Uuid {
    Uuid::from_bytes(key.0)
}

/// Takes the columns of one row from left to right.
pub(super) struct Cells<'r> {
    row: &'r Row,
    table: &'static str,
    next: usize,
}

impl<'r> Cells<'r> {
    /// The columns of a row, of which the first ones belong to this table.
    pub(super) fn of(row: &'r Row, table: &'static str) -> Self {
        Self {
            row,
            table,
            next: 0,
        }
    }

    /// The next column.
    pub(super) fn take<T: sqlx::Decode<'r, Db> + sqlx::Type<Db>>(&mut self) -> Result<T> {
        let column = self.next;
        self.next += 1;
        self.row
            .try_get(column)
            .map_err(|error| self.unreadable(column, &error))
    }

    /// The next column, a text.
    pub(super) fn text(&mut self) -> Result<Arc<str>> {
        self.take::<&str>().map(Arc::from)
    }

    /// The next column, a text or null.
    pub(super) fn some_text(&mut self) -> Result<Option<Arc<str>>> {
        Ok(self.take::<Option<&str>>()?.map(Arc::from))
    }

    /// The next column, a moment.
    pub(super) fn moment(&mut self) -> Result<Timestamp> {
        self.take().map(Timestamp)
    }

    /// The next column, one word of a closed list.
    pub(super) fn word<T: FromStr>(&mut self) -> Result<T> {
        let text = self.take::<&str>()?;
        text.parse()
            .map_err(|_| self.unreadable(self.next - 1, &format_args!("{text:?}")))
    }

    /// The next column, one word of a closed list or null.
    pub(super) fn some_word<T: FromStr>(&mut self) -> Result<Option<T>> {
        let Some(text) = self.take::<Option<&str>>()? else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| self.unreadable(self.next - 1, &format_args!("{text:?}")))
    }

    /// The next column, a currency or null.
    pub(super) fn some_currency(&mut self) -> Result<Option<Currency>> {
        let Some(text) = self.take::<Option<&str>>()? else {
            return Ok(None);
        };
        Currency::parse(text)
            .map(Some)
            .ok_or_else(|| self.unreadable(self.next - 1, &format_args!("{text:?}")))
    }

    /// The next column, the key of an identity.
    pub(super) fn key(&mut self) -> Result<EventKey> {
        self.take::<Uuid>().map(|key| EventKey(key.into_bytes()))
    }

    /// The next column, a JSON document.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        let text = self.take::<&str>()?;
        serde_json::from_str(text).map_err(|error| self.unreadable(self.next - 1, &error))
    }

    fn unreadable(&self, column: usize, what: &dyn std::fmt::Display) -> StoreError {
        let column = match self.row.columns().get(column) {
            Some(column) => sqlx::Column::name(column),
            None => "?",
        };
        StoreError::Other(format!(
            "a row of {} can't be read: {column}: {what}",
            self.table
        ))
    }
}

/// An account, from the columns of [`ACCOUNT`].
pub(super) fn account(cells: &mut Cells<'_>) -> Result<Account> {
    Ok(Account {
        row: cells.take()?,
        balance: cells.take()?,
        version: cells.take()?,
        revision: cells.take()?,
        settings_revision: cells.take()?,
        floor: cells.take()?,
        opened_at: cells.moment()?,
        updated_at: cells.moment()?,
        status: cells.word()?,
        currency: cells.some_currency()?,
        metadata: cells.some_text()?,
    })
}

/// A record with its metadata and without its raw message, from the columns of
/// [`RECORD`].
pub(super) fn record(cells: &mut Cells<'_>) -> Result<Record> {
    let key = cells.key()?;
    let version = cells.take()?;
    let amount = cells.take()?;
    let balance_after = cells.take()?;
    let floor = cells.take()?;
    let expected_version = cells.take()?;
    let found_version: Option<i64> = cells.take()?;
    let found_balance: Option<i64> = cells.take()?;
    let occurred_at: Option<i64> = cells.take()?;
    let first_seen_at = cells.moment()?;
    let decided_at = cells.moment()?;
    let decision = cells.take()?;
    let derived = cells.take()?;
    let kind = cells.word()?;
    let status = cells.word()?;
    let reason = cells.some_word()?;
    let identity = Identity::new(cells.text()?, cells.text()?, cells.text()?);
    if identity.key() != key {
        return Err(StoreError::Other(format!(
            "a row of event can't be read: source {:?}, event_id {:?} do not belong to its key",
            identity.source, identity.event_id
        )));
    }
    let content = Content {
        account_id: cells.text()?,
        kind,
        amount,
        currency: cells.some_currency()?,
        expected_version,
    };
    let reference = cells.some_text()?;
    let trail = match cells.take::<Option<&str>>()? {
        None => Vec::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            StoreError::Other(format!(
                "a row of event can't be read: trail of {:?}: {error}",
                identity.event_id
            ))
        })?,
    };
    let event = Event {
        identity,
        derived,
        content,
        reference,
        occurred_at: occurred_at.map(Timestamp),
        metadata: cells.some_text()?,
    };
    Ok(Record {
        event: Arc::new(event),
        status,
        reason,
        version,
        balance_after,
        floor,
        found: found_version
            .zip(found_balance)
            .map(|(version, balance)| Found { version, balance }),
        first_seen_at,
        decided_at,
        decision,
        trail,
        raw: None,
        correction: None,
    })
}

/// The message as it came, from the columns of [`RAW`]; `None` where it was
/// never kept, or emptied since.
pub(super) fn raw(cells: &mut Cells<'_>) -> Result<Option<Arc<Raw>>> {
    let queue = cells.some_text()?;
    let headers = cells.some_text()?;
    let marks = cells.some_text()?;
    let body = cells.take::<Option<Vec<u8>>>()?;
    Ok(body.map(|body| {
        Arc::new(Raw {
            queue: queue.unwrap_or_default(),
            body,
            headers: headers.unwrap_or_else(|| Arc::from("{}")),
            marks: marks.unwrap_or_default(),
        })
    }))
}

/// A dead letter, from the columns of [`LETTER`] and its body, whole or cut.
pub(super) fn letter(cells: &mut Cells<'_>) -> Result<LetterView> {
    let id = cells.take()?;
    let seen = cells.take()?;
    let received_at = cells.moment()?;
    let last_seen_at = cells.moment()?;
    let event = cells.take::<Option<Uuid>>()?;
    let event = event.map(|key| EventKey(key.into_bytes()));
    let tenant = cells.text()?;
    let status = cells.word()?;
    let reason = cells.word()?;
    let queue = cells.text()?;
    let source = cells.some_text()?;
    let event_id = cells.some_text()?;
    let account_id = cells.some_text()?;
    let detail = cells.json()?;
    let headers = cells.text()?;
    let marks = cells.text()?;
    let body_bytes = cells.take()?;
    let body = cells.take()?;
    Ok(LetterView {
        id,
        letter: Letter {
            tenant,
            reason,
            detail,
            source,
            event_id,
            account_id,
            event,
            raw: Arc::new(Raw {
                queue,
                body,
                headers,
                marks,
            }),
        },
        seen,
        received_at,
        last_seen_at,
        status,
        body_bytes,
    })
}

/// An act of a person, from the columns of [`AUDIT`].
pub(super) fn audit(cells: &mut Cells<'_>) -> Result<AuditView> {
    Ok(AuditView {
        id: cells.take()?,
        at: cells.moment()?,
        audit: Audit {
            tenant: cells.text()?,
            subject: cells.take()?,
            action: cells.take::<String>()?.into(),
            account_id: cells.some_text()?,
            detail: cells.json()?,
            note: cells.take()?,
        },
    })
}

/// The trail as the column holds it: JSON, or null where there is none.
pub(super) fn trail_text(record: &Record) -> Result<Option<String>> {
    if record.trail.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(&record.trail)
        .map(Some)
        .map_err(|error| StoreError::Other(format!("a trail can't be written: {error}")))
}
