//! What stands aside of the entries: dead letters, audits, copies seen.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use sqlx::{QueryBuilder, SqliteConnection};

use super::{Db, Pool, bulk::Bulk, failed, unit::Unit};
use crate::{
    clock,
    domain::{Audit, EventKey, Letter, Resolution, Timestamp},
    store::Result,
};

/// One letter among the open ones for each digest; the same again is seen once more.
const LETTERS: Bulk = Bulk {
    head: "INSERT INTO dead_letter (id, seen, received_at, last_seen_at, digest, event_key, tenant, \
           status, reason, queue, source, event_id, account_id, detail, headers, marks, body)",
    columns: 17,
    tail: "ON CONFLICT (digest) WHERE status = 'open' DO UPDATE SET seen = seen + excluded.seen, \
           last_seen_at = max(last_seen_at, excluded.last_seen_at)",
};

/// The letters of stored events that are still open.
const RESOLVE: Bulk = Bulk {
    head: "WITH n (event_key, status, at) AS (",
    columns: 3,
    tail: ") UPDATE dead_letter SET status = n.status, resolved_at = n.at FROM n \
           WHERE dead_letter.event_key = n.event_key AND dead_letter.event_key IS NOT NULL \
           AND dead_letter.status = 'open'",
};

const AUDITS: Bulk = Bulk {
    head: "INSERT INTO audit (id, at, tenant, subject, action, account_id, detail, note)",
    columns: 8,
    tail: "",
};

const COPIES: Bulk = Bulk {
    head: "INSERT INTO event_seen (key, copies, last_seen_at)",
    columns: 3,
    tail: "ON CONFLICT (key) DO UPDATE SET copies = copies + excluded.copies, \
           last_seen_at = max(last_seen_at, excluded.last_seen_at)",
};

/// Writes dead letters. What stands more than once among them is folded first,
/// which is one row instead of many.
pub(super) async fn letters(
    connection: &mut SqliteConnection,
    letters: &[&Letter],
    at: Timestamp,
) -> Result<()> {
    let mut places: FxHashMap<[u8; 16], usize> = FxHashMap::default();
    let mut folded: Vec<(Cow<'_, Letter>, [u8; 16], i64)> = Vec::with_capacity(letters.len());
    for letter in letters {
        let letter = letter.keepable();
        let digest = letter.digest();
        match places.get(&digest) {
            Some(place) => folded[*place].2 += 1,
            None => {
                places.insert(digest, folded.len());
                folded.push((letter, digest, 1));
            }
        }
    }
    LETTERS
        .execute(connection, &folded, |row, (letter, digest, seen)| {
            row.put(clock::new_id())
                .put(*seen)
                .put(at.0)
                .put(at.0)
                .put(digest.to_vec())
                .put(letter.event.map(|key| key.0.to_vec()))
                .put(letter.tenant.clone())
                .put("open")
                .put(letter.reason.as_str())
                .put(letter.raw.queue.clone())
                .put(letter.source.clone())
                .put(letter.event_id.clone())
                .put(letter.account_id.clone())
                .put(letter.detail.to_string())
                .put(letter.raw.headers.clone())
                .put(letter.raw.marks.clone())
                .put(letter.raw.body.as_slice());
        })
        .await?;
    Ok(())
}

/// Deals with the open letters of stored events.
pub(super) async fn resolve(
    connection: &mut SqliteConnection,
    resolutions: &[&Resolution],
    at: Timestamp,
) -> Result<()> {
    RESOLVE
        .execute(connection, resolutions, |row, resolution| {
            let status: &'static str = resolution.status.into();
            row.put(resolution.event.0.to_vec()).put(status).put(at.0);
        })
        .await?;
    Ok(())
}

/// Writes what people did.
pub(super) async fn audits(
    connection: &mut SqliteConnection,
    audits: &[&Audit],
    at: Timestamp,
) -> Result<()> {
    AUDITS
        .execute(connection, audits, |row, audit| {
            row.put(clock::new_id())
                .put(at.0)
                .put(audit.tenant.clone())
                .put(audit.subject.as_str())
                .put(&*audit.action)
                .put(audit.account_id.clone())
                .put(audit.detail.to_string())
                .put(audit.note.as_deref());
        })
        .await?;
    Ok(())
}

/// Rows that prove that something can be written: some pages of them.
const PROOF_ROWS: usize = 100;

/// Writes for real, and takes it away again.
pub(super) async fn prove(writer: &Pool) -> Result<()> {
    let rows: Vec<(EventKey, i64)> = (0..PROOF_ROWS)
        .map(|_| (EventKey(clock::new_id().into_bytes()), 0))
        .collect();
    let mut unit = Unit::begin(writer).await?;
    let written = copies(unit.connection(), &rows, Timestamp(0)).await;
    unit.end(written).await?;
    let mut query = QueryBuilder::<Db>::new("DELETE FROM event_seen WHERE key IN (");
    let mut keys = query.separated(", ");
    for (key, _) in &rows {
        keys.push_bind(key.0.to_vec());
    }
    query.push(")");
    let mut unit = Unit::begin(writer).await?;
    let cleared = query.build().execute(unit.connection()).await;
    unit.end(cleared.map_err(failed)).await.map(drop)
}

/// Counts copies that were seen.
pub(super) async fn copies(
    connection: &mut SqliteConnection,
    copies: &[(EventKey, i64)],
    at: Timestamp,
) -> Result<()> {
    COPIES
        .execute(connection, copies, |row, (key, count)| {
            row.put(key.0.to_vec()).put(*count).put(at.0);
        })
        .await?;
    Ok(())
}
