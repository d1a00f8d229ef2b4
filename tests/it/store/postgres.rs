//! What only PostgreSQL does: locks that others hold, servers that are away or
//! read-only, connections that are given back half-way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use onceledger::{
    domain::{AccountChange, EventKey, Kind, Proof, Reason, Timestamp},
    store::{self, StoreError, StoreOptions},
};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tracing::{Event, Metadata, Subscriber, span};

use super::{On, scene::*};
use crate::support::databases;

async fn connection(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

#[tokio::test]
async fn who_waits_for_a_lock_too_long_is_told_which_account_it_was() {
    let books = On::Postgres.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let b = open(store, "b", 100).await;
    let mut other = connection(&books.database.url).await;
    let mut held = other.begin().await.unwrap();
    sqlx::query("SELECT FROM account WHERE account_id = 'b' FOR UPDATE")
        .execute(&mut *held)
        .await
        .unwrap();

    let batch = plan(vec![spend("a", &a, "e-a", 1), spend("b", &b, "e-b", 1)]);
    assert_eq!(store.commit(&batch).await, Err(StoreError::Locked));
    let asked = [key("a"), key("b"), key("nobody")];
    assert_eq!(store.locked(&asked).await.unwrap(), [key("b")]);
    assert_eq!(state(store, "a").await, (1, 100));
    write(store, vec![spend("a", &a, "e-a", 1)]).await;

    held.rollback().await.unwrap();
    assert_eq!(store.locked(&asked).await.unwrap(), []);
    write(store, vec![spend("b", &b, "e-b", 1)]).await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_away_and_its_connection_is_given_up() {
    let books = On::Postgres.books().await;
    let hasty = StoreOptions {
        ledger_connections: 1,
        answer_timeout: Duration::from_millis(300),
        ..StoreOptions::default()
    };
    let store = &*store::open(&books.database.url, &hasty).await.unwrap();
    let a = open(store, "a", 100).await;
    let mut other = connection(&books.database.url).await;
    let mut held = other.begin().await.unwrap();
    sqlx::query("SELECT FROM account FOR UPDATE")
        .execute(&mut *held)
        .await
        .unwrap();
    let letters = vec![letter(Reason::Invalid, "{}")];
    let plain = spend("a", &a, "e", 1);
    let long = AccountChange {
        letters,
        ..plain.clone()
    };
    for change in [plain.clone(), long] {
        let error = store.commit(&plan(vec![change])).await.unwrap_err();
        assert!(matches!(error, StoreError::Away(_)), "{error:?}");
    }
    held.rollback().await.unwrap();
    // What was given up may have been written or not; here the server may still
    // have got to the first one.
    let committed = store.commit(&plan(vec![plain])).await;
    let raced_or_done = committed.is_ok_and(|it| it.stale.len() <= 1);
    assert!(raced_or_done);
    assert_eq!(state(store, "a").await, (2, 99));
    sound(store).await;
}

#[tokio::test]
async fn of_a_deadlock_one_is_told_to_try_again() {
    let books = On::Postgres.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let b = open(store, "b", 100).await;
    // Somebody locks them the other way round.
    let mut other = connection(&books.database.url).await;
    let mut looks = connection(&books.database.url).await;
    let mut held = other.begin().await.unwrap();
    let lock = "SELECT FROM account WHERE account_id = $1 FOR UPDATE";
    sqlx::query(lock)
        .bind("b")
        .execute(&mut *held)
        .await
        .unwrap();
    let batch = plan(vec![spend("a", &a, "e-a", 1), spend("b", &b, "e-b", 1)]);
    let crosses = async {
        let free = "SELECT FROM account WHERE account_id = 'a' FOR UPDATE SKIP LOCKED";
        let until = std::time::Instant::now() + Duration::from_secs(5);
        while sqlx::query(free)
            .fetch_optional(&mut looks)
            .await
            .unwrap()
            .is_some()
        {
            assert!(std::time::Instant::now() < until, "the batch locks nothing");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The batch holds `a` now, and waits for `b`.
        sqlx::query(lock).bind("a").execute(&mut *held).await
    };
    let (ours, theirs) = tokio::join!(store.commit(&batch), crosses);
    // The server picks whom to give up; the other one goes through.
    match (ours, theirs) {
        (Err(StoreError::Conflicted(code)), Ok(_)) => assert_eq!(code, "40P01"),
        (ours, Err(_)) => assert!(ours.unwrap().stale.is_empty()),
        (ours, theirs) => panic!("{ours:?}, {theirs:?}"),
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_away() {
    let options = StoreOptions {
        acquire_timeout: Duration::from_millis(300),
        ..StoreOptions::default()
    };
    let nobody = "postgres://postgres@127.0.0.1:1/nothing";
    let error = store::open(nobody, &options).await.err().unwrap();
    assert!(matches!(error, StoreError::Away(_)), "{error:?}");
    let error = store::open("mysql://x:secret@y/z", &options)
        .await
        .err()
        .unwrap();
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn a_connection_that_the_server_ended_is_away_once_and_then_replaced() {
    let books = On::Postgres.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    books
        .sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await
        .unwrap();
    let batch = plan(vec![spend("a", &a, "e", 1)]);
    let mut failures = 0;
    while let Err(error) = store.commit(&batch).await {
        assert!(matches!(error, StoreError::Away(_)), "{error:?}");
        failures += 1;
        assert!(failures < 8, "at most one failure for each connection");
    }
    assert_eq!(state(store, "a").await, (2, 99));
}

#[tokio::test]
async fn a_read_only_server_is_told_apart_from_one_that_is_away() {
    let books = On::Postgres.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    store.ping().await.unwrap();
    let name = books.database.url.rsplit('/').next().unwrap();
    books
        .sql(&format!(
            "ALTER DATABASE {name} SET default_transaction_read_only = on"
        ))
        .await
        .unwrap();
    let late = books.another().await;
    let error = late.ping().await.unwrap_err();
    assert!(matches!(error, StoreError::Unwritable(_)), "{error:?}");
    let error = late
        .commit(&plan(vec![spend("a", &a, "e", 1)]))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unwritable(_)), "{error:?}");
    assert_eq!(late.verify().await.unwrap().offences, []);
}

#[tokio::test]
async fn a_schema_that_does_not_fit_is_told_with_both_versions() {
    let database = databases::empty_postgres().await;
    let options = StoreOptions::default();
    let told = |error: StoreError| match error {
        StoreError::Schema(what) => what,
        other => panic!("{other:?}"),
    };
    let what = told(store::check_schema(&database.url).await.unwrap_err());
    assert!(
        what.contains("version 0") && what.contains("version 1"),
        "{what}"
    );
    let bare = store::open(&database.url, &options).await.unwrap();
    told(bare.load(&[key("a")]).await.unwrap_err());

    // Several instances start at once.
    let migrations = (0..3).map(|_| store::migrate(&database.url));
    for done in futures_util::future::join_all(migrations).await {
        done.unwrap();
    }
    store::check_schema(&database.url).await.unwrap();

    let mut other = connection(&database.url).await;
    sqlx::query("INSERT INTO _sqlx_migrations SELECT 9999, 'later', now(), true, '', 0")
        .execute(&mut other)
        .await
        .unwrap();
    let what = told(store::check_schema(&database.url).await.unwrap_err());
    assert!(what.contains("version 9999"), "{what}");
    told(store::migrate(&database.url).await.unwrap_err());
}

#[tokio::test]
async fn a_text_that_the_server_can_not_hold_is_refused_by_its_code() {
    let books = On::Postgres.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    let mut change = spend("a", &a, "e", 1);
    let mut event = debit("a", "e", 1);
    event.reference = Some("a\0b".into());
    change.inserts = vec![Arc::new(applied(event, 2, 99))];
    let refused = StoreError::Refused {
        code: "22021".into(),
        message: String::new(),
    };
    match store.commit(&plan(vec![change])).await.unwrap_err() {
        StoreError::Refused { code, .. } => assert_eq!(code, "22021"),
        other => panic!("{other:?} instead of {refused:?}"),
    }
}

/// Whatever is cancelled, and wherever: nobody is ever given a connection that
/// stands inside a transaction.
#[tokio::test]
async fn a_commit_given_up_half_way_leaves_no_transaction_behind() {
    let books = On::Postgres.books().await;
    let store = &*books.store;
    for round in 0..40 {
        let id = format!("a{round}");
        // Opening is a transaction of several statements.
        let batch = plan(vec![opening(&id, 1)]);
        let patience = Duration::from_micros(100 * round);
        let _ = tokio::time::timeout(patience, store.commit(&batch)).await;
        let again = format!("b{round}");
        open(store, &again, 1).await;
        let mut other = connection(&books.database.url).await;
        let there: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM account WHERE account_id = $1)")
                .bind(&again)
                .fetch_one(&mut other)
                .await
                .unwrap();
        assert!(there, "what was answered with Ok is there, round {round}");
    }
    sound(store).await;
}

/// Counts the statements that sqlx sends from this thread.
struct Statements(Arc<AtomicUsize>);

impl Statements {
    /// Counts until the guard is dropped.
    fn counted() -> (Arc<AtomicUsize>, tracing::subscriber::DefaultGuard) {
        let count = Arc::new(AtomicUsize::new(0));
        let guard = tracing::subscriber::set_default(Self(count.clone()));
        // Other tests' threads, which listen to nothing, may have noted that
        // nobody does.
        tracing::callsite::rebuild_interest_cache();
        (count, guard)
    }
}

impl Subscriber for Statements {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_batch_costs_as_many_statements_as_one_event() {
    let books = On::Postgres.books().await;
    // One connection, so that none is opened and set up in between.
    let options = StoreOptions {
        ledger_connections: 1,
        ..StoreOptions::default()
    };
    let store = &*store::open(&books.database.url, &options).await.unwrap();
    let ids: Vec<String> = (0..500).map(|n| format!("a{n}")).collect();
    write(store, ids.iter().map(|id| opening(id, 1_000)).collect()).await;
    let keys: Vec<_> = ids.iter().map(|id| key(id)).collect();
    for (round, size) in [1, 10, 500].into_iter().enumerate() {
        let (count, guard) = Statements::counted();
        let pages = store.load(&keys[..size]).await.unwrap();
        assert_eq!(count.swap(0, Ordering::Relaxed), 1, "load of {size}");
        let accounts = pages.into_iter().map(|page| page.account.unwrap());
        let changes = ids
            .iter()
            .zip(accounts)
            .enumerate()
            .map(|(n, (id, account))| {
                let event_id = format!("{round}-{n}");
                match n % 3 {
                    0 => spend(id, &account, &event_id, 1),
                    1 => refusal(id, &account, &event_id),
                    _ => parking(id, &account, &event_id),
                }
            });
        write(store, changes.collect()).await;
        assert_eq!(count.swap(0, Ordering::Relaxed), 1, "commit of {size}");
        drop(guard);
        // The parked ones would be a second statement of the next load.
        books
            .sql("DELETE FROM event WHERE status = 'parked'")
            .await
            .unwrap();
    }
    let (count, _guard) = Statements::counted();
    write(
        store,
        (0..500).map(|n| opening(&format!("b{n}"), 1)).collect(),
    )
    .await;
    let openings = "BEGIN, the accounts, their entries, COMMIT";
    assert_eq!(count.load(Ordering::Relaxed), 4, "{openings}");
}

fn refusal(id: &str, account: &onceledger::domain::Account, event_id: &str) -> AccountChange {
    let record = rejected(
        debit(id, event_id, 9_999),
        Reason::InsufficientFunds,
        account.found(),
    );
    AccountChange {
        inserts: vec![Arc::new(record)],
        ..change(id, Proof::Unchanged(account.clone()))
    }
}

fn parking(id: &str, account: &onceledger::domain::Account, event_id: &str) -> AccountChange {
    let waits = parked(
        event(id, event_id, Kind::Debit, 1, Some(99)),
        Reason::VersionGap,
    );
    AccountChange {
        inserts: vec![Arc::new(waits)],
        ..step(id, account, &revised(account))
    }
}

/// A statement is prepared once, and after a few executions the server keeps one
/// plan for it. One kept from when there were few accounts must not read all of
/// them when there are many, nor compare every event with every account.
#[tokio::test]
async fn a_plan_kept_from_a_small_table_reads_no_more_rows_than_asked_for() {
    let books = On::Postgres.books().await;
    let options = StoreOptions {
        ledger_connections: 1,
        ..StoreOptions::default()
    };
    let warm = store::open(&books.database.url, &options).await.unwrap();
    let batch = async |round: usize, size: usize| {
        let ids: Vec<String> = (0..size).map(|n| format!("a{n}")).collect();
        let keys: Vec<_> = ids.iter().map(|id| key(id)).collect();
        let pages = warm.load(&keys).await.unwrap();
        let known: Vec<_> = ids
            .iter()
            .map(|id| debit(id, "never", 1).identity.key())
            .collect();
        assert_eq!(warm.lookup(&known).await.unwrap(), []);
        let accounts = pages.into_iter().map(|page| page.account.unwrap());
        let spends = ids
            .iter()
            .zip(accounts)
            .map(|(id, account)| spend(id, &account, &format!("{round}-{id}"), 1));
        write(&*warm, spends.collect()).await;
    };
    let few = (0..2).map(|n| opening(&format!("a{n}"), 1_000)).collect();
    write(&*warm, few).await;
    books.sql("ANALYZE").await.unwrap();
    for round in 0..20 {
        batch(round, 2).await;
    }
    for from in [2, 1_002, 2_002, 3_002] {
        let many = (from..from + 1_000)
            .map(|n| opening(&format!("a{n}"), 1_000))
            .collect();
        write(&*warm, many).await;
    }
    for round in 20..23 {
        batch(round, 500).await;
    }
    // The server's figures are complete once the connections are closed.
    warm.close().await;
    books.store.close().await;
    let read = "SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables WHERE relname = 'account'";
    let rows = books.number(read).await;
    // 4,002 proven when they were opened, 1,500 loaded and moved.
    assert!(
        (7_000..8_000).contains(&rows),
        "{rows} rows of accounts were read"
    );
}

/// A session that stands on a read-only server stays so when the server takes
/// writes again; none of them may be kept.
#[tokio::test]
async fn after_a_read_only_spell_the_store_writes_again_by_itself() {
    let database = databases::postgres().await;
    let store = store::open(&database.url, &StoreOptions::default())
        .await
        .unwrap();
    let name = database
        .url
        .rsplit('/')
        .next()
        .unwrap()
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let mut operator = PgConnection::connect(&database.url).await.unwrap();
    let mut tell = async |statement: String| {
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut operator)
            .await
            .unwrap();
    };
    store.ping().await.unwrap();
    tell(format!(
        "ALTER DATABASE {name} SET default_transaction_read_only = on"
    ))
    .await;
    tell(format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = '{name}' AND application_name = 'onceledger'"
    ))
    .await;
    let told = async |wanted: fn(&Result<(), StoreError>) -> bool| {
        while !wanted(&store.ping().await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let limit = Duration::from_secs(20);
    let unwritable = told(|ping| matches!(ping, Err(StoreError::Unwritable(_))));
    tokio::time::timeout(limit, unwritable).await.unwrap();
    let refused = store
        .count_copies(&[(EventKey([1; 16]), 1)], Timestamp(1))
        .await;
    assert!(
        matches!(refused, Err(StoreError::Unwritable(_))),
        "{refused:?}"
    );
    tell(format!(
        "ALTER DATABASE {name} RESET default_transaction_read_only"
    ))
    .await;
    tokio::time::timeout(limit, told(Result::is_ok))
        .await
        .unwrap();
    for _ in 0..8 {
        store
            .count_copies(&[(EventKey([1; 16]), 1)], Timestamp(1))
            .await
            .unwrap();
    }
    store.close().await;
}

/// TLS protects nobody on the way to this machine, and costs two thirds of the rate.
#[tokio::test]
async fn nobody_encrypts_on_the_way_to_this_machine_unless_asked() {
    let books = On::Postgres.books().await;
    open(&*books.store, "a", 100).await;
    let mut other = connection(&books.database.url).await;
    let (connections, encrypted): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE s.ssl) FROM pg_stat_activity a \
         JOIN pg_stat_ssl s USING (pid) \
         WHERE a.datname = current_database() AND a.application_name = 'onceledger'",
    )
    .fetch_one(&mut other)
    .await
    .unwrap();
    assert!(connections > 0);
    assert_eq!(encrypted, 0);
}
