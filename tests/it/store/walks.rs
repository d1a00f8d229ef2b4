//! Lists to which no index leads: each page looks at a bounded number of events.

use onceledger::{
    domain::{Identity, Reason},
    store::{EVENTS_WALKED_MAX, EventFilter, EventsFound},
};
use rstest::rstest;

use super::{Books, On};

/// So many events, all of a source `common` but for two of `rare`.
const EVENTS: i64 = 250_000;

fn identity(n: i64) -> Identity {
    let source = if [7, EVENTS - 1].contains(&n) {
        "rare"
    } else {
        "common"
    };
    Identity::new("default", source, format!("e{n}"))
}

async fn long(on: On) -> Books {
    let books = on.books().await;
    let literal = |n: i64| {
        let hex: String = identity(n)
            .key()
            .0
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        match on {
            On::Postgres => format!("WHEN {n} THEN '{hex}'::uuid"),
            On::Sqlite => format!("WHEN {n} THEN x'{hex}'"),
        }
    };
    // Only those that come to light need the key of their names.
    let shown: Vec<String> = (1..20).chain(EVENTS - 20..=EVENTS).map(literal).collect();
    let (other, numbers) = match on {
        On::Postgres => (
            "md5(n::text)::uuid",
            format!("generate_series(1, {EVENTS}) AS numbers (n)"),
        ),
        On::Sqlite => (
            "randomblob(16)",
            format!(
                "(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s \
                 WHERE n < {EVENTS}) SELECT n FROM s) AS numbers"
            ),
        ),
    };
    let key = format!("CASE n {} ELSE {other} END", shown.join(" "));
    for statement in [
        "INSERT INTO account (balance, version, revision, settings_revision, opened_at, \
           updated_at, tenant, account_id, status, currency) \
         VALUES (0, 250000, 0, 0, 1, 1, 'default', 'a', 'open', 'EUR')"
            .to_owned(),
        format!(
            "INSERT INTO event (account, version, amount, balance_after, first_seen_at, decided_at, \
               decision, key, derived, type, status, tenant, source, event_id, account_id) \
             SELECT (SELECT id FROM account), n, 0, 0, n, n, 1, {key}, false, 'credit', 'applied', \
               'default', CASE WHEN n IN (7, 249999) THEN 'rare' ELSE 'common' END, \
               'e' || n, 'a' FROM {numbers}"
        ),
    ] {
        books.sql(&statement).await.unwrap();
    }
    books
}

async fn found(books: &Books, filter: &EventFilter, before: Option<i64>) -> EventsFound {
    let store = &books.store;
    store.events("default", filter, before, 10).await.unwrap()
}

#[rstest]
#[tokio::test]
async fn a_rare_source_is_found_in_bounded_steps(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = long(on).await;
    let rare = EventFilter {
        source: Some("rare".to_owned()),
        ..EventFilter::default()
    };
    let (mut ids, mut before, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = found(&books, &rare, before).await;
        if let (Some(last), Some(next)) = (before, page.before) {
            assert_eq!(last - next, EVENTS_WALKED_MAX);
        }
        ids.extend(
            page.views
                .iter()
                .map(|view| view.record.event.identity.event_id.to_string()),
        );
        pages += 1;
        before = page.before;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(ids, ["e249999", "e7"]);
    assert_eq!(pages, 3);
    let last = EventFilter {
        event_id: Some("e1".to_owned()),
        ..EventFilter::default()
    };
    let mut place = found(&books, &last, None).await.before;
    while let Some(before) = place {
        let page = found(&books, &last, Some(before)).await;
        place = page.before;
        assert_eq!(page.views.is_empty(), place.is_some());
    }
    // A tenant that has nothing does not walk through what all the others have.
    let store = &books.store;
    let nobody = store
        .events("nobody", &EventFilter::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(nobody.before, Some(EVENTS + 1 - EVENTS_WALKED_MAX));
    // A page that is full says where it ends, and the last one that there is no more.
    let common = EventFilter {
        source: Some("common".to_owned()),
        ..EventFilter::default()
    };
    let page = found(&books, &common, Some(EVENTS)).await;
    assert_eq!((page.views.len(), page.before), (10, Some(EVENTS - 11)));
    let page = found(&books, &common, Some(12)).await;
    assert_eq!((page.views.len(), page.before), (10, None));
}

/// What an index leads to is answered at once, and so is an identity.
#[rstest]
#[tokio::test]
async fn other_lists_are_not_cut(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = long(on).await;
    let source = || Some("rare".to_owned());
    for filter in [
        EventFilter {
            source: source(),
            event_id: Some("e7".to_owned()),
            ..EventFilter::default()
        },
        EventFilter {
            source: source(),
            reason: Some(Reason::VersionGap),
            ..EventFilter::default()
        },
        EventFilter {
            source: source(),
            account_id: Some("a".to_owned()),
            ..EventFilter::default()
        },
    ] {
        let page = found(&books, &filter, None).await;
        assert_eq!(page.before, None, "{filter:?}");
    }
}
