//! Whatever is tampered with, `verify` finds it and names the account.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{AccountChange, Event, Identity, Kind, Reason},
    ledger::Ledger,
    store::Store,
    telemetry::Metrics,
};
use rstest::rstest;

use super::{
    Books, On,
    ledgers::{opens, settle, submit},
    scene::*,
};

/// Two accounts with a few entries, a reversal, a refusal and something parked.
async fn history(store: &dyn Store) {
    open(store, "b", 50).await;
    let mut a = open(store, "a", 100).await;
    for n in 2..=5 {
        write(store, vec![spend("a", &a, &format!("e-{n}"), 10)]).await;
        a = page(store, "a").await.account.unwrap();
    }
    let reverses = Event {
        identity: Identity::new("default", "onceledger.reversal", "a:v3"),
        ..event("a", "", Kind::Credit, 10, None)
    };
    let refused = rejected(debit("a", "r", 1_000), Reason::InsufficientFunds, a.found());
    let waits = parked(
        event("a", "w", Kind::Debit, 1, Some(20)),
        Reason::VersionGap,
    );
    let more = AccountChange {
        inserts: vec![
            Arc::new(applied(reverses, 6, 70)),
            Arc::new(refused),
            Arc::new(waits),
        ],
        ..step("a", &a, &revised(&moved(&a, 10)))
    };
    write(store, vec![more]).await;
}

async fn found(books: &Books) -> Vec<String> {
    let verified = books.store.verify().await.unwrap();
    assert!(verified.offences.iter().all(|it| it.tenant == "default"));
    let told = |it: &onceledger::store::Offence| format!("{}: {}", it.account_id, it.what);
    verified.offences.iter().map(told).collect()
}

#[rstest]
#[tokio::test]
async fn sound_books_are_found_sound_and_counted(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    history(&*books.store).await;
    let verified = books.store.verify().await.unwrap();
    assert_eq!((verified.accounts, verified.entries), (2, 7));
    assert_eq!(verified.offences, []);
}

#[rstest]
#[case::a_hole("DELETE FROM event WHERE event_id = 'e-3'")]
#[case::no_opening("DELETE FROM event WHERE version = 1 AND account_id = 'a'")]
#[case::no_last_entry("DELETE FROM event WHERE version = 6")]
#[case::an_amount("UPDATE event SET amount = 11 WHERE event_id = 'e-4'")]
#[case::a_balance_after("UPDATE event SET balance_after = 71 WHERE version = 6")]
#[case::a_huge_amount("UPDATE event SET amount = 9223372036854775807 WHERE event_id = 'e-4'")]
#[case::a_direction("UPDATE event SET type = 'credit' WHERE event_id = 'e-4'")]
#[case::a_second_opening("UPDATE event SET type = 'opening' WHERE event_id = 'e-4'")]
#[case::a_time_that_goes_back(
    "UPDATE event SET decided_at = decided_at - 1 WHERE event_id = 'e-4'"
)]
#[case::a_debit_below_its_floor("UPDATE event SET floor = 81 WHERE event_id = 'e-3'")]
#[case::an_expected_version("UPDATE event SET expected_version = 1 WHERE event_id = 'e-3'")]
#[case::a_currency("UPDATE event SET currency = 'USD' WHERE event_id = 'e-3'")]
#[case::a_balance("UPDATE account SET balance = balance + 1 WHERE account_id = 'a'")]
#[case::a_version("UPDATE account SET version = version + 1 WHERE account_id = 'a'")]
#[case::an_awaited_account_with_entries(
    "UPDATE account SET status = 'awaited' WHERE account_id = 'a'"
)]
#[case::no_account_currency("UPDATE account SET currency = NULL WHERE account_id = 'a'")]
#[case::a_closed_account_with_money("UPDATE account SET status = 'closed' WHERE account_id = 'a'")]
#[case::a_missing_account("DELETE FROM account WHERE account_id = 'a'")]
#[case::an_entry_of_another_account(
    "UPDATE event SET account_id = 'a', key = key WHERE account_id = 'b'"
)]
#[case::an_identity("UPDATE event SET event_id = 'e-44' WHERE event_id = 'e-4'")]
#[case::an_identity_of_a_refusal("UPDATE event SET source = 'else' WHERE event_id = 'r'")]
#[case::a_status("UPDATE event SET status = 'forgotten' WHERE event_id = 'r'")]
#[case::a_reversal_of_another_amount("UPDATE event SET amount = 9 WHERE event_id = 'e-3'")]
#[tokio::test]
async fn tampering_is_found(#[values(On::Postgres, On::Sqlite)] on: On, #[case] tampering: &str) {
    let books = on.books().await;
    history(&*books.store).await;
    books.unlock_history().await;
    books.sql(tampering).await.unwrap();
    let found = found(&books).await;
    assert!(!found.is_empty(), "{tampering}");
    let named = |what: &String| what.starts_with("a: ") || what.starts_with("all in EUR: ");
    assert!(found.iter().all(named), "{found:?}");
    assert!(
        found.iter().any(|what| what.starts_with("a: ")),
        "{found:?}"
    );
}

