//! What stands aside of the entries: dead letters, audits, copies seen.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use sqlx::PgExecutor;
use uuid::Uuid;

use super::{connections::Connections, error::failed, rows, unit::Loan};
use crate::{
    clock,
    domain::{Audit, EventKey, Letter, Resolution, Timestamp},
    store::Result,
};

/// One letter among the open ones for each digest; the same again is seen once
/// more. In the order of digests, so that two writers can't wait for each other.
const LETTERS: &str = "\
INSERT INTO dead_letter AS old (id, seen, received_at, last_seen_at, digest, event_key, tenant,
    status, reason, queue, source, event_id, account_id, detail, headers, marks, body)
SELECT l.id, l.seen, $1, $1, l.digest, l.event_key, l.tenant,
    'open', l.reason, l.queue, l.source, l.event_id, l.account_id, l.detail, l.headers, l.marks, l.body
FROM unnest($2::uuid[], $3::bigint[], $4::bytea[], $5::uuid[], $6::text[], $7::text[], $8::text[],
            $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::bytea[])
    AS l (id, seen, digest, event_key, tenant, reason, queue, source, event_id, account_id, detail,
          headers, marks, body)
ORDER BY l.digest
ON CONFLICT (digest) WHERE status = 'open'
DO UPDATE SET seen = old.seen + EXCLUDED.seen,
              last_seen_at = greatest(old.last_seen_at, EXCLUDED.last_seen_at)";

/// The letters of stored events that are still open. In the order of keys, so that two
/// writers can't wait for each other.
const RESOLVE: &str = "\
UPDATE dead_letter l SET status = r.status, resolved_at = $1
FROM (
    SELECT o.id, w.status
    FROM unnest($2::uuid[], $3::text[]) AS w (event_key, status)
    JOIN dead_letter o ON o.event_key = w.event_key
    WHERE o.event_key IS NOT NULL AND o.status = 'open'
    ORDER BY o.id
    FOR NO KEY UPDATE OF o
) r
WHERE l.id = r.id";

const AUDITS: &str = "\
INSERT INTO audit (id, at, tenant, subject, action, account_id, detail, note)
SELECT a.id, $1, a.tenant, a.subject, a.action, a.account_id, a.detail, a.note
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
    AS a (id, tenant, subject, action, account_id, detail, note)";

/// In the order of keys, so that two writers can't wait for each other.
const COPIES: &str = "\
INSERT INTO event_seen AS old (key, copies, last_seen_at)
SELECT c.key, sum(c.copies)::bigint, $1
FROM unnest($2::uuid[], $3::bigint[]) AS c (key, copies)
GROUP BY c.key ORDER BY c.key
ON CONFLICT (key)
DO UPDATE SET copies = old.copies + EXCLUDED.copies,
              last_seen_at = greatest(old.last_seen_at, EXCLUDED.last_seen_at)";

/// Keeps messages that never became an event.
pub(super) async fn set_aside(
    connections: &Connections,
    set: &[Letter],
    at: Timestamp,
) -> Result<()> {
    let mut loan = Loan::of(connections).await?;
    let done = letters(loan.connection(), &set.iter().collect::<Vec<_>>(), at).await;
    loan.back(done)
}

/// Writes dead letters.
pub(super) async fn letters(
    executor: impl PgExecutor<'_>,
    letters: &[&Letter],
    at: Timestamp,
) -> Result<()> {
    if letters.is_empty() {
        return Ok(());
    }
    let folded = fold(letters);
    let ids: Vec<Uuid> = folded.iter().map(|_| clock::new_id()).collect();
    let seen: Vec<i64> = folded.iter().map(|it| it.seen).collect();
    let digests: Vec<[u8; 16]> = folded.iter().map(|it| it.digest).collect();
    let one = |of: fn(&Letter) -> Option<&str>| -> Vec<Option<&str>> {
        folded.iter().map(|it| of(&it.letter)).collect()
    };
    let event_keys: Vec<Option<Uuid>> = folded
        .iter()
        .map(|it| it.letter.event.map(rows::uuid))
        .collect();
    let details: Vec<String> = folded
        .iter()
        .map(|it| it.letter.detail.to_string())
        .collect();
    let bodies: Vec<&[u8]> = folded.iter().map(|it| &*it.letter.raw.body).collect();
    sqlx::query(LETTERS)
        .bind(at.0)
        .bind(ids)
        .bind(seen)
        .bind(digests)
        .bind(event_keys)
        .bind(one(|letter| Some(&letter.tenant)))
        .bind(one(|letter| Some(letter.reason.as_str())))
        .bind(one(|letter| Some(&letter.raw.queue)))
        .bind(one(|letter| letter.source.as_deref()))
        .bind(one(|letter| letter.event_id.as_deref()))
        .bind(one(|letter| letter.account_id.as_deref()))
        .bind(details)
        .bind(one(|letter| Some(&letter.raw.headers)))
        .bind(one(|letter| Some(&letter.raw.marks)))
        .bind(bodies)
        .execute(executor)
        .await
        .map_err(failed)?;
    Ok(())
}

