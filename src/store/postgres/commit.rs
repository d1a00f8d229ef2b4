//! A plan becomes true: all of it in one transaction, but for accounts whose
//! proof failed, of which nothing is written.
//!
//! What must not be here: rules, and trying again.

use rustc_hash::{FxHashMap, FxHashSet};
use sqlx::{Connection, PgConnection};

use super::{
    aside,
    columns::{ConditionColumns, DetailColumns, SettingColumns},
    composites::Events,
    connections::Connections,
    error::failed,
    post::Posting,
    rows::Cells,
    unit::{Loan, Unit},
};
use crate::{
    domain::{Account, AccountChange, AccountKey, Letter, Plan, Proof},
    store::{Committed, Result, StoreError},
};

/// New accounts in the order of their keys. One that is there already (or comes
/// to be while this waits) is left out: its proof failed.
const OPEN: &str = "\
INSERT INTO account (balance, version, revision, settings_revision, floor, opened_at, updated_at,
                     tenant, account_id, status, currency, metadata)
SELECT n.balance, n.version, n.revision, n.settings_revision, n.floor, n.opened_at, n.updated_at,
       n.tenant, n.account_id, n.status, n.currency, n.metadata
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[])
    AS n (id, balance, version, revision, settings_revision, floor,
          opened_at, updated_at, tenant, account_id, status, currency, metadata)
ORDER BY n.tenant, n.account_id
ON CONFLICT ON CONSTRAINT account_identity_key DO NOTHING
RETURNING id, tenant, account_id";

/// Which of these accounts are opened. A place for what waits is no account.
const OPENED: &str = "\
SELECT a.tenant, a.account_id
FROM unnest($1::text[], $2::text[]) AS w (tenant, account_id)
JOIN account a ON a.tenant = w.tenant AND a.account_id = w.account_id
WHERE a.version >= 1";

/// The settings of accounts that this transaction has proven and holds.
const SETTLE: &str = "\
UPDATE account a
SET settings_revision = n.settings_revision, floor = n.floor, opened_at = n.opened_at,
    status = n.status, currency = n.currency, metadata = n.metadata
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[])
    AS n (id, balance, version, revision, settings_revision, floor,
          opened_at, updated_at, tenant, account_id, status, currency, metadata)
WHERE a.id = n.id";

/// Identities whose status changes, each only where it is still as it was.
const CHANGE: &str = "\
UPDATE event e
SET account = u.account, version = u.version, amount = u.amount, balance_after = u.balance_after,
    floor = u.floor, expected_version = u.expected_version, found_version = u.found_version,
    found_balance = u.found_balance, occurred_at = u.occurred_at, first_seen_at = u.first_seen_at,
    decided_at = u.decided_at, decision = u.decision, derived = u.derived, type = u.type,
    status = u.status, reason = u.reason, account_id = u.account_id, currency = u.currency,
    reference = u.reference, trail = u.trail
FROM unnest($2::text[], $3::bigint[], $1::event[]) AS u (status_before, decision_before)
WHERE e.key = u.key AND e.status = u.status_before AND e.decision = u.decision_before";

/// What stands beside changed identities. A message is only ever replaced by
/// another one; metadata belongs to the form judged last, a correction to the last that
/// was made.
const KEEP: &str = "\
INSERT INTO event_detail AS old (key, metadata, queue, headers, marks, body, correction)
SELECT d.key, d.metadata, d.queue, d.headers, d.marks, d.body, d.correction
FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[],
            $8::text[])
    AS d (account, key, metadata, queue, headers, marks, body, correction)
ON CONFLICT (key) DO UPDATE
SET metadata = EXCLUDED.metadata, correction = coalesce(EXCLUDED.correction, old.correction),
    queue = coalesce(EXCLUDED.queue, old.queue), headers = coalesce(EXCLUDED.headers, old.headers),
    marks = coalesce(EXCLUDED.marks, old.marks), body = coalesce(EXCLUDED.body, old.body)";

/// Commits a plan.
pub(super) async fn commit(connections: &Connections, plan: &Plan) -> Result<Committed> {
    for change in &plan.accounts {
        check(change)?;
    }
    if plan.accounts.iter().all(is_plain) {
        return post_plain(connections, plan).await;
    }
    let mut unit = Unit::begin(Loan::of(connections).await?, "BEGIN").await?;
    match write(unit.connection(), plan).await {
        Ok(committed) => {
            unit.commit().await?;
            Ok(committed)
        }
        Err(error) => Err(unit.fail(error).await),
    }
}

