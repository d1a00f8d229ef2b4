//! Identities: new ones, and those whose status changes.
//!
//! What lives here: the statements on `event` and `event_detail` of a commit.
//! What must not: whether they may be written (see [`super::commit`]).

use sqlx::SqliteConnection;

use super::{
    bulk::{Bulk, Values},
    rows,
};
use crate::{
    domain::{AccountChange, Record, RecordUpdate, Status},
    store::{Result, StoreError},
};

/// A plain INSERT: an identity or an entry that is there already fails the whole
/// transaction, which is [`StoreError::Raced`].
const INSERT: Bulk = Bulk {
    head: "INSERT INTO event (account, version, amount, balance_after, floor, expected_version, \
           found_version, found_balance, occurred_at, first_seen_at, decided_at, decision, \
           derived, type, status, reason, account_id, currency, reference, trail, key, tenant, \
           source, event_id)",
    columns: 24,
    tail: "",
};

/// Each only where it is still as it was.
const UPDATE: Bulk = Bulk {
    head: "WITH n (account, version, amount, balance_after, floor, expected_version, \
           found_version, found_balance, occurred_at, first_seen_at, decided_at, decision, \
           derived, type, status, reason, account_id, currency, reference, trail, key, \
           status_before, decision_before) AS (",
    columns: 23,
    tail: ") UPDATE event SET account = n.account, version = n.version, amount = n.amount, \
           balance_after = n.balance_after, floor = n.floor, \
           expected_version = n.expected_version, found_version = n.found_version, \
           found_balance = n.found_balance, occurred_at = n.occurred_at, \
           first_seen_at = n.first_seen_at, decided_at = n.decided_at, decision = n.decision, \
           derived = n.derived, type = n.type, status = n.status, reason = n.reason, \
           account_id = n.account_id, currency = n.currency, reference = n.reference, \
           trail = n.trail \
           FROM n WHERE event.key = n.key AND event.status = n.status_before \
           AND event.decision = n.decision_before",
};

/// What stands beside an event. A message is only ever replaced by another one;
/// metadata belongs to the form judged last, a correction to the last that was made.
const KEEP: Bulk = Bulk {
    head: "INSERT INTO event_detail (key, metadata, queue, headers, marks, body, correction)",
    columns: 7,
    tail: "ON CONFLICT (key) DO UPDATE SET metadata = excluded.metadata, \
           correction = coalesce(excluded.correction, correction), \
           queue = coalesce(excluded.queue, queue), headers = coalesce(excluded.headers, headers), \
           marks = coalesce(excluded.marks, marks), body = coalesce(excluded.body, body)",
};

/// Writes the new identities of accounts whose proof held, in order.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    kept: &[(i64, &AccountChange)],
) -> Result<()> {
    let mut events = Vec::new();
    for (row, change) in kept {
        for record in &change.inserts {
            events.push((*row, &**record, rows::trail_text(record)?));
        }
    }
    INSERT
        .execute(connection, &events, |row, (account, record, trail)| {
            put(row, *account, record, trail.as_deref());
            let identity = &record.event.identity;
            row.put(identity.key().0.to_vec())
                .put(identity.tenant.clone())
                .put(identity.source.clone())
                .put(identity.event_id.clone());
        })
        .await?;
    // The message of what was applied at once is not kept.
    let details: Vec<_> = events
        .iter()
        .map(|(_, record, _)| (*record, record.status != Status::Applied))
        .collect();
    keep(connection, details).await
}

/// Changes identities of accounts whose proof held. One that is not as it was
/// fails the whole transaction.
pub(super) async fn update(
    connection: &mut SqliteConnection,
    kept: &[(i64, &AccountChange)],
) -> Result<()> {
    let mut updates: Vec<(i64, &RecordUpdate, Option<String>)> = Vec::new();
    for (row, change) in kept {
        for update in &change.updates {
            updates.push((*row, update, rows::trail_text(&update.record)?));
        }
    }
    let changed = UPDATE
        .execute(connection, &updates, |row, (account, update, trail)| {
            put(row, *account, &update.record, trail.as_deref());
            row.put(update.record.event.identity.key().0.to_vec())
                .put(update.status_before.as_str())
                .put(update.decision_before);
        })
        .await?;
    if changed != updates.len() as u64 {
        return Err(StoreError::Raced);
    }
    let details = updates.iter().map(|(_, update, _)| (&*update.record, true));
    keep(connection, details.collect()).await
}

/// Writes metadata and, where it is to be kept, the message as it came.
async fn keep(connection: &mut SqliteConnection, mut details: Vec<(&Record, bool)>) -> Result<()> {
    details.retain(|(record, with_raw)| {
        let kept = *with_raw && record.raw.is_some();
        record.event.metadata.is_some() || record.correction.is_some() || kept
    });
    KEEP.execute(connection, &details, |row, (record, with_raw)| {
        let raw = record.raw.as_deref().filter(|_| *with_raw);
        row.put(record.event.identity.key().0.to_vec())
            .put(record.event.metadata.clone())
            .put(raw.map(|raw| raw.queue.clone()))
            .put(raw.map(|raw| raw.headers.clone()))
            .put(raw.map(|raw| raw.marks.clone()))
            .put(raw.map(|raw| raw.body.as_slice()))
            .put(record.correction.clone());
    })
    .await?;
    Ok(())
}

/// The columns that an event has whether it is new or changes.
fn put(row: &mut Values, account: i64, record: &Record, trail: Option<&str>) {
    let (event, content) = (&record.event, &record.event.content);
    row.put(account)
        .put(record.version)
        .put(content.amount)
        .put(record.balance_after)
        .put(record.floor)
        .put(content.expected_version)
        .put(record.found.map(|found| found.version))
        .put(record.found.map(|found| found.balance))
        .put(event.occurred_at.map(|at| at.0))
        .put(record.first_seen_at.0)
        .put(record.decided_at.0)
        .put(record.decision)
        .put(event.derived)
        .put(content.kind.as_str())
        .put(record.status.as_str())
        .put(record.reason.map(|reason| reason.as_str()))
        .put(content.account_id.clone())
        .put(
            content
                .currency
                .as_ref()
                .map(|code| code.as_str().to_owned()),
        )
        .put(event.reference.clone())
        .put(trail);
}