#[rstest]
#[tokio::test]
async fn totals_that_do_not_add_up_are_told(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    history(&*books.store).await;
    books
        .sql("UPDATE account SET balance = balance + 1 WHERE account_id = 'a'")
        .await
        .unwrap();
    let found = found(&books).await;
    assert!(
        found.contains(
            &"all in EUR: openings 150 + credits 10 - debits 40 = 120, and the balances are 121"
                .to_owned()
        ),
        "{found:?}"
    );
}

/// One snapshot: what is written meanwhile is seen whole or not at all.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_that_are_written_meanwhile_agree(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let ledger = |store| {
        let (metrics, copies) = (Metrics::default(), Copies::default());
        Ledger::new(store, Clock::system(), metrics, copies)
    };
    let mut one = ledger(books.store.clone());
    let mut two = ledger(books.another().await);
    settle(
        &mut one,
        (0..20)
            .map(|n| opens(&format!("a{n}"), 1_000_000))
            .collect(),
    )
    .await;
    let done = AtomicBool::new(false);
    let writes = async |ledger: &mut Ledger, name: &str, from: i64| {
        for round in 0..60_i64 {
            let account = |n: i64| format!("a{}", n % 20);
            // Some wait for a version that the other brings, and some are refused.
            let works = (0..60)
                .map(|n| {
                    let id = format!("{name}-{round}-{n}");
                    let expected = (n % 5 == 0).then_some(from + round * 3 + n / 20);
                    let amount = if n % 7 == 0 { 10_000_000 } else { 1 };
                    submit(event(&account(n), &id, Kind::Debit, amount, expected))
                })
                .collect();
            settle(ledger, works).await;
        }
    };
    let looks = async {
        let mut entries = Vec::new();
        while !done.load(Ordering::SeqCst) {
            let verified = books.store.verify().await.unwrap();
            assert_eq!(verified.offences, []);
            entries.push(verified.entries);
        }
        entries
    };
    let writing = async {
        tokio::join!(writes(&mut one, "one", 1), writes(&mut two, "two", 2));
        done.store(true, Ordering::SeqCst);
    };
    let ((), mut entries) = tokio::join!(writing, looks);
    entries.dedup();
    assert!(
        entries.len() > 2,
        "nothing was written meanwhile: {entries:?}"
    );
    sound(&*books.store).await;
}

#[rstest]
#[case::of_nothing("a:v9", Kind::Credit, 10)]
#[case::of_itself("a:v2", Kind::Credit, 10)]
#[case::of_the_opening("a:v1", Kind::Debit, 100)]
#[case::of_another_account("b:v1", Kind::Debit, 10)]
#[case::without_a_version("a", Kind::Credit, 10)]
#[case::with_an_endless_version("a:v99999999999999999999", Kind::Credit, 10)]
#[tokio::test]
async fn a_reversal_that_reverses_nothing_is_found(
    #[values(On::Postgres, On::Sqlite)] on: On,
    #[case] id: &str,
    #[case] kind: Kind,
    #[case] amount: i64,
) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let reverses = Event {
        identity: Identity::new("default", "onceledger.reversal", id),
        ..event("a", "", kind, amount, None)
    };
    let by = if kind == Kind::Debit { -amount } else { amount };
    let after = moved(&a, by);
    let entry = AccountChange {
        inserts: vec![Arc::new(applied(reverses, 2, after.balance))],
        ..step("a", &a, &after)
    };
    write(store, vec![entry]).await;
    let found = found(&books).await;
    assert_eq!(found.len(), 1, "{found:?}");
}

#[rstest]
#[tokio::test]
async fn no_more_offences_are_named_than_fit(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let openings = (0..1_001).map(|n| opening(&format!("a{n}"), 1)).collect();
    write(store, openings).await;
    books.sql("UPDATE account SET balance = 2").await.unwrap();
    assert_eq!(found(&books).await.len(), 1_000);
}