/// What no store can write: events that no proof stands for, or events of one
/// account in the change of another, whose proof says nothing about them.
fn check(change: &AccountChange) -> Result<()> {
    let records = || {
        let updates = change.updates.iter().map(|update| &update.record);
        change.inserts.iter().chain(updates)
    };
    let proven = match &change.proof {
        Proof::Nothing | Proof::Absent => false,
        Proof::Unchanged(_) => true,
        Proof::Insert => change.after.is_some(),
        Proof::Update(before) => change.after.as_ref().is_some_and(|after| {
            (after.version, after.revision) != (before.version, before.revision)
        }),
    };
    let needs_proof = matches!(change.proof, Proof::Insert | Proof::Update(_));
    let own = records().all(|record| {
        record.event.identity.tenant == change.key.tenant
            && record.event.content.account_id == change.key.id
    });
    if (proven || !needs_proof && records().next().is_none()) && own {
        return Ok(());
    }
    Err(StoreError::Other(format!(
        "a plan that can't be proven, for account {:?} of tenant {:?}",
        change.key.id, change.key.tenant
    )))
}

/// Whether the one statement does it all.
fn is_plain(change: &AccountChange) -> bool {
    let proof = match (&change.proof, &change.after) {
        (Proof::Nothing | Proof::Unchanged(_), _) => true,
        (Proof::Update(before), Some(after)) => same_settings(before, after),
        _ => false,
    };
    proof
        && change.updates.is_empty()
        && change.letters.is_empty()
        && change.resolutions.is_empty()
        && change.audits.is_empty()
}

fn same_settings(before: &Account, after: &Account) -> bool {
    before.settings_revision == after.settings_revision
        && before.floor == after.floor
        && before.status == after.status
        && before.opened_at == after.opened_at
        && before.currency == after.currency
        && before.metadata == after.metadata
}

/// One statement is its own transaction.
async fn post_plain(connections: &Connections, plan: &Plan) -> Result<Committed> {
    let mut posting = Posting::default();
    for change in &plan.accounts {
        add(&mut posting, change, None)?;
    }
    let mut loan = Loan::of(connections).await?;
    let held = posting.send(loan.connection()).await;
    if matches!(held, Err(StoreError::Locked)) {
        // The server tells of the failure before it lets go of its own locks; who
        // asks right away which accounts are locked must not meet those.
        loan.connection().ping().await.map_err(failed)?;
    }
    let held = loan.back(held)?;
    Ok(Committed {
        stale: stale(plan, &FxHashMap::default(), &held, &FxHashSet::default()),
        rows: Vec::new(),
    })
}

/// Adds a change to a posting; `new` is the row that a new account just got.
fn add<'a>(posting: &mut Posting<'a>, change: &'a AccountChange, new: Option<i64>) -> Result<()> {
    let row = match (&change.proof, &change.after, new) {
        (Proof::Unchanged(before), ..) => {
            posting.accounts.push(before.row, before, before, false);
            before.row
        }
        (Proof::Update(before), Some(after), _) => {
            posting.accounts.push(before.row, before, after, true);
            before.row
        }
        (Proof::Insert, Some(after), Some(row)) => {
            posting.accounts.push(row, after, after, false);
            row
        }
        _ => return Ok(()),
    };
    for record in &change.inserts {
        posting.events.push(row, record)?;
        let applied = record.status == crate::domain::Status::Applied;
        posting.details.push(row, record, !applied);
    }
    Ok(())
}

/// The places whose proof failed.
fn stale(
    plan: &Plan,
    new: &FxHashMap<&AccountKey, i64>,
    held: &[i64],
    opened: &FxHashSet<AccountKey>,
) -> Vec<usize> {
    let held: FxHashSet<i64> = held.iter().copied().collect();
    let failed = |change: &AccountChange| match &change.proof {
        Proof::Nothing => false,
        Proof::Absent => opened.contains(&change.key),
        Proof::Unchanged(before) | Proof::Update(before) => !held.contains(&before.row),
        Proof::Insert => !new.get(&change.key).is_some_and(|row| held.contains(row)),
    };
    let places = plan.accounts.iter().enumerate();
    places
        .filter(|(_, change)| failed(change))
        .map(|(place, _)| place)
        .collect()
}

