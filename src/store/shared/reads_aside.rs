//! Reading events whatever became of them, dead letters, and what people did.
//!
//! What lives here: statements that both databases understand alike; compiled
//! into both databases' modules (`#[path]`). What must not: anything that
//! writes, and what only one of the two understands.

use sqlx::{AssertSqlSafe, QueryBuilder};
use uuid::Uuid;

use super::{
    Db, Pool, Row, failed,
    reads::unmatchable,
    rows::{self, Cells},
};
use crate::{
    domain::{Identity, Reason, Record, Status},
    store::{
        AuditFilter, AuditView, EVENTS_WALKED_MAX, EventFilter, EventView, EventsFound,
        LISTED_BODY_MAX, LetterFilter, LetterView, Result,
    },
};

const SEEN: &str = "e.seq, COALESCE(s.copies, 0), a.currency";
const EVENTS: &str = "FROM event e LEFT JOIN event_detail d ON d.key = e.key \
     LEFT JOIN event_seen s ON s.key = e.key LEFT JOIN account a ON a.id = e.account";

/// Most keys of one look-up.
const KEYS_MAX: usize = 500;

/// One event with its raw message, the copies seen, and where it lost its place
/// to another, which one that is.
pub(super) async fn event(pool: &Pool, identity: &Identity) -> Result<Option<EventView>> {
    let sql = format!(
        "SELECT {SEEN}, {}, {}, d.correction {EVENTS} WHERE e.key = $1",
        rows::RECORD,
        rows::RAW
    );
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(rows::uuid(identity.key()))
        .fetch_optional(pool)
        .await
        .map_err(failed)?;
    let Some(row) = row else {
        return Ok(None);
    };
    let mut cells = Cells::of(&row, "event");
    let mut view = seen(&mut cells)?;
    if view.record.event.identity != *identity {
        return Ok(None);
    }
    view.record.raw = rows::raw(&mut cells)?;
    view.record.correction = cells.some_text()?;
    if view.record.reason == Some(Reason::VersionConflict) {
        view.held_by = holder(pool, &view.record).await?;
    }
    Ok(Some(view))
}

/// The entry that holds the place that an event wanted. Entries never change,
/// so that it may be read after the event.
async fn holder(pool: &Pool, record: &Record) -> Result<Option<Identity>> {
    let wanted = record.event.content.expected_version;
    let Some(version) = wanted.and_then(|expected| expected.checked_add(1)) else {
        return Ok(None);
    };
    let row = sqlx::query(
        "SELECT h.tenant, h.source, h.event_id FROM event h \
         WHERE h.account = (SELECT account FROM event WHERE key = $1) AND h.version = $2",
    )
    .bind(rows::uuid(record.event.identity.key()))
    .bind(version)
    .fetch_optional(pool)
    .await
    .map_err(failed)?;
    let Some(row) = row else {
        return Ok(None);
    };
    let mut cells = Cells::of(&row, "event");
    Ok(Some(Identity::new(
        cells.text()?,
        cells.text()?,
        cells.text()?,
    )))
}

/// What [`seen`] reads, up to the condition.
fn seen_events() -> QueryBuilder<Db> {
    QueryBuilder::new(format!("SELECT {SEEN}, {} {EVENTS}", rows::RECORD))
}

/// Those of some events that are known, with their metadata and without their raw
/// messages.
pub(super) async fn events_of(pool: &Pool, identities: &[Identity]) -> Result<Vec<EventView>> {
    let mut views = Vec::new();
    for part in identities.chunks(KEYS_MAX) {
        let mut query = seen_events();
        query.push(" WHERE e.key IN (");
        let mut keys = query.separated(", ");
        for identity in part {
            keys.push_bind(rows::uuid(identity.key()));
        }
        query.push(")");
        // Each length is a statement of its own, and none is worth keeping.
        let found = query.build().persistent(false).fetch_all(pool).await;
        for row in &found.map_err(failed)? {
            views.push(seen(&mut Cells::of(row, "event"))?);
        }
    }
    Ok(views)
}

