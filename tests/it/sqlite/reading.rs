//! The reads of the outside, and the plans that SQLite makes for them.

use std::sync::Arc;

use onceledger::{
    domain::{
        Answer, Ask, Identity, Kind, Letter, RELEASE_MAX, Raw, Reason, Status, Timestamp, Work,
    },
    store::{AccountFilter, Direction, EventFilter, LISTED_BODY_MAX, LetterFilter, LetterView},
};
use sqlx::{AssertSqlSafe, Row as _};

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
            .unwrap();
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
        .unwrap();
    let page = books
        .store
        .events("default", &by(), Some(all[1].seq), 2)
        .await
        .unwrap();
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

#[tokio::test]
async fn a_page_carries_a_window_of_what_waits_and_says_that_there_is_more() {
    let books = Books::new().await;
    let parked = RELEASE_MAX as i64 + 5;
    // The last first, so that the order is not the one of arrival.
    let mut works: Vec<Work> = (2..parked + 2)
        .rev()
        .map(|v| event("a", &format!("v{v}"), Kind::Credit, 1, Some(v)))
        .collect();
    works.extend((0..3).map(|n| event("a", &format!("u{n}"), Kind::Credit, 1, None)));
    books.settle(&works).await;
    let pages = books
        .store
        .load(&[key("none"), key("a"), key("a")])
        .await
        .unwrap();
    assert_eq!(pages[0], onceledger::domain::Page::default());
    assert_eq!(pages[1], pages[2]);
    let page = &pages[1];
    assert!(page.more_versioned && !page.more_unversioned);
    assert_eq!(page.waiting.len(), RELEASE_MAX + 3);
    let ids: Vec<_> = page
        .waiting
        .iter()
        .map(|it| &*it.event.identity.event_id)
        .collect();
    assert_eq!(ids[..2], ["v2", "v3"]);
    assert_eq!(ids[RELEASE_MAX..], ["u0", "u1", "u2"]);
    assert_eq!(page.waiting[0].event.metadata.as_deref(), Some("{\"n\":1}"));
    assert_eq!(
        books.store.due(10).await.unwrap(),
        [],
        "nobody opened it yet"
    );

    // The opening releases the unversioned ones; then version 2 is missing no more.
    books.settle(&[open("a", 0, None)]).await;
    let mut ledger = books.ledger();
    while let [due] = &books.store.due(10).await.unwrap()[..] {
        let release = Work {
            account: due.clone(),
            ask: Ask::Release,
        };
        let answers = ledger.settle(&[release]).await;
        assert_eq!(answers, [Ok(Answer::Released)]);
    }
    let parked = EventFilter {
        status: Some(Status::Parked),
        ..EventFilter::default()
    };
    let left = books.store.events("default", &parked, None, 10).await;
    assert_eq!(left.unwrap().len(), 0);
    assert_eq!(books.store.verify().await.unwrap().offences, []);
}

#[tokio::test]
async fn what_expired_comes_with_its_message() {
    let books = Books::new().await;
    books
        .settle(&[event("a", "early", Kind::Debit, 1, None)])
        .await;
    let store = &books.store;
    assert!(
        store
            .expired(Timestamp(999_999), 10)
            .await
            .unwrap()
            .is_empty()
    );
    let expired = store.expired(Timestamp(1_000_000), 10).await.unwrap();
    assert_eq!(expired.len(), 1);
    assert_eq!(
        (&expired[0].account, &*expired[0].raw.body),
        (&key("a"), &b"early"[..])
    );
}

/// Nothing on the path of an event, and no list with an index made for it, walks
/// through a whole table.
#[tokio::test]
async fn plans_use_the_indexes() {
    let books = Books::new().await;
    let mut outsider = books.outsider().await;
    let mut check = async |sql: &str, wanted: &[&str]| {
        let plan = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
            .fetch_all(&mut outsider)
            .await
            .unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
        let plan = plan.join("\n");
        for part in wanted {
            assert!(plan.contains(part), "{sql}\nwants {part}:\n{plan}");
        }
        assert!(!plan.contains("SCAN e\n"), "{sql}\n{plan}");
    };
    check(
        "SELECT * FROM event e WHERE e.tenant = ?1 AND e.status <> 'applied' AND e.status = ?2 \
         ORDER BY e.seq DESC LIMIT 9",
        &["USING INDEX event_aside_idx (status=?)"],
    )
    .await;
    check(
        "SELECT * FROM event e WHERE e.tenant = ?1 AND ((e.version IS NOT NULL AND e.account = ?2) \
         OR (e.status <> 'applied' AND e.account = ?2)) ORDER BY e.seq DESC LIMIT 9",
        &[
            "event_account_version_key (account=?",
            "event_aside_account_idx (account=?",
        ],
    )
    .await;
    check(
        "WITH n (key, s) AS (VALUES (?, ?), (?, ?)) UPDATE event SET status = n.s FROM n \
         WHERE event.key = n.key AND event.status = n.s AND event.decision = 1",
        &["SEARCH event USING INDEX sqlite_autoindex_event_1 (key=?)"],
    )
    .await;
    check(
        "WITH n (id, v, b) AS (VALUES (?, ?, ?), (?, ?, ?)) UPDATE account SET version = n.v FROM n \
         WHERE account.id = n.id AND account.version = n.v AND account.balance = n.b \
         RETURNING account.id",
        &["SEARCH account USING INTEGER PRIMARY KEY (rowid=?)"],
    )
    .await;
    check(
        "SELECT 1 FROM json_each(?1) j CROSS JOIN event e ON e.seq IN (SELECT seq FROM (SELECT seq FROM event \
         WHERE account = j.value AND status = 'parked' AND (expected_version IS NULL) = 0 \
         ORDER BY expected_version, seq LIMIT 1001))",
        &[
            "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)",
            "event_parked_idx (account=? AND <expr>=?)",
        ],
    )
    .await;
    check(
        "SELECT min(e.account) FROM event e WHERE e.status = 'parked' AND e.account > ?1",
        &["event_parked_idx (account>?)"],
    )
    .await;
}
