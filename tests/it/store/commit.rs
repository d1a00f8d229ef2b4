//! What a commit writes, and what it never does.

use std::sync::Arc;

use onceledger::{
    domain::{
        AccountChange, AccountStatus, Audit, Currency, Event, Found, Kind, Proof, Reason, Record,
        Status, Step, Timestamp,
    },
    store::{LetterFilter, StoreError},
};
use rstest::rstest;

use super::{On, scene::*};

/// An event that uses every field it has.
fn rich(id: &str) -> Event {
    let mut event = event("a", id, Kind::Debit, 30, Some(1));
    event.content.currency = Currency::parse("EUR");
    event.reference = Some("Rechnung 7 — ünïcode".into());
    event.occurred_at = Some(Timestamp(-62_135_596_800_000_000));
    event.metadata = Some(r#"{"k": [1, "ü"]}"#.into());
    event.derived = true;
    event
}

#[rstest]
#[tokio::test]
async fn what_is_committed_is_read_back_as_it_was(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let before = open(store, "a", 100).await;
    let entry = applied(rich("e-1"), 2, 70);
    let mut refused = rejected(
        rich("e-2"),
        Reason::InsufficientFunds,
        Found {
            version: 2,
            balance: 70,
        },
    );
    refused.trail = vec![refused.past(None), refused.past(Some(Step::TakenOver))];
    refused.raw = Some(Arc::new(raw("\u{0}\u{1}not text")));
    let waiting = parked(rich("e-3"), Reason::VersionGap);
    let change = AccountChange {
        inserts: [&entry, &refused, &waiting]
            .map(|r| Arc::new(r.clone()))
            .to_vec(),
        ..step("a", &before, &revised(&moved(&before, -30)))
    };
    write(store, vec![change]).await;

    let read = page(store, "a").await;
    assert_eq!(read.account.clone().unwrap(), revised(&moved(&before, -30)));
    let stored = |record: &Record| Record {
        raw: None,
        ..record.clone()
    };
    assert_eq!(read.waiting, vec![Arc::new(stored(&waiting))]);
    for record in [&entry, &refused, &waiting] {
        assert_eq!(known(store, &record.event).await.unwrap(), stored(record));
    }
    let seen = |record: &Record| record.event.identity.clone();
    let view = store.event(&seen(&refused)).await.unwrap().unwrap();
    assert_eq!(view.record, refused, "with the message as it came");
    let view = store.event(&seen(&entry)).await.unwrap().unwrap();
    assert_eq!(view.record.raw, None, "what applied keeps no message");
    sound(store).await;
}

#[rstest]
#[tokio::test]
async fn a_new_account_tells_the_row_it_got(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let plan = vec![
        change("n", Proof::Nothing),
        opening("b", 5),
        opening("a", 7),
    ];
    let committed = write(store, plan).await;
    let rows: Vec<(usize, i64)> = [(1, "b"), (2, "a")]
        .to_vec()
        .into_iter()
        .map(|(p, _)| (p, 0))
        .collect();
    let places: Vec<usize> = committed.rows.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, rows.iter().map(|(p, _)| *p).collect::<Vec<_>>());
    for (place, row) in committed.rows {
        let id = if place == 1 { "b" } else { "a" };
        assert_eq!(page(store, id).await.account.unwrap().row, row);
    }
}

#[rstest]
#[case::version(|a: &mut onceledger::domain::Account| a.version += 1)]
#[case::revision(|a: &mut onceledger::domain::Account| a.revision += 1)]
#[case::balance(|a: &mut onceledger::domain::Account| a.balance += 1)]
#[tokio::test]
async fn a_stale_account_leaves_its_neighbours_alone(
    #[values(On::Postgres, On::Sqlite)] on: On,
    #[case] differs: fn(&mut onceledger::domain::Account),
) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let mut b = open(store, "b", 100).await;
    let c = open(store, "c", 100).await;
    differs(&mut b);
    let plan = plan(vec![
        spend("a", &a, "e-a", 10),
        spend("b", &b, "e-b", 10),
        spend("c", &c, "e-c", 10),
    ]);
    let committed = store.commit(&plan).await.unwrap();
    assert_eq!(committed.stale, [1]);
    assert_eq!(state(store, "a").await, (2, 90));
    assert_eq!(state(store, "b").await, (1, 100));
    assert_eq!(state(store, "c").await, (2, 90));
    assert_eq!(known(store, &debit("b", "e-b", 10)).await, None);
    sound(store).await;
}

