//! What the outside reads: lists, their filters, their order and their paging.

use std::sync::Arc;

use onceledger::{
    domain::{
        AccountChange, AccountKey, AccountStatus, Kind, Proof, Reason, Record, Status, Timestamp,
    },
    store::{
        AccountFilter, Direction, EventFilter, LISTED_BODY_MAX, LetterFilter, LetterStatus, Store,
    },
};
use rstest::rstest;

use super::{On, scene::*};

#[rstest]
#[tokio::test]
async fn accounts_are_listed_by_id_and_filtered(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    for id in ["b", "a", "a-2", "a_1", "Z"] {
        open(store, id, 1).await;
    }
    let elsewhere = AccountChange {
        key: AccountKey::new("other", "a"),
        inserts: Vec::new(),
        ..opening("a", 1)
    };
    store.commit(&plan(vec![elsewhere])).await.unwrap();
    books
        .sql("UPDATE account SET currency = 'USD', status = 'frozen' WHERE account_id = 'b'")
        .await
        .unwrap();
    let list = async |filter: AccountFilter, after: Option<&str>, limit| -> Vec<String> {
        let accounts = store
            .accounts("default", &filter, after, limit)
            .await
            .unwrap();
        accounts.iter().map(|(id, _)| id.to_string()).collect()
    };
    let all = AccountFilter::default;
    assert_eq!(list(all(), None, 9).await, ["Z", "a", "a-2", "a_1", "b"]);
    assert_eq!(list(all(), Some("a"), 2).await, ["a-2", "a_1"]);
    let prefix = |text: &str| AccountFilter {
        prefix: Some(text.into()),
        ..all()
    };
    assert_eq!(list(prefix("a_"), None, 9).await, ["a_1"]);
    assert_eq!(list(prefix("%"), None, 9).await, [""; 0]);
    let usd = AccountFilter {
        currency: Some("USD".into()),
        ..all()
    };
    assert_eq!(list(usd, None, 9).await, ["b"]);
    let open = AccountFilter {
        status: Some(AccountStatus::Open),
        ..all()
    };
    assert_eq!(list(open, None, 9).await, ["Z", "a", "a-2", "a_1"]);
}

#[rstest]
#[tokio::test]
async fn a_history_is_read_both_ways_and_in_pages(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let mut a = open(store, "a", 100).await;
    for n in 2..=5 {
        write(store, vec![spend("a", &a, &format!("e-{n}"), 1)]).await;
        a = page(store, "a").await.account.unwrap();
    }
    let read = async |after, direction, limit| -> Vec<i64> {
        let entries = store
            .history(&key("a"), after, direction, limit)
            .await
            .unwrap();
        entries.iter().map(|entry| entry.version.unwrap()).collect()
    };
    assert_eq!(read(None, Direction::Descending, 9).await, [5, 4, 3, 2, 1]);
    assert_eq!(read(Some(4), Direction::Descending, 2).await, [3, 2]);
    assert_eq!(read(None, Direction::Ascending, 2).await, [1, 2]);
    assert_eq!(read(Some(2), Direction::Ascending, 9).await, [3, 4, 5]);
    let entry = store.entry(&key("a"), 3).await.unwrap().unwrap();
    assert_eq!(entry, applied(debit("a", "e-3", 1), 3, 98));
    assert_eq!(store.entry(&key("a"), 6).await.unwrap(), None);
    assert_eq!(store.entry(&key("b"), 1).await.unwrap(), None);
}

#[rstest]
#[tokio::test]
async fn events_are_listed_the_last_first_and_filtered(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    open(store, "b", 100).await;
    let mut elsewhere = debit("a", "r-2", 1);
    elsewhere.identity = onceledger::domain::Identity::new("default", "fees", "r-2");
    let batch = AccountChange {
        inserts: vec![
            Arc::new(applied(debit("a", "e-1", 1), 2, 99)),
            Arc::new(rejected(
                debit("a", "r-1", 9_999),
                Reason::InsufficientFunds,
                a.found(),
            )),
            Arc::new(rejected(elsewhere, Reason::AccountFrozen, a.found())),
            Arc::new(parked(
                event("a", "p-1", Kind::Debit, 1, Some(9)),
                Reason::VersionGap,
            )),
        ],
        ..step("a", &a, &revised(&moved(&a, -1)))
    };
    write(store, vec![batch]).await;
    let list = async |filter: EventFilter, before, limit| -> Vec<String> {
        let events = store
            .events("default", &filter, before, limit)
            .await
            .unwrap();
        let id =
            |view: &onceledger::store::EventView| view.record.event.identity.event_id.to_string();
        events.views.iter().map(id).collect()
    };
    let all = EventFilter::default;
    assert_eq!(
        list(all(), None, 9).await,
        ["p-1", "r-2", "r-1", "e-1", "b", "a"]
    );
    let newest = store.events("default", &all(), None, 2).await.unwrap();
    assert_eq!(
        list(all(), Some(newest.views[1].seq), 2).await,
        ["r-1", "e-1"]
    );
    assert_eq!(
        store
            .events("other", &all(), None, 9)
            .await
            .unwrap()
            .views
            .len(),
        0
    );

    let of = |status| EventFilter {
        status: Some(status),
        ..all()
    };
    assert_eq!(list(of(Status::Rejected), None, 9).await, ["r-2", "r-1"]);
    assert_eq!(list(of(Status::Applied), None, 9).await, ["e-1", "b", "a"]);
    let reason = EventFilter {
        reason: Some(Reason::VersionGap),
        ..all()
    };
    assert_eq!(list(reason.clone(), None, 9).await, ["p-1"]);
    let account = |id: &str| EventFilter {
        account_id: Some(id.into()),
        ..all()
    };
    assert_eq!(list(account("b"), None, 9).await, ["b"]);
    assert_eq!(
        list(account("a"), None, 9).await,
        ["p-1", "r-2", "r-1", "e-1", "a"]
    );
    assert_eq!(list(account("nobody"), None, 9).await, [""; 0]);
    let both = EventFilter {
        account_id: Some("a".into()),
        ..of(Status::Rejected)
    };
    assert_eq!(list(both, None, 9).await, ["r-2", "r-1"]);
    let gap = EventFilter {
        account_id: Some("a".into()),
        ..reason
    };
    assert_eq!(list(gap, None, 9).await, ["p-1"]);
    let source = EventFilter {
        source: Some("fees".into()),
        ..all()
    };
    assert_eq!(list(source.clone(), None, 9).await, ["r-2"]);
    let id = EventFilter {
        event_id: Some("r-1".into()),
        ..all()
    };
    assert_eq!(list(id.clone(), None, 9).await, ["r-1"]);
    let identity = EventFilter {
        event_id: Some("r-1".into()),
        ..source
    };
    assert_eq!(list(identity, None, 9).await, [""; 0]);
}

