//! A plan becomes true: all of it in one transaction, but for accounts whose
//! proof failed, of which nothing is written.
//!
//! What lives here: the order of the statements, and what hangs on what they
//! answer. What must not: rules, and trying again.
//!
//! The transaction holds the write lock from its first moment, so that nothing
//! moves between a proof and what is written on it.

use rustc_hash::FxHashMap;
use sqlx::SqliteConnection;

use super::{
    Pool, aside,
    bulk::{Bulk, Values},
    events,
    rows::Cells,
    unit::Unit,
};
use crate::{
    domain::{Account, AccountChange, Plan, Proof},
    store::{Committed, Result, StoreError},
};

/// Accounts that become what was decided, where they are as they were.
const MOVE: Bulk = Bulk {
    head: "WITH n (id, version0, revision0, balance0, balance, version, revision, \
           settings_revision, floor, opened_at, updated_at, status, currency, metadata) AS (",
    columns: 14,
    tail: ") UPDATE account SET balance = n.balance, version = n.version, revision = n.revision, \
           settings_revision = n.settings_revision, floor = n.floor, opened_at = n.opened_at, \
           updated_at = n.updated_at, status = n.status, currency = n.currency, metadata = n.metadata \
           FROM n WHERE account.id = n.id AND account.version = n.version0 \
           AND account.revision = n.revision0 AND account.balance = n.balance0 \
           RETURNING account.id",
};

/// Accounts that stay as they are, where they are as they were.
const FENCE: Bulk = Bulk {
    head: "WITH n (id, version, revision, balance) AS (",
    columns: 4,
    tail: ") SELECT a.id FROM n CROSS JOIN account a ON a.id = n.id AND a.version = n.version \
           AND a.revision = n.revision AND a.balance = n.balance",
};

/// Accounts that must not be there, and are. A place for what waits is none.
const OPENED: Bulk = Bulk {
    head: "WITH n (place, tenant, account_id) AS (",
    columns: 3,
    tail: ") SELECT n.place FROM n CROSS JOIN account a ON a.tenant = n.tenant \
           AND a.account_id = n.account_id AND a.version >= 1",
};

/// New accounts. One that is there already is left out: its proof failed.
const OPEN: Bulk = Bulk {
    head: "INSERT INTO account (tenant, account_id, balance, version, revision, settings_revision, \
           floor, opened_at, updated_at, status, currency, metadata)",
    columns: 12,
    tail: "ON CONFLICT (tenant, account_id) DO NOTHING RETURNING id, tenant, account_id",
};

/// Commits a plan.
pub(super) async fn commit(writer: &Pool, plan: &Plan) -> Result<Committed> {
    for change in &plan.accounts {
        check(change)?;
    }
    let mut unit = Unit::begin(writer).await?;
    let done = write(unit.connection(), plan).await;
    unit.end(done).await
}

/// What no store can write: events that no proof stands for, or events of one
/// account in the change of another, whose proof says nothing about them.
fn check(change: &AccountChange) -> Result<()> {
    let updates = change.updates.iter().map(|update| &update.record);
    let mut records = change.inserts.iter().chain(updates).peekable();
    let proven = match &change.proof {
        Proof::Nothing | Proof::Absent => records.peek().is_none(),
        Proof::Unchanged(_) => true,
        Proof::Insert => change.after.is_some(),
        Proof::Update(before) => change.after.as_ref().is_some_and(|after| {
            (after.version, after.revision) != (before.version, before.revision)
        }),
    };
    let own = records.all(|record| {
        record.event.identity.tenant == change.key.tenant
            && record.event.content.account_id == change.key.id
    });
    if proven && own {
        return Ok(());
    }
    Err(StoreError::Other(format!(
        "a plan that can't be proven, for account {:?} of tenant {:?}",
        change.key.id, change.key.tenant
    )))
}

