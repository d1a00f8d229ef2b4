//! The reads of the outside.

use std::sync::Arc;

use onceledger::{
    domain::{Identity, Kind, Letter, Raw, Reason, Status, Timestamp},
    store::{AccountFilter, Direction, EventFilter, LISTED_BODY_MAX, LetterFilter, LetterView},
};

use super::{Books, event, key, open};

fn ids(letters: &[LetterView]) -> Vec<uuid::Uuid> {
    letters.iter().map(|letter| letter.id).collect()
}

/// A letter with a body of its own.
fn letter(n: usize) -> Letter {
    Letter {
        tenant: "default".into(),
        reason: Reason::Invalid,
        detail: serde_json::json!({"field": "amount"}),
        source: Some("s".into()),
        event_id: Some(format!("e{n}").into()),
        account_id: None,
        event: None,
        raw: Arc::new(Raw {
            queue: "q".into(),
            body: format!("{n:05000}").into_bytes(),
            headers: "{}".into(),
            marks: "".into(),
        }),
    }
}

#[tokio::test]
async fn a_prefix_is_no_pattern() {
    let books = Books::new().await;
    let ids = ["a_b", "axb", "a%b", "a", "ab", "b", "A_b", "a_", "a_:z"];
    let valid = |id: &&str| !id.contains('%');
    let works: Vec<_> = ids
        .into_iter()
        .filter(valid)
        .map(|id| open(id, 1, None))
        .collect();
    books.settle(&works).await;
    // Only awaited: no account to the outside.
    books
        .settle(&[event("a_c", "e", Kind::Debit, 1, None)])
        .await;
    let list = async |prefix: &str| {
        let filter = AccountFilter {
            prefix: Some(prefix.to_owned()),
            ..AccountFilter::default()
        };
        let found = books.store.accounts("default", &filter, None, 100).await;
        let ids = found.unwrap().into_iter().map(|(id, _)| id.to_string());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(list("a_").await, ["a_", "a_:z", "a_b"]);
    assert_eq!(list("a%").await, Vec::<String>::new());
    assert_eq!(list("a\0").await, Vec::<String>::new());
    assert_eq!(list("A").await, ["A_b"]);
    assert_eq!(list("").await.len(), 8);
    let all = AccountFilter::default();
    let after = books.store.accounts("default", &all, Some("a_b"), 2);
    let after: Vec<_> = after.await.unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(after, ["ab".into(), "axb".into()] as [Arc<str>; 2]);
    assert_eq!(books.store.account(&key("a_c")).await.unwrap(), None);
}

#[tokio::test]
async fn bodies_are_cut_in_lists_and_whole_alone() {
    let books = Books::new().await;
    let letters = [letter(1), letter(2), letter(1)];
    books.store.set_aside(&letters, Timestamp(5)).await.unwrap();
    books
        .store
        .set_aside(&letters[..1], Timestamp(9))
        .await
        .unwrap();
    let filter = LetterFilter::default();
    let listed = books
        .store
        .letters("default", &filter, None, 10)
        .await
        .unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1].seen, 3);
    assert_eq!(
        (listed[1].received_at, listed[1].last_seen_at),
        (Timestamp(5), Timestamp(9))
    );
    assert_eq!(listed[1].letter.raw.body.len(), LISTED_BODY_MAX);
    assert_eq!(listed[1].body_bytes, 5_000);
    let whole = books
        .store
        .letter("default", listed[1].id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(whole.letter, letters[0]);
    let strange = books.store.letter("other", listed[1].id).await.unwrap();
    assert!(strange.is_none());
    let behind = books
        .store
        .letters("default", &filter, Some(listed[0].id), 10);
    assert_eq!(ids(&behind.await.unwrap()), [listed[1].id]);
    let named = LetterFilter {
        event_id: Some("e2".to_owned()),
        queue: Some("q".to_owned()),
        reason: Some(Reason::Invalid),
        ..LetterFilter::default()
    };
    let named = books
        .store
        .letters("default", &named, None, 10)
        .await
        .unwrap();
    assert_eq!(ids(&named), [listed[0].id]);
}

