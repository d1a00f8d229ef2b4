//! Time in the books: it never goes back, whatever the clocks of the processes say,
//! and what stood at a moment is found by it.

use std::sync::Arc;

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{Kind, Timestamp, Verdict, Work},
    ledger::Ledger,
    store::{Direction, Store},
    telemetry::Metrics,
};
use rstest::rstest;

use super::{
    Books, On,
    ledgers::{opens, settle, submit},
    scene::*,
};

const MINUTE: i64 = 60_000_000;

fn ledger(store: Arc<dyn Store>, clock: &Clock) -> Ledger {
    Ledger::new(store, clock.clone(), Metrics::default(), Copies::default())
}

/// Two processes, one ten minutes ahead of the other; they take turns, and also
/// release what waits for the other.
async fn skewed(books: &Books) -> Vec<(i64, Timestamp)> {
    let ahead = Clock::standing_at(Timestamp(NOW.0 + 10 * MINUTE));
    let behind = Clock::standing_at(NOW);
    let mut one = ledger(books.store.clone(), &ahead);
    let mut two = ledger(books.another().await, &behind);
    settle(&mut one, vec![opens("a", 1_000)]).await;
    let debit = |n: i64, expected| submit(event("a", &format!("e{n}"), Kind::Debit, 1, expected));
    for round in 0..6_i64 {
        let first = 1 + round * 8;
        behind.set(Timestamp(NOW.0 + round * 3 * MINUTE));
        ahead.set(Timestamp(NOW.0 + 10 * MINUTE + round * MINUTE));
        // Waits on one, is released by the other, together with more of its own.
        let waits: Vec<Work> = (first + 4..first + 8).map(|n| debit(n, Some(n))).collect();
        let leads: Vec<Work> = (first..first + 4).map(|n| debit(n, Some(n))).collect();
        if round % 2 == 0 {
            settle(&mut one, waits).await;
            settle(&mut two, leads).await;
        } else {
            settle(&mut two, waits).await;
            settle(&mut one, leads).await;
        }
    }
    let entries = books
        .store
        .history(&key("a"), None, Direction::Ascending, 500)
        .await
        .unwrap();
    entries
        .iter()
        .map(|entry| (entry.version.unwrap(), entry.decided_at))
        .collect()
}

#[rstest]
#[tokio::test]
async fn time_never_goes_back_in_a_history(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let entries = skewed(&books).await;
    assert_eq!(entries.len(), 49);
    assert!(entries.is_sorted_by_key(|(_, at)| *at), "{entries:?}");
    let moments = entries.chunk_by(|one, other| one.1 == other.1).count();
    assert!(moments >= 4, "the clocks made only {moments} moments");
    sound(&*books.store).await;
}

#[rstest]
#[tokio::test]
async fn a_moment_finds_the_last_entry_until_then(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let entries = skewed(&books).await;
    let moments = entries
        .iter()
        .flat_map(|(_, at)| [at.0 - 1, at.0, at.0 + 1]);
    let ends = [i64::MIN, 0, i64::MAX];
    for moment in moments.chain(ends).map(Timestamp) {
        let expected = entries.iter().rev().find(|(_, at)| *at <= moment);
        let found = books.store.version_at(&key("a"), moment).await.unwrap();
        assert_eq!(found, expected.map(|(version, _)| *version), "{moment:?}");
    }
    // Nobody's, and one that something waits for.
    settle(
        &mut ledger(books.store.clone(), &Clock::standing_at(NOW)),
        vec![submit(debit("awaited", "w", 1))],
    )
    .await;
    for id in ["nobody", "awaited"] {
        let found = books.store.version_at(&key(id), Timestamp(i64::MAX)).await;
        assert_eq!(found, Ok(None), "{id}");
    }
}

/// A month later, in another process that knows nothing of it: no second debit.
#[rstest]
#[tokio::test]
async fn the_same_event_a_month_later_is_a_duplicate(#[values(On::Postgres, On::Sqlite)] on: On) {
    const MONTH: i64 = 31 * 24 * 60 * MINUTE;
    let books = on.books().await;
    let events = |expected| {
        let versioned = submit(event("a", "versioned", Kind::Debit, 1, expected));
        vec![submit(debit("a", "free", 1)), versioned]
    };
    let clock = Clock::standing_at(NOW);
    let mut then = ledger(books.store.clone(), &clock);
    settle(&mut then, vec![opens("a", 100)]).await;
    settle(&mut then, events(Some(2))).await;
    clock.set(Timestamp(NOW.0 + MONTH));
    let mut now = ledger(books.another().await, &clock);
    for ledger in [&mut now, &mut then] {
        let told = settle(ledger, events(Some(2))).await;
        assert!(
            told.iter().all(|it| it.verdict == Verdict::Duplicate),
            "{told:?}"
        );
    }
    assert_eq!(state(&*books.store, "a").await, (3, 98));
    sound(&*books.store).await;
}

/// A history of 100,000 entries and a few rows read of it.
#[tokio::test]
async fn a_moment_in_a_long_history_costs_a_few_rows() {
    let books = On::Postgres.books().await;
    for statement in [
        "INSERT INTO account (balance, version, revision, settings_revision, opened_at, \
           updated_at, tenant, account_id, status, currency) \
         VALUES (0, 100000, 0, 0, 1, 100000, 'default', 'a', 'open', 'EUR')",
        "INSERT INTO event (account, version, amount, balance_after, first_seen_at, decided_at, \
           decision, key, derived, type, status, tenant, source, event_id, account_id) \
         SELECT (SELECT id FROM account), n, 0, 0, n, n, 1, md5(n::text)::uuid, false, \
           'credit', 'applied', 'default', 's', n::text, 'a' FROM generate_series(1, 100000) n",
        "VACUUM ANALYZE event",
        "SELECT pg_stat_reset()",
    ] {
        books.sql(statement).await.unwrap();
    }
    for moment in [1, 2, 77_777, 99_999, 100_000, 1_000_000] {
        let found = books.store.version_at(&key("a"), Timestamp(moment)).await;
        assert_eq!(found, Ok(Some(moment.min(100_000))));
    }
    // The counts come in when the connections that read have ended.
    books.store.close().await;
    let read = "SELECT (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint \
         FROM pg_stat_user_tables WHERE relname = 'event'";
    let mut rows = 0;
    for _ in 0..100 {
        rows = books.number(read).await;
        if rows > 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!((6..=6 * 20).contains(&rows), "{rows} rows were read");
}