#[rstest]
#[tokio::test]
async fn of_a_stale_account_nothing_at_all_is_written(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let waiting = parked(event("a", "w", Kind::Debit, 1, Some(9)), Reason::VersionGap);
    let parking = AccountChange {
        inserts: vec![Arc::new(waiting.clone())],
        ..step("a", &a, &revised(&a))
    };
    write(store, vec![parking]).await;

    // `a` is a revision behind: everything below is decided on the past.
    let mut closed = moved(&a, -100);
    closed.status = AccountStatus::Closed;
    closed.settings_revision = 1;
    let mut spent = debit("a", "e", 100);
    spent.metadata = Some("{}".into());
    let dead = Record {
        status: Status::Dead,
        ..waiting.clone()
    };
    let everything = AccountChange {
        inserts: vec![Arc::new(applied(spent.clone(), 2, 0))],
        updates: vec![update(&waiting, dead)],
        letters: vec![letter(Reason::VersionGapExpired, "{}")],
        audits: vec![audit()],
        ..step("a", &a, &closed)
    };
    let committed = store.commit(&plan(vec![everything])).await.unwrap();
    assert_eq!(committed.stale, [0]);
    assert_eq!(page(store, "a").await.account.unwrap(), revised(&a));
    assert_eq!(known(store, &spent).await, None);
    assert_eq!(
        known(store, &waiting.event).await.unwrap().status,
        Status::Parked
    );
    for table in ["dead_letter", "audit"] {
        assert_eq!(
            books.number(&format!("SELECT count(*) FROM {table}")).await,
            0
        );
    }
    assert_eq!(books.number("SELECT count(*) FROM event_detail").await, 1);
    sound(store).await;
}

#[rstest]
#[tokio::test]
async fn an_identity_that_is_there_already_rolls_everything_back(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let b = open(store, "b", 100).await;
    write(store, vec![spend("a", &a, "e-1", 10)]).await;
    let a = page(store, "a").await.account.unwrap();

    // In the one statement, and among several.
    for letters in [vec![], vec![letter(Reason::EventIdReused, "{}")]] {
        let again = AccountChange {
            letters,
            ..spend("b", &b, "e-1", 5)
        };
        let result = store
            .commit(&plan(vec![spend("a", &a, "e-2", 10), again]))
            .await;
        assert_eq!(result, Err(StoreError::Raced));
        assert_eq!(state(store, "a").await, (2, 90));
        assert_eq!(state(store, "b").await, (1, 100));
        assert_eq!(known(store, &debit("a", "e-2", 10)).await, None);
    }
    assert_eq!(books.number("SELECT count(*) FROM dead_letter").await, 0);
    sound(store).await;
}

#[rstest]
#[tokio::test]
async fn a_second_entry_at_one_version_rolls_everything_back(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let twice = AccountChange {
        inserts: vec![
            Arc::new(applied(debit("a", "e-1", 10), 2, 90)),
            Arc::new(applied(debit("a", "e-2", 10), 2, 90)),
        ],
        ..step("a", &a, &moved(&a, -10))
    };
    assert_eq!(
        store.commit(&plan(vec![twice])).await,
        Err(StoreError::Raced)
    );
    assert_eq!(state(store, "a").await, (1, 100));
}