/// A letter as often as it stands in one batch.
struct Folded<'a> {
    letter: Cow<'a, Letter>,
    digest: [u8; 16],
    seen: i64,
}

/// One statement can't meet the same row twice.
fn fold<'a>(letters: &[&'a Letter]) -> Vec<Folded<'a>> {
    let mut places: FxHashMap<[u8; 16], usize> = FxHashMap::default();
    let mut folded: Vec<Folded<'a>> = Vec::with_capacity(letters.len());
    for letter in letters {
        let letter = letter.keepable();
        let digest = letter.digest();
        if let Some(place) = places.get(&digest) {
            folded[*place].seen += 1;
            continue;
        }
        places.insert(digest, folded.len());
        folded.push(Folded {
            letter,
            digest,
            seen: 1,
        });
    }
    folded
}

/// Deals with the open letters of stored events.
pub(super) async fn resolve(
    executor: impl PgExecutor<'_>,
    resolutions: &[&Resolution],
    at: Timestamp,
) -> Result<()> {
    if resolutions.is_empty() {
        return Ok(());
    }
    let (keys, statuses): (Vec<Uuid>, Vec<&'static str>) = resolutions
        .iter()
        .map(|it| (rows::uuid(it.event), <&str>::from(it.status)))
        .unzip();
    sqlx::query(RESOLVE)
        .bind(at.0)
        .bind(keys)
        .bind(statuses)
        .execute(executor)
        .await
        .map_err(failed)?;
    Ok(())
}

/// Writes what people did.
pub(super) async fn audits(
    executor: impl PgExecutor<'_>,
    audits: &[&Audit],
    at: Timestamp,
) -> Result<()> {
    if audits.is_empty() {
        return Ok(());
    }
    let column = |of: fn(&Audit) -> Option<&str>| -> Vec<Option<&str>> {
        audits.iter().map(|audit| of(audit)).collect()
    };
    let details: Vec<String> = audits.iter().map(|it| it.detail.to_string()).collect();
    sqlx::query(AUDITS)
        .bind(at.0)
        .bind(audits.iter().map(|_| clock::new_id()).collect::<Vec<_>>())
        .bind(column(|audit| Some(&audit.tenant)))
        .bind(column(|audit| Some(&audit.subject)))
        .bind(column(|audit| Some(&audit.action)))
        .bind(column(|audit| audit.account_id.as_deref()))
        .bind(details)
        .bind(column(|audit| audit.note.as_deref()))
        .execute(executor)
        .await
        .map_err(failed)?;
    Ok(())
}

/// Counts copies that were seen.
pub(super) async fn copies(
    connections: &Connections,
    copies: &[(EventKey, i64)],
    at: Timestamp,
) -> Result<()> {
    if copies.is_empty() {
        return Ok(());
    }
    let (keys, counts): (Vec<Uuid>, Vec<i64>) = copies
        .iter()
        .map(|(key, count)| (rows::uuid(*key), *count))
        .unzip();
    let mut loan = Loan::of(connections).await?;
    let done = sqlx::query(COPIES)
        .bind(at.0)
        .bind(keys)
        .bind(counts)
        .execute(loan.connection())
        .await
        .map_err(failed);
    loan.back(done)?;
    Ok(())
}

/// Rows that prove that something can be written: some pages of them.
const PROOF_ROWS: usize = 500;

/// Writes for real, and takes it away again.
pub(super) async fn prove(connections: &Connections) -> Result<()> {
    let proof: Vec<(EventKey, i64)> = (0..PROOF_ROWS)
        .map(|_| (EventKey(clock::new_id().into_bytes()), 0))
        .collect();
    copies(connections, &proof, Timestamp(0)).await?;
    let keys: Vec<Uuid> = proof.iter().map(|(key, _)| rows::uuid(*key)).collect();
    let mut loan = Loan::of(connections).await?;
    let cleared = sqlx::query("DELETE FROM event_seen WHERE key = ANY($1)")
        .bind(keys)
        .execute(loan.connection())
        .await
        .map_err(failed);
    loan.back(cleared).map(drop)
}
