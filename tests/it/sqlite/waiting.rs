//! What waits, and the plans that SQLite makes for the path of an event.

use onceledger::{
    domain::{Answer, Ask, Kind, RELEASE_MAX, Status, Timestamp, Work},
    store::EventFilter,
};
use sqlx::{AssertSqlSafe, Row as _};

use super::{Books, event, key, open};

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
    assert_eq!(left.unwrap().views.len(), 0);
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
/// through a whole table. What reads the events that wait names its index in the
/// statement: SQLite refuses it where that index can't serve.
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
        "SELECT * FROM event e WHERE e.tenant = ?1 AND e.version IS NULL AND e.status = ?2 \
         ORDER BY e.seq DESC LIMIT 9",
        &["USING INDEX event_aside_idx (status=?)"],
    )
    .await;
    check(
        "SELECT * FROM event e WHERE e.tenant = ?1 AND ((e.version IS NOT NULL AND e.account = ?2) \
         OR (e.version IS NULL AND e.account = ?2)) ORDER BY e.seq DESC LIMIT 9",
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
}