#[rstest]
#[case::status(Status::Dead, 0)]
#[case::decision(Status::Parked, 1)]
#[tokio::test]
async fn a_status_that_is_not_as_it_was_rolls_everything_back(
    #[values(On::Postgres, On::Sqlite)] on: On,
    #[case] status: Status,
    #[case] decision: i64,
) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let b = open(store, "b", 100).await;
    let waiting = parked(event("a", "w", Kind::Debit, 1, Some(9)), Reason::VersionGap);
    let parking = AccountChange {
        inserts: vec![Arc::new(waiting.clone())],
        ..step("a", &a, &revised(&a))
    };
    write(store, vec![parking]).await;
    let a = revised(&a);
    let believed = Record {
        status,
        decision,
        ..waiting.clone()
    };
    let dies = AccountChange {
        updates: vec![update(
            &believed,
            Record {
                status: Status::Discarded,
                ..waiting.clone()
            },
        )],
        ..step("a", &a, &revised(&a))
    };
    let result = store
        .commit(&plan(vec![dies, spend("b", &b, "e-b", 1)]))
        .await;
    assert_eq!(result, Err(StoreError::Raced));
    assert_eq!(page(store, "a").await.account.unwrap(), a);
    assert_eq!(state(store, "b").await, (1, 100));
}