#[tokio::test]
async fn events_are_found_whatever_became_of_them() {
    let books = Books::new().await;
    books
        .settle(&[
            open("a", 100, Some(0)),
            event("a", "one", Kind::Debit, 10, Some(1)),
            event("a", "late", Kind::Debit, 20, Some(1)),
            event("a", "poor", Kind::Debit, 1_000, None),
            event("a", "gap", Kind::Debit, 1, Some(9)),
            event("b", "early", Kind::Debit, 1, None),
        ])
        .await;
    let copies = [(Identity::new("default", "s", "one").key(), 2)];
    for _ in 0..2 {
        books
            .store
            .count_copies(&copies, Timestamp(7))
            .await
            .unwrap();
    }
    let one = books
        .store
        .event(&Identity::new("default", "s", "one"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((one.duplicates, one.record.status), (4, Status::Applied));
    assert_eq!(
        one.record.raw, None,
        "what was applied at once keeps no message"
    );
    assert_eq!(one.record.event.metadata.as_deref(), Some("{\"n\":1}"));
    let late = books
        .store
        .event(&Identity::new("default", "s", "late"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(late.held_by, Some(Identity::new("default", "s", "one")));
    assert_eq!(late.record.raw.as_ref().unwrap().body, b"late");

    let list = async |filter: EventFilter| {
        let found = books
            .store
            .events("default", &filter, None, 100)
            .await
            .unwrap()
            .views;
        let ids = found
            .iter()
            .map(|view| view.record.event.identity.event_id.to_string());
        ids.collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    let by = EventFilter::default;
    assert_eq!(
        list(by()).await,
        ["early", "gap", "poor", "late", "one", "a"]
    );
    assert_eq!(
        list(EventFilter {
            account_id: some("a"),
            ..by()
        })
        .await,
        ["gap", "poor", "late", "one", "a"]
    );
    assert_eq!(
        list(EventFilter {
            account_id: some("b"),
            ..by()
        })
        .await,
        ["early"]
    );
    assert_eq!(
        list(EventFilter {
            account_id: some("c"),
            ..by()
        })
        .await,
        Vec::<String>::new()
    );
    assert_eq!(
        list(EventFilter {
            status: Some(Status::Applied),
            ..by()
        })
        .await,
        ["one", "a"]
    );
    assert_eq!(
        list(EventFilter {
            status: Some(Status::Parked),
            ..by()
        })
        .await,
        ["early", "gap"]
    );
    let gaps = EventFilter {
        status: Some(Status::Parked),
        account_id: some("a"),
        ..by()
    };
    assert_eq!(list(gaps).await, ["gap"]);
    let entries = EventFilter {
        status: Some(Status::Applied),
        account_id: some("a"),
        ..by()
    };
    assert_eq!(list(entries).await, ["one", "a"]);
    assert_eq!(
        list(EventFilter {
            reason: Some(Reason::VersionConflict),
            ..by()
        })
        .await,
        ["late"]
    );
    let poor = EventFilter {
        reason: Some(Reason::InsufficientFunds),
        account_id: some("a"),
        ..by()
    };
    assert_eq!(list(poor).await, ["poor"]);
    assert_eq!(
        list(EventFilter {
            source: some("s"),
            event_id: some("gap"),
            ..by()
        })
        .await,
        ["gap"]
    );
    assert_eq!(
        list(EventFilter {
            source: some("t"),
            event_id: some("gap"),
            ..by()
        })
        .await,
        Vec::<String>::new()
    );
    assert_eq!(
        list(EventFilter {
            event_id: some("gap"),
            ..by()
        })
        .await,
        ["gap"]
    );
    assert_eq!(
        list(EventFilter {
            source: some("onceledger.opening"),
            ..by()
        })
        .await,
        ["a"]
    );

    let all = books
        .store
        .events("default", &by(), None, 100)
        .await
        .unwrap()
        .views;
    let page = books
        .store
        .events("default", &by(), Some(all[1].seq), 2)
        .await
        .unwrap()
        .views;
    assert_eq!(
        page.iter().map(|it| it.seq).collect::<Vec<_>>(),
        [all[2].seq, all[3].seq]
    );
    assert_eq!(
        books
            .store
            .events("other", &by(), None, 100)
            .await
            .unwrap()
            .views
            .len(),
        0
    );
}

#[tokio::test]
async fn a_history_is_read_both_ways() {
    let books = Books::new().await;
    let mut works = vec![open("a", 100, Some(0))];
    works.extend((1..5).map(|n| event("a", &format!("e{n}"), Kind::Debit, n, Some(n))));
    books.settle(&works).await;
    let read = async |after, direction| {
        let found = books
            .store
            .history(&key("a"), after, direction, 2)
            .await
            .unwrap();
        found
            .iter()
            .map(|it| it.version.unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(read(None, Direction::Ascending).await, [1, 2]);
    assert_eq!(read(Some(3), Direction::Ascending).await, [4, 5]);
    assert_eq!(read(None, Direction::Descending).await, [5, 4]);
    assert_eq!(read(Some(2), Direction::Descending).await, [1]);
    let entry = books.store.entry(&key("a"), 3).await.unwrap().unwrap();
    assert_eq!((entry.balance_after, entry.floor), (Some(97), Some(0)));
    assert_eq!(books.store.entry(&key("a"), 6).await.unwrap(), None);
    assert_eq!(books.store.entry(&key("b"), 1).await.unwrap(), None);
}