async fn write(connection: &mut SqliteConnection, plan: &Plan) -> Result<Committed> {
    let proven = prove(connection, plan).await?;
    let kept: Vec<(i64, &AccountChange)> = plan
        .accounts
        .iter()
        .zip(&proven)
        .filter_map(|(change, proven)| Some(((*proven)?, change)))
        .collect();
    events::insert(connection, &kept).await?;
    events::update(connection, &kept).await?;
    let letters: Vec<_> = kept
        .iter()
        .flat_map(|(_, change)| &change.letters)
        .collect();
    aside::letters(connection, &letters, plan.at).await?;
    let resolutions: Vec<_> = kept
        .iter()
        .flat_map(|(_, change)| &change.resolutions)
        .collect();
    aside::resolve(connection, &resolutions, plan.at).await?;
    let audits: Vec<_> = kept.iter().flat_map(|(_, change)| &change.audits).collect();
    aside::audits(connection, &audits, plan.at).await?;
    let mut committed = Committed::default();
    for (place, (change, proven)) in plan.accounts.iter().zip(&proven).enumerate() {
        match proven {
            None => committed.stale.push(place),
            Some(row) if change.proof == Proof::Insert => committed.rows.push((place, *row)),
            Some(_) => {}
        }
    }
    Ok(committed)
}

/// For each place of the plan the account's row where its proof held (0 where
/// there is none), and `None` where it failed. What was to be moved has moved.
async fn prove(connection: &mut SqliteConnection, plan: &Plan) -> Result<Vec<Option<i64>>> {
    let mut proven: Vec<Option<i64>> = vec![None; plan.accounts.len()];
    let mut of_row = FxHashMap::default();
    let mut of_name = FxHashMap::default();
    let (mut moves, mut fences, mut absent, mut new) = (vec![], vec![], vec![], vec![]);
    for (place, change) in plan.accounts.iter().enumerate() {
        match (&change.proof, &change.after) {
            (Proof::Nothing, _) => proven[place] = Some(0),
            (Proof::Absent, _) => {
                proven[place] = Some(0);
                absent.push((place, change));
            }
            (Proof::Unchanged(before), _) => {
                of_row.insert(before.row, place);
                fences.push(before);
            }
            (Proof::Update(before), Some(after)) => {
                of_row.insert(before.row, place);
                moves.push((before, after));
            }
            (Proof::Insert, Some(after)) => {
                of_name.insert((&*change.key.tenant, &*change.key.id), place);
                new.push((change, after));
            }
            (Proof::Update(_) | Proof::Insert, None) => {}
        }
    }
    let moved = MOVE.fetch(connection, &moves, |row, (before, after)| {
        put_state(row.put(before.row), before);
        put_account(row, after);
    });
    let mut held = moved.await?;
    let fenced = FENCE.fetch(connection, &fences, |row, before| {
        put_state(row.put(before.row), before);
    });
    held.append(&mut fenced.await?);
    for row in &held {
        let id: i64 = Cells::of(row, "account").take()?;
        if let Some(place) = of_row.get(&id) {
            proven[*place] = Some(id);
        }
    }
    let opened = OPENED.fetch(connection, &absent, |row, (place, change)| {
        row.put(i64::try_from(*place).unwrap_or(i64::MAX))
            .put(change.key.tenant.clone())
            .put(change.key.id.clone());
    });
    for row in &opened.await? {
        let place: i64 = Cells::of(row, "account").take()?;
        if let Some(proven) = usize::try_from(place)
            .ok()
            .and_then(|it| proven.get_mut(it))
        {
            *proven = None;
        }
    }
    let made = OPEN.fetch(connection, &new, |row, (change, after)| {
        row.put(change.key.tenant.clone())
            .put(change.key.id.clone());
        put_account(row, after);
    });
    for row in &made.await? {
        let mut cells = Cells::of(row, "account");
        let (id, tenant, account_id): (i64, &str, &str) =
            (cells.take()?, cells.take()?, cells.take()?);
        if let Some(place) = of_name.get(&(tenant, account_id)) {
            proven[*place] = Some(id);
        }
    }
    Ok(proven)
}

/// Version, revision, balance: what a proof is about.
fn put_state(row: &mut Values, account: &Account) {
    row.put(account.version)
        .put(account.revision)
        .put(account.balance);
}

fn put_account(row: &mut Values, account: &Account) {
    row.put(account.balance)
        .put(account.version)
        .put(account.revision)
        .put(account.settings_revision)
        .put(account.floor)
        .put(account.opened_at.0)
        .put(account.updated_at.0)
        .put(account.status.as_str())
        .put(
            account
                .currency
                .as_ref()
                .map(|code| code.as_str().to_owned()),
        )
        .put(account.metadata.clone());
}