/// All statements of one transaction: first rows that are new, then locks in the
/// order of ids, then what hangs on them.
async fn write(connection: &mut PgConnection, plan: &Plan) -> Result<Committed> {
    let new = open(connection, plan).await?;
    let opened = opened(connection, plan).await?;
    let mut posting = Posting::default();
    for change in &plan.accounts {
        add(&mut posting, change, new.get(&change.key).copied())?;
    }
    let held = posting.send(&mut *connection).await?;
    let stale = stale(plan, &new, &held, &opened);
    let failed: FxHashSet<usize> = stale.iter().copied().collect();
    let kept: Vec<&AccountChange> = plan
        .accounts
        .iter()
        .enumerate()
        .filter(|(place, _)| !failed.contains(place))
        .map(|(_, change)| change)
        .collect();
    settle(connection, &kept).await?;
    change(connection, &kept, &new).await?;
    let letters: Vec<&Letter> = kept.iter().flat_map(|change| &change.letters).collect();
    aside::letters(&mut *connection, &letters, plan.at).await?;
    let resolutions: Vec<_> = kept.iter().flat_map(|change| &change.resolutions).collect();
    aside::resolve(&mut *connection, &resolutions, plan.at).await?;
    let audits: Vec<_> = kept.iter().flat_map(|change| &change.audits).collect();
    aside::audits(connection, &audits, plan.at).await?;
    let rows = plan.accounts.iter().enumerate();
    let rows = rows
        .filter(|(place, _)| !failed.contains(place))
        .filter_map(|(place, change)| Some((place, *new.get(&change.key)?)))
        .collect();
    Ok(Committed { stale, rows })
}

/// Inserts new accounts, and says which rows they got.
async fn open<'a>(
    connection: &mut PgConnection,
    plan: &'a Plan,
) -> Result<FxHashMap<&'a AccountKey, i64>> {
    let mut columns = SettingColumns::default();
    let mut keys = FxHashMap::default();
    for change in &plan.accounts {
        if let (Proof::Insert, Some(after)) = (&change.proof, &change.after) {
            columns.push(&change.key, after);
            keys.insert((&*change.key.tenant, &*change.key.id), &change.key);
        }
    }
    if columns.is_empty() {
        return Ok(FxHashMap::default());
    }
    let query = columns.bind(sqlx::query(OPEN));
    let mut rows = FxHashMap::default();
    for row in query.fetch_all(connection).await.map_err(failed)? {
        let mut cells = Cells::of(&row, "account");
        let (id, tenant, account): (i64, &str, &str) =
            (cells.take()?, cells.take()?, cells.take()?);
        if let Some(key) = keys.get(&(tenant, account)) {
            rows.insert(*key, id);
        }
    }
    Ok(rows)
}

/// Of the accounts that must not be there, those that are.
async fn opened(connection: &mut PgConnection, plan: &Plan) -> Result<FxHashSet<AccountKey>> {
    let absent = plan
        .accounts
        .iter()
        .filter(|change| change.proof == Proof::Absent);
    let (tenants, ids): (Vec<&str>, Vec<&str>) = absent
        .map(|change| (&*change.key.tenant, &*change.key.id))
        .unzip();
    if ids.is_empty() {
        return Ok(FxHashSet::default());
    }
    let rows: Vec<(String, String)> = sqlx::query_as(OPENED)
        .bind(tenants)
        .bind(ids)
        .fetch_all(connection)
        .await
        .map_err(failed)?;
    Ok(rows
        .into_iter()
        .map(|(tenant, id)| AccountKey::new(tenant, id))
        .collect())
}

/// Writes the settings of those accounts whose settings change.
async fn settle(connection: &mut PgConnection, changes: &[&AccountChange]) -> Result<()> {
    let mut columns = SettingColumns::default();
    for change in changes {
        if let (Proof::Update(before), Some(after)) = (&change.proof, &change.after)
            && !same_settings(before, after)
        {
            columns.push(&change.key, after);
        }
    }
    if columns.is_empty() {
        return Ok(());
    }
    let query = columns.bind(sqlx::query(SETTLE));
    query.execute(connection).await.map_err(failed)?;
    Ok(())
}

/// Changes identities. One that is not as it was fails the whole transaction.
async fn change(
    connection: &mut PgConnection,
    changes: &[&AccountChange],
    new: &FxHashMap<&AccountKey, i64>,
) -> Result<()> {
    let mut events = Events::default();
    let mut conditions = ConditionColumns::default();
    let mut details = DetailColumns::default();
    for change in changes {
        let row = match &change.proof {
            Proof::Unchanged(before) | Proof::Update(before) => before.row,
            _ => new.get(&change.key).copied().unwrap_or_default(),
        };
        for update in &change.updates {
            events.push(row, &update.record)?;
            conditions.push(update.status_before, update.decision_before);
            details.push(row, &update.record, true);
        }
    }
    let expected = events.len() as u64;
    if expected == 0 {
        return Ok(());
    }
    let query = conditions.bind(events.bind(sqlx::query(CHANGE)));
    let done = query.execute(&mut *connection).await.map_err(failed)?;
    if done.rows_affected() != expected {
        return Err(StoreError::Raced);
    }
    if details.is_empty() {
        return Ok(());
    }
    let query = details.bind_corrected(sqlx::query(KEEP));
    query.execute(connection).await.map_err(failed)?;
    Ok(())
}
