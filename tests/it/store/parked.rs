//! What waits: its order, how much of it a page carries, and what the sweeper finds.

use std::sync::Arc;

use onceledger::{
    domain::{
        Account, AccountChange, AccountKey, Kind, Proof, RELEASE_MAX, Reason, Record, Status,
        Timestamp,
    },
    store::Store,
};
use rstest::rstest;

use super::{On, scene::*};

/// Parks events on a known account and gives the account after it.
async fn park(store: &dyn Store, id: &str, records: Vec<Record>) -> Account {
    let before = page(store, id).await.account.unwrap();
    let after = revised(&before);
    let parking = AccountChange {
        inserts: records.into_iter().map(Arc::new).collect(),
        ..step(id, &before, &after)
    };
    write(store, vec![parking]).await;
    after
}

fn gap(account: &str, id: &str, expected: i64) -> Record {
    let event = event(account, id, Kind::Debit, 1, Some(expected));
    parked(event, Reason::VersionGap)
}

fn ids(waiting: &[Arc<Record>]) -> Vec<&str> {
    waiting
        .iter()
        .map(|r| &*r.event.identity.event_id)
        .collect()
}

#[rstest]
#[tokio::test]
async fn pages_come_in_the_order_asked_for_with_what_waits(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let store = &*books.store;
    for id in ["a", "b", "c"] {
        open(store, id, 100).await;
    }
    let plain = parked(debit("b", "plain", 1), Reason::AccountNotFound);
    let second = parked(debit("b", "second", 1), Reason::AccountNotFound);
    let batch = vec![
        gap("b", "late", 9),
        plain,
        gap("b", "early", 3),
        gap("b", "later", 9),
        second,
    ];
    park(store, "b", batch).await;
    park(store, "c", vec![gap("c", "c", 2)]).await;
    let elsewhere = AccountKey::new("other", "a");
    let asked = [key("c"), key("nobody"), key("b"), elsewhere, key("a")];
    let pages = store.load(&asked).await.unwrap();
    let there: Vec<bool> = pages.iter().map(|page| page.account.is_some()).collect();
    assert_eq!(there, [true, false, true, false, true]);
    assert_eq!(ids(&pages[0].waiting), ["c"]);
    assert_eq!(
        ids(&pages[2].waiting),
        ["early", "late", "later", "plain", "second"]
    );
    assert!(pages[4].waiting.is_empty());
    assert!(
        pages
            .iter()
            .all(|page| !page.more_versioned && !page.more_unversioned)
    );
}

#[rstest]
#[tokio::test]
async fn a_page_carries_a_thousand_of_each_kind_and_says_that_there_are_more(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let store = &*books.store;
    open(store, "v", 100).await;
    open(store, "u", 100).await;
    let versioned = |n: i64| gap("v", &format!("v{n}"), 5_000 - n);
    let unversioned = |n: i64| parked(debit("u", &format!("u{n}"), 1), Reason::AccountNotFound);
    let limit = RELEASE_MAX as i64;
    park(store, "v", (0..limit).map(versioned).collect()).await;
    park(store, "u", (0..limit).map(unversioned).collect()).await;
    let full = store.load(&[key("v"), key("u")]).await.unwrap();
    assert!(
        full.iter()
            .all(|page| !page.more_versioned && !page.more_unversioned)
    );
    assert!(full.iter().all(|page| page.waiting.len() == RELEASE_MAX));

    park(store, "v", vec![versioned(limit)]).await;
    park(store, "u", vec![unversioned(limit)]).await;
    let over = store.load(&[key("v"), key("u")]).await.unwrap();
    assert_eq!(
        (over[0].more_versioned, over[0].more_unversioned),
        (true, false)
    );
    assert_eq!(
        (over[1].more_versioned, over[1].more_unversioned),
        (false, true)
    );
    assert_eq!(
        ids(&over[0].waiting)[0],
        "v1000",
        "the lowest version first"
    );
    assert_eq!(ids(&over[0].waiting)[999], "v1");
    let first_seen: Vec<String> = (0..limit).map(|n| format!("u{n}")).collect();
    assert_eq!(ids(&over[1].waiting), first_seen);
}

#[rstest]
#[tokio::test]
async fn what_is_due_is_found_by_its_account(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    for id in ["gap", "due", "plain", "unopened-before", "none"] {
        open(store, id, 100).await;
    }
    park(store, "gap", vec![gap("gap", "g", 2)]).await;
    park(store, "due", vec![gap("due", "d1", 1), gap("due", "d2", 1)]).await;
    let plain = parked(debit("plain", "p", 1), Reason::AccountNotFound);
    park(store, "plain", vec![plain]).await;
    let early = parked(
        event("unopened-before", "e", Kind::Debit, 1, Some(7)),
        Reason::AccountNotFound,
    );
    park(store, "unopened-before", vec![early]).await;
    let waits = AccountChange {
        after: Some(Account::awaited(NOW)),
        inserts: vec![Arc::new(parked(
            debit("awaited", "a", 1),
            Reason::AccountNotFound,
        ))],
        ..change("awaited", Proof::Insert)
    };
    write(store, vec![waits]).await;
    let mut due: Vec<String> = store
        .due(10)
        .await
        .unwrap()
        .iter()
        .map(|k| k.id.to_string())
        .collect();
    due.sort();
    assert_eq!(due, ["due", "plain", "unopened-before"]);
    assert_eq!(store.due(2).await.unwrap().len(), 2);
}

#[rstest]
#[tokio::test]
async fn what_waited_too_long_is_found_oldest_first_with_its_message(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let store = &*books.store;
    open(store, "a", 100).await;
    let since = |id: &str, at: i64| {
        let mut record = gap("a", id, 9);
        record.decided_at = Timestamp(at);
        record.raw = Some(Arc::new(raw(id)));
        record
    };
    let mut dead = since("dead", 1);
    dead.status = Status::Dead;
    park(
        store,
        "a",
        vec![
            since("young", 30),
            since("old", 20),
            since("oldest", 10),
            dead,
        ],
    )
    .await;
    let expired = store.expired(Timestamp(20), 10).await.unwrap();
    let bodies: Vec<&[u8]> = expired.iter().map(|it| &*it.raw.body).collect();
    assert_eq!(bodies, [&b"oldest"[..], b"old"]);
    assert_eq!(expired[0].account, key("a"));
    assert_eq!(expired[0].key, gap("a", "oldest", 9).event.identity.key());
    assert_eq!(store.expired(Timestamp(20), 1).await.unwrap().len(), 1);
    assert_eq!(*expired[0].raw, raw("oldest"));
}
