//! Accounts, records and plans, made by hand: the suite says what is written,
//! and lets no rule decide it.

use std::sync::Arc;

use onceledger::{
    domain::{
        Account, AccountChange, AccountKey, AccountStatus, Content, Currency, Event, Found,
        Identity, Kind, Letter, Page, Plan, Proof, Raw, Reason, Record, RecordUpdate,
        SOURCE_OPENING, Status, Timestamp,
    },
    store::{Committed, Store},
};

/// The moment of every plan that names no other.
pub(super) const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

pub(super) fn key(id: &str) -> AccountKey {
    AccountKey::new("default", id)
}

/// An open account at version 1.
pub(super) fn account(balance: i64) -> Account {
    Account {
        currency: Currency::parse("EUR"),
        balance,
        version: 1,
        status: AccountStatus::Open,
        floor: Some(0),
        ..Account::awaited(NOW)
    }
}

pub(super) fn event(
    account: &str,
    id: &str,
    kind: Kind,
    amount: i64,
    expected: Option<i64>,
) -> Event {
    Event {
        identity: Identity::new("default", "orders", id),
        derived: false,
        content: Content {
            account_id: account.into(),
            kind,
            amount,
            currency: None,
            expected_version: expected,
        },
        reference: None,
        occurred_at: None,
        metadata: None,
    }
}

pub(super) fn debit(account: &str, id: &str, amount: i64) -> Event {
    event(account, id, Kind::Debit, amount, None)
}

/// The record of an event that took effect.
pub(super) fn applied(event: Event, version: i64, balance_after: i64) -> Record {
    Record {
        status: Status::Applied,
        version: Some(version),
        balance_after: Some(balance_after),
        floor: Some(0),
        decision: 1,
        ..Record::fresh(Arc::new(event), None, NOW)
    }
}

/// The record of an event that waits.
pub(super) fn parked(event: Event, reason: Reason) -> Record {
    Record {
        status: Status::Parked,
        reason: Some(reason),
        ..Record::fresh(Arc::new(event), Some(Arc::new(raw("{}"))), NOW)
    }
}

/// The record of an event that was refused.
pub(super) fn rejected(event: Event, reason: Reason, found: Found) -> Record {
    Record {
        status: Status::Rejected,
        reason: Some(reason),
        found: Some(found),
        decision: 1,
        ..Record::fresh(Arc::new(event), Some(Arc::new(raw("{}"))), NOW)
    }
}

pub(super) fn raw(body: &str) -> Raw {
    Raw {
        queue: "q".into(),
        body: body.into(),
        headers: "{}".into(),
        marks: "".into(),
    }
}

pub(super) fn letter(reason: Reason, body: &str) -> Letter {
    Letter {
        tenant: "default".into(),
        reason,
        detail: serde_json::json!({"field": "amount"}),
        source: Some("orders".into()),
        event_id: Some("e-1".into()),
        account_id: Some("a".into()),
        event: None,
        raw: Arc::new(raw(body)),
    }
}

/// A change of one account that writes nothing yet.
pub(super) fn change(id: &str, proof: Proof) -> AccountChange {
    AccountChange {
        key: key(id),
        proof,
        after: None,
        inserts: Vec::new(),
        updates: Vec::new(),
        letters: Vec::new(),
        resolutions: Vec::new(),
        audits: Vec::new(),
    }
}

/// A change in which an account becomes another.
pub(super) fn step(id: &str, before: &Account, after: &Account) -> AccountChange {
    AccountChange {
        after: Some(after.clone()),
        ..change(id, Proof::Update(before.clone()))
    }
}

/// A change in which a known account takes one debit.
pub(super) fn spend(id: &str, before: &Account, event_id: &str, amount: i64) -> AccountChange {
    let after = moved(before, -amount);
    let record = applied(debit(id, event_id, amount), after.version, after.balance);
    AccountChange {
        inserts: vec![Arc::new(record)],
        ..step(id, before, &after)
    }
}

/// The account one entry later.
pub(super) fn moved(before: &Account, by: i64) -> Account {
    Account {
        version: before.version + 1,
        balance: before.balance + by,
        ..before.clone()
    }
}

/// The account after something that is no entry.
pub(super) fn revised(before: &Account) -> Account {
    Account {
        revision: before.revision + 1,
        ..before.clone()
    }
}

/// A change in which a new account appears.
pub(super) fn opening(id: &str, balance: i64) -> AccountChange {
    let event = Event {
        identity: Identity::new("default", SOURCE_OPENING, id),
        ..event(id, id, Kind::Opening, balance, None)
    };
    AccountChange {
        after: Some(account(balance)),
        inserts: vec![Arc::new(applied(event, 1, balance))],
        ..change(id, Proof::Insert)
    }
}

/// A change of status.
pub(super) fn update(before: &Record, after: Record) -> RecordUpdate {
    RecordUpdate {
        status_before: before.status,
        decision_before: before.decision,
        record: Arc::new(after),
    }
}

pub(super) fn plan(accounts: Vec<AccountChange>) -> Plan {
    Plan { accounts, at: NOW }
}

/// Commits a plan in which nothing is stale.
pub(super) async fn write(store: &dyn Store, accounts: Vec<AccountChange>) -> Committed {
    let committed = store.commit(&plan(accounts)).await.unwrap();
    assert_eq!(committed.stale, Vec::<usize>::new());
    committed
}

/// Opens an account and reads it back.
pub(super) async fn open(store: &dyn Store, id: &str, balance: i64) -> Account {
    write(store, vec![opening(id, balance)]).await;
    page(store, id).await.account.unwrap()
}

pub(super) async fn page(store: &dyn Store, id: &str) -> Page {
    store.load(&[key(id)]).await.unwrap().remove(0)
}

/// Version and balance as they stand.
pub(super) async fn state(store: &dyn Store, id: &str) -> (i64, i64) {
    let account = page(store, id).await.account.unwrap();
    (account.version, account.balance)
}

/// One record by its identity.
pub(super) async fn known(store: &dyn Store, event: &Event) -> Option<Record> {
    let mut records = store.lookup(&[event.identity.key()]).await.unwrap();
    records.pop()
}

/// Nothing breaks an invariant.
pub(super) async fn sound(store: &dyn Store) {
    let verified = store.verify().await.unwrap();
    assert_eq!(verified.offences, Vec::new());
}