/// Events, the last first seen first, with their metadata and without their raw
/// messages.
///
/// What is not applied is found by indexes of its own. Their condition must
/// stand in the statement word for word, or SQLite does not take them.
pub(super) async fn events(
    pool: &Pool,
    tenant: &str,
    filter: &EventFilter,
    before: Option<i64>,
    limit: i64,
) -> Result<EventsFound> {
    let texts = [&filter.account_id, &filter.source, &filter.event_id];
    if unmatchable(texts.into_iter().flatten().map(String::as_str)) {
        return Ok(EventsFound::default());
    }
    let floor = match leads_nowhere(filter) {
        true => walk_end(pool, before).await?,
        false => None,
    };
    let mut query = seen_events();
    query.push(" WHERE e.tenant = ").push_bind(tenant);
    match (filter.status, filter.reason) {
        (Some(Status::Applied), _) => {
            query.push(" AND e.status = 'applied' AND e.version IS NOT NULL");
        }
        (Some(status), _) => {
            query
                .push(" AND e.version IS NULL AND e.status = ")
                .push_bind(status.as_str());
        }
        // Only what is set aside has a reason.
        (None, Some(_)) if filter.account_id.is_none() => {
            query.push(
                " AND e.version IS NULL \
                 AND e.status IN ('pending', 'rejected', 'parked', 'dead', 'discarded')",
            );
        }
        (None, Some(_)) => {
            query.push(" AND e.version IS NULL");
        }
        (None, None) => {}
    }
    if let Some(reason) = filter.reason {
        query.push(" AND e.reason = ").push_bind(reason.as_str());
    }
    match (&filter.source, &filter.event_id) {
        (Some(source), Some(event_id)) => {
            let identity = Identity::new(tenant, source.as_str(), event_id.as_str());
            query
                .push(" AND e.key = ")
                .push_bind(rows::uuid(identity.key()));
        }
        (Some(source), None) => {
            query.push(" AND e.source = ").push_bind(source.as_str());
        }
        (None, Some(event_id)) => {
            query
                .push(" AND e.event_id = ")
                .push_bind(event_id.as_str());
        }
        (None, None) => {}
    }
    if let Some(account_id) = &filter.account_id {
        let row = account_row(pool, tenant, account_id).await?;
        let Some(row) = row else {
            return Ok(EventsFound::default());
        };
        if filter.status.is_none() && filter.reason.is_none() {
            // Each half has an index of its own.
            query
                .push(" AND ((e.version IS NOT NULL AND e.account = ")
                .push_bind(row)
                .push(") OR (e.version IS NULL AND e.account = ")
                .push_bind(row)
                .push("))");
        } else {
            query.push(" AND e.account = ").push_bind(row);
        }
    }
    if let Some(before) = before {
        query.push(" AND e.seq < ").push_bind(before);
    }
    if let Some(floor) = floor {
        query.push(" AND e.seq >= ").push_bind(floor);
    }
    // One more than asked for tells whether there are more.
    query
        .push(" ORDER BY e.seq DESC LIMIT ")
        .push_bind(limit.saturating_add(1));
    let rows = query.build().fetch_all(pool).await.map_err(failed)?;
    let size = usize::try_from(limit).unwrap_or(usize::MAX);
    let views: Result<Vec<EventView>> = rows
        .iter()
        .take(size)
        .map(|row| seen(&mut Cells::of(row, "event")))
        .collect();
    let views = views?;
    let before = match rows.len() > size {
        true => views.last().map(|view| view.seq),
        false => floor,
    };
    Ok(EventsFound { views, before })
}

/// Whether no index leads to what is asked for. There is none on sources and event
/// ids by themselves, nor on tenants: each would cost every event of the ledger a write,
/// for a list that a person asks for now and then.
fn leads_nowhere(filter: &EventFilter) -> bool {
    let aside = filter.reason.is_some()
        || filter
            .status
            .is_some_and(|status| status != Status::Applied);
    let identity = filter.source.is_some() && filter.event_id.is_some();
    filter.account_id.is_none() && !identity && !aside
}

/// Where a walk over the events from a place on ends; `None`: it reaches the first.
async fn walk_end(pool: &Pool, before: Option<i64>) -> Result<Option<i64>> {
    let begin = match before {
        Some(before) => before,
        None => {
            let last: Option<i64> = sqlx::query_scalar("SELECT max(seq) FROM event")
                .fetch_one(pool)
                .await
                .map_err(failed)?;
            last.unwrap_or(0).saturating_add(1)
        }
    };
    let end = begin.saturating_sub(EVENTS_WALKED_MAX);
    Ok((end > 1).then_some(end))
}