#[rstest]
#[tokio::test]
async fn a_conflict_names_the_entry_that_holds_its_place(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    write(store, vec![spend("a", &a, "first", 1)]).await;
    let a = page(store, "a").await.account.unwrap();
    let late = event("a", "late", Kind::Debit, 1, Some(1));
    let refusal = AccountChange {
        inserts: vec![Arc::new(rejected(
            late.clone(),
            Reason::VersionConflict,
            a.found(),
        ))],
        ..change("a", Proof::Unchanged(a))
    };
    write(store, vec![refusal]).await;
    let view = store.event(&late.identity).await.unwrap().unwrap();
    assert_eq!(view.held_by, Some(debit("a", "first", 1).identity));
    assert!(
        store
            .event(&debit("a", "never", 1).identity)
            .await
            .unwrap()
            .is_none()
    );
}

#[rstest]
#[tokio::test]
async fn letters_are_listed_the_newest_first_with_their_bodies_cut(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let store = &*books.store;
    let long = "x".repeat(LISTED_BODY_MAX + 1);
    let mut other = letter(Reason::Undecodable, "short");
    (other.source, other.event_id, other.account_id) = (None, None, None);
    other.event = Some(debit("a", "e", 1).identity.key());
    other.raw = Arc::new(onceledger::domain::Raw {
        queue: "other".into(),
        ..raw("short")
    });
    store
        .set_aside(&[letter(Reason::Invalid, &long)], NOW)
        .await
        .unwrap();
    store
        .set_aside(std::slice::from_ref(&other), Timestamp(NOW.0 + 1))
        .await
        .unwrap();

    let all = LetterFilter::default;
    let list = store.letters("default", &all(), None, 9).await.unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list[0].letter, other);
    assert_eq!(list[0].status, LetterStatus::Open);
    assert_eq!(list[1].letter.raw.body.len(), LISTED_BODY_MAX);
    assert_eq!(list[1].body_bytes, long.len() as i64);
    let whole = store.letter("default", list[1].id).await.unwrap().unwrap();
    assert_eq!(whole.letter, letter(Reason::Invalid, &long));
    assert!(store.letter("other", list[1].id).await.unwrap().is_none());

    let older = store
        .letters("default", &all(), Some(list[0].id), 9)
        .await
        .unwrap();
    assert_eq!(
        older.iter().map(|it| it.id).collect::<Vec<_>>(),
        [list[1].id]
    );
    let filters = [
        LetterFilter {
            reason: Some(Reason::Invalid),
            ..all()
        },
        LetterFilter {
            queue: Some("q".into()),
            ..all()
        },
        LetterFilter {
            source: Some("orders".into()),
            ..all()
        },
        LetterFilter {
            event_id: Some("e-1".into()),
            ..all()
        },
        LetterFilter {
            account_id: Some("a".into()),
            ..all()
        },
    ];
    for filter in filters {
        let found = store.letters("default", &filter, None, 9).await.unwrap();
        assert_eq!(
            found.iter().map(|it| it.id).collect::<Vec<_>>(),
            [list[1].id],
            "{filter:?}"
        );
    }
    let open = LetterFilter {
        status: Some(LetterStatus::Open),
        ..all()
    };
    assert_eq!(
        store
            .letters("default", &open, None, 9)
            .await
            .unwrap()
            .len(),
        2
    );
    let done = LetterFilter {
        status: Some(LetterStatus::Replayed),
        ..all()
    };
    assert_eq!(
        store
            .letters("default", &done, None, 9)
            .await
            .unwrap()
            .len(),
        0
    );
}

#[rstest]
#[tokio::test]
async fn a_lookup_finds_what_is_known_and_nothing_else(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store: &dyn Store = &*books.store;
    let a = open(store, "a", 100).await;
    write(store, vec![spend("a", &a, "e-1", 1)]).await;
    let keys = ["e-1", "e-2"].map(|id| debit("a", id, 1).identity.key());
    let found: Vec<Record> = store.lookup(&keys).await.unwrap();
    assert_eq!(found, [applied(debit("a", "e-1", 1), 2, 99)]);
    assert_eq!(store.lookup(&[]).await.unwrap(), []);
    store.ping().await.unwrap();
}