#[rstest]
#[tokio::test]
async fn a_change_of_status_replaces_what_was_judged_before(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let mut first = debit("a", "e", 200);
    first.metadata = Some(r#"{"first":true}"#.into());
    let mut refused = rejected(first, Reason::VersionConflict, a.found());
    refused.raw = Some(Arc::new(raw("first")));
    let refusal = AccountChange {
        inserts: vec![Arc::new(refused.clone())],
        ..change("a", Proof::Unchanged(a.clone()))
    };
    write(store, vec![refusal]).await;

    // Judged again with another body, without metadata; then released, when
    // nobody holds the body any more.
    let mut waits = parked(
        event("a", "e", Kind::Credit, 7, Some(3)),
        Reason::VersionGap,
    );
    waits.raw = Some(Arc::new(raw("second")));
    waits.decision = 1;
    waits.trail = vec![refused.past(Some(Step::SentAgain))];
    let again = AccountChange {
        updates: vec![update(&refused, waits.clone())],
        ..step("a", &a, &revised(&a))
    };
    write(store, vec![again]).await;
    let a = revised(&a);
    let read = store.event(&waits.event.identity).await.unwrap().unwrap();
    assert_eq!(read.record, waits);

    let mut done = applied(event("a", "e", Kind::Credit, 7, None), 2, 107);
    done.decision = 2;
    done.trail = vec![
        refused.past(Some(Step::SentAgain)),
        waits.past(Some(Step::SentAgain)),
    ];
    let release = AccountChange {
        updates: vec![update(&waits, done.clone())],
        ..step("a", &a, &revised(&moved(&a, 7)))
    };
    write(store, vec![release]).await;
    let read = store.event(&done.event.identity).await.unwrap().unwrap();
    assert_eq!(
        read.record,
        Record {
            raw: waits.raw,
            ..done
        }
    );
    sound(store).await;
}

#[rstest]
#[tokio::test]
async fn settings_are_written_with_their_audit(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let mut after = revised(&a);
    after.settings_revision = 1;
    after.status = AccountStatus::Frozen;
    after.floor = None;
    after.metadata = Some(r#"{"vip":true}"#.into());
    let patch = AccountChange {
        audits: vec![audit()],
        ..step("a", &a, &after)
    };
    write(store, vec![patch]).await;
    assert_eq!(store.account(&key("a")).await.unwrap().unwrap(), after);
    let audits = "SELECT count(*) FROM audit WHERE subject = 'anna' AND action = 'account.patched' \
                  AND account_id = 'a' AND note = 'asked by mail' AND detail = '{\"floor\":null}'";
    assert_eq!(books.number(audits).await, 1);
}

#[rstest]
#[tokio::test]
async fn an_entry_can_be_neither_changed_nor_deleted(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    open(&*books.store, "a", 100).await;
    for statement in [
        "UPDATE event SET amount = 1",
        "UPDATE event SET status = 'rejected', version = NULL",
        "DELETE FROM event",
    ] {
        assert!(books.sql(statement).await.is_err(), "{statement}");
    }
    assert_eq!(books.number("SELECT amount FROM event").await, 100);
}

#[rstest]
#[tokio::test]
async fn the_same_letter_is_one_letter_seen_more_often(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let same = letter(Reason::Invalid, "{1}");
    let other = letter(Reason::Invalid, "{2}");
    let batch = [same.clone(), other.clone(), same.clone()];
    store.set_aside(&batch, NOW).await.unwrap();
    let later = Timestamp(NOW.0 + 5);
    store
        .set_aside(std::slice::from_ref(&same), later)
        .await
        .unwrap();
    let with_account = AccountChange {
        letters: vec![same.clone(), same.clone()],
        ..change("a", Proof::Nothing)
    };
    write(store, vec![with_account]).await;

    let list = store
        .letters("default", &LetterFilter::default(), None, 10)
        .await
        .unwrap();
    let seen: Vec<(i64, &[u8])> = list.iter().map(|l| (l.seen, &*l.letter.raw.body)).collect();
    assert_eq!(seen.len(), 2);
    assert!(
        seen.contains(&(5, b"{1}")) && seen.contains(&(1, b"{2}")),
        "{seen:?}"
    );
    let first = list.iter().find(|l| l.seen == 5).unwrap();
    assert_eq!((first.received_at, first.last_seen_at), (NOW, later));
    assert_eq!(first.letter, same);

    books
        .sql("UPDATE dead_letter SET status = 'discarded'")
        .await
        .unwrap();
    store.set_aside(&[same], later).await.unwrap();
    assert_eq!(books.number("SELECT count(*) FROM dead_letter").await, 3);
}

#[rstest]
#[tokio::test]
async fn copies_are_added_up(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    write(store, vec![spend("a", &a, "e-1", 10)]).await;
    let identity = debit("a", "e-1", 10).identity;
    let other = debit("a", "e-2", 10).identity.key();
    let copies = [(identity.key(), 2), (other, 1), (identity.key(), 1)];
    store.count_copies(&copies, NOW).await.unwrap();
    store
        .count_copies(&[(identity.key(), 4)], NOW)
        .await
        .unwrap();
    assert_eq!(store.event(&identity).await.unwrap().unwrap().duplicates, 7);
}

#[rstest]
#[tokio::test]
async fn what_the_database_refuses_for_ever_is_told_apart(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let impossible = Record {
        version: None,
        ..applied(debit("a", "e", 1), 2, 99)
    };
    let change = AccountChange {
        inserts: vec![Arc::new(impossible)],
        ..step("a", &a, &moved(&a, -1))
    };
    let error = store.commit(&plan(vec![change])).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert_eq!(state(store, "a").await, (1, 100));
}

#[rstest]
#[tokio::test]
async fn a_plan_that_nothing_proves_is_not_written(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    open(store, "b", 100).await;
    let entry = Arc::new(applied(debit("b", "e", 10), 2, 90));
    let unproven = AccountChange {
        inserts: vec![entry.clone()],
        ..change("b", Proof::Nothing)
    };
    let absent = AccountChange {
        inserts: vec![entry.clone()],
        ..change("b", Proof::Absent)
    };
    let foreign = AccountChange {
        inserts: vec![entry],
        ..step("a", &a, &moved(&a, -10))
    };
    let still = step("a", &a, &a);
    for wrong in [unproven, absent, foreign, still] {
        let result = store.commit(&plan(vec![wrong])).await;
        assert!(matches!(result, Err(StoreError::Other(_))), "{result:?}");
    }
    assert_eq!(state(store, "a").await, (1, 100));
    sound(store).await;
}

fn audit() -> Audit {
    Audit {
        tenant: "default".into(),
        subject: "anna".into(),
        action: "account.patched".into(),
        account_id: Some("a".into()),
        detail: serde_json::json!({"floor": null}),
        note: Some("asked by mail".into()),
    }
}