/// The narrow key of an account, also of one that is only awaited.
async fn account_row(pool: &Pool, tenant: &str, account_id: &str) -> Result<Option<i64>> {
    sqlx::query_scalar("SELECT id FROM account WHERE tenant = $1 AND account_id = $2")
        .bind(tenant)
        .bind(account_id)
        .fetch_optional(pool)
        .await
        .map_err(failed)
}

fn seen(cells: &mut Cells<'_>) -> Result<EventView> {
    Ok(EventView {
        seq: cells.take()?,
        duplicates: cells.take()?,
        currency: cells.some_currency()?,
        record: rows::record(cells)?,
        held_by: None,
    })
}

/// Dead letters, the newest first, their bodies cut.
pub(super) async fn letters(
    pool: &Pool,
    tenant: &str,
    filter: &LetterFilter,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<LetterView>> {
    let texts = [
        ("l.queue", &filter.queue),
        ("l.source", &filter.source),
        ("l.event_id", &filter.event_id),
        ("l.account_id", &filter.account_id),
    ];
    if unmatchable(texts.iter().filter_map(|(_, text)| text.as_deref())) {
        return Ok(Vec::new());
    }
    let mut query = QueryBuilder::<Db>::new("SELECT ");
    query
        .push(rows::LETTER)
        .push(", substr(l.body, 1, ")
        .push(LISTED_BODY_MAX)
        .push(") FROM dead_letter l WHERE l.tenant = ")
        .push_bind(tenant);
    if let Some(status) = filter.status {
        let status: &'static str = status.into();
        query.push(" AND l.status = ").push_bind(status);
    }
    if let Some(reason) = filter.reason {
        query.push(" AND l.reason = ").push_bind(reason.as_str());
    }
    for (column, text) in texts {
        if let Some(text) = text {
            query
                .push(" AND ")
                .push(column)
                .push(" = ")
                .push_bind(text.as_str());
        }
    }
    if let Some(before) = before {
        query.push(" AND l.id < ").push_bind(before);
    }
    query.push(" ORDER BY l.id DESC LIMIT ").push_bind(limit);
    let rows: Vec<Row> = query.build().fetch_all(pool).await.map_err(failed)?;
    rows.iter()
        .map(|row| rows::letter(&mut Cells::of(row, "dead_letter")))
        .collect()
}

/// What people did, the newest first.
pub(super) async fn audits(
    pool: &Pool,
    tenant: &str,
    filter: &AuditFilter,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<AuditView>> {
    let texts = [
        ("u.account_id", &filter.account_id),
        ("u.subject", &filter.subject),
    ];
    if unmatchable(texts.iter().filter_map(|(_, text)| text.as_deref())) {
        return Ok(Vec::new());
    }
    let mut query = QueryBuilder::<Db>::new("SELECT ");
    query
        .push(rows::AUDIT)
        .push(" FROM audit u WHERE u.tenant = ")
        .push_bind(tenant);
    for (column, text) in texts {
        if let Some(text) = text {
            query
                .push(" AND ")
                .push(column)
                .push(" = ")
                .push_bind(text.as_str());
        }
    }
    if let Some(before) = before {
        query.push(" AND u.id < ").push_bind(before);
    }
    query.push(" ORDER BY u.id DESC LIMIT ").push_bind(limit);
    let rows: Vec<Row> = query.build().fetch_all(pool).await.map_err(failed)?;
    rows.iter()
        .map(|row| rows::audit(&mut Cells::of(row, "audit")))
        .collect()
}

/// One dead letter, whole.
pub(super) async fn letter(pool: &Pool, tenant: &str, id: Uuid) -> Result<Option<LetterView>> {
    let sql = format!(
        "SELECT {}, l.body FROM dead_letter l WHERE l.id = $1 AND l.tenant = $2",
        rows::LETTER
    );
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(id)
        .bind(tenant)
        .fetch_optional(pool)
        .await
        .map_err(failed)?;
    row.as_ref()
        .map(|row| rows::letter(&mut Cells::of(row, "dead_letter")))
        .transpose()
}
