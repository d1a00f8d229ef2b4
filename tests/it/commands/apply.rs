//! `apply`: files of events, good and bad.

use std::{path::Path, time::Duration};

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{AccountKey, Ask, Currency, Opening, Work},
    ledger::Ledger,
    store::{self, Direction, LetterFilter, Store, StoreOptions},
    telemetry::Metrics,
};
use std::sync::Arc;

use super::program::{command, run, run_with_input};
use crate::support::databases::{self, TestDatabase};

async fn books(database: &TestDatabase) -> Arc<dyn Store> {
    store::open(&database.url, &StoreOptions::default())
        .await
        .unwrap()
}

/// A store with an account `1` that holds so much.
async fn with_account(database: &TestDatabase, balance: i64) -> Arc<dyn Store> {
    let store = books(database).await;
    let mut ledger = Ledger::new(
        store.clone(),
        Clock::system(),
        Metrics::default(),
        Copies::default(),
    );
    let opening = Work {
        account: account(),
        ask: Ask::Open(Box::new(Opening {
            currency: Currency::parse("EUR").unwrap(),
            balance,
            floor: Some(0),
            metadata: None,
        })),
    };
    ledger.settle(&[opening]).await.remove(0).unwrap();
    store
}

fn account() -> AccountKey {
    AccountKey::new("default", "1")
}

fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("events.ndjson"), text).unwrap();
}

#[tokio::test]
async fn each_line_has_its_outcome_and_a_bad_one_becomes_a_dead_letter() {
    for database in [databases::sqlite().await, databases::postgres().await] {
        let folder = tempfile::tempdir().unwrap();
        let store = with_account(&database, 1_000).await;
        let long = format!(
            "{{\"event_id\":\"long\",\"reference\":\"{}\"}}",
            "x".repeat(200_000)
        );
        write(
            folder.path(),
            &format!(
                "\u{feff}{{\"event_id\":\"a\",\"account_id\":1,\"amount\":100}}\r\n\
                 \r\n\
                 {{\"event_id\":\"b\",\"account_id\":1,\"amount\":5000}}\n\
                 nonsense\n\
                 {{\"event_id\":\"a\",\"account_id\":1,\"amount\":100}}\n\
                 {long}\n\
                 {{\"event_id\":\"c\",\"account_id\":2,\"amount\":100,\"source\":\"till\"}}"
            ),
        );
        let args = ["apply", "events.ndjson", "--database-url", &database.url];
        let ended = run(folder.path(), &args, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let summary: Vec<String> = ended
            .out
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "applied 1",
            "duplicate 1",
            "parked 1 account_not_found",
            "rejected 1 insufficient_funds",
            "dead 1 invalid",
            "dead 1 undecodable",
        ];
        assert_eq!(summary, expected, "{ended:?}");
        assert!(
            ended.out.starts_with("6 lines from events.ndjson in "),
            "{ended:?}"
        );
        assert!(ended.err.contains("line 4: undecodable: "), "{ended:?}");
        assert!(ended.err.contains("line 6: invalid: "), "{ended:?}");

        let filter = LetterFilter {
            queue: Some("apply".to_owned()),
            ..LetterFilter::default()
        };
        let letters = store.letters("default", &filter, None, 10).await.unwrap();
        let mut headers: Vec<String> = letters
            .iter()
            .map(|l| l.letter.raw.headers.to_string())
            .collect();
        headers.sort();
        assert!(
            headers[0].contains("\"file\":\"events.ndjson\"") && headers[0].contains("\"line\":4"),
            "{headers:?}"
        );
        assert!(
            headers[1].contains("\"line\":6") && headers[1].contains("line_bytes"),
            "{headers:?}"
        );
        assert!(
            letters.iter().all(|l| l.body_bytes <= 65_537),
            "a long line is not kept whole"
        );
        let identity =
            |source: &str, id: &str| onceledger::domain::Identity::new("default", source, id);
        assert!(store.event(&identity("cli", "a")).await.unwrap().is_some());
        assert!(store.event(&identity("till", "c")).await.unwrap().is_some());

        let mut strict = args.to_vec();
        strict.push("--strict");
        let again = run(folder.path(), &strict, &[]);
        assert_eq!(again.code, Some(1), "{again:?}");
        assert!(again.out.contains("duplicate           2"), "{again:?}");
        let after = store.account(&account()).await.unwrap().unwrap();
        assert_eq!((after.balance, after.version), (900, 2));
        assert_eq!(
            run(
                folder.path(),
                &["verify", "--database-url", &database.url],
                &[]
            )
            .code,
            Some(0)
        );
    }
}

#[tokio::test]
async fn events_of_an_account_keep_the_order_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let database = databases::sqlite().await;
    let store = with_account(&database, 0).await;
    // Each debit is covered only by the credit just before it.
    let text: String = (0..2_000)
        .map(|n| {
            let kind = if n % 2 == 0 { "credit" } else { "debit" };
            format!("{{\"event_id\":\"e{n}\",\"account_id\":1,\"amount\":7,\"type\":\"{kind}\"}}\n")
        })
        .collect();
    let args = [
        "apply",
        "--strict",
        "--database-url",
        &database.url,
        "--batch-max",
        "64",
    ];
    let ended = run_with_input(folder.path(), &args, &[], text.as_bytes());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let history = store
        .history(&account(), None, Direction::Descending, 1)
        .await
        .unwrap();
    assert_eq!(
        (history[0].version, history[0].balance_after),
        (Some(2_001), Some(0))
    );
}

#[tokio::test]
async fn a_database_that_is_locked_in_the_middle_is_waited_for() {
    use sqlx::Connection as _;
    let folder = tempfile::tempdir().unwrap();
    let database = databases::postgres().await;
    let _store = with_account(&database, 1_000).await;
    write(
        folder.path(),
        "{\"event_id\":\"a\",\"account_id\":1,\"amount\":100}\n",
    );
    let mut holder = sqlx::PgConnection::connect(&database.url).await.unwrap();
    let mut held = holder.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1 FROM account FOR UPDATE")
        .execute(&mut *held)
        .await
        .unwrap();
    let mut child = command(
        folder.path(),
        &["apply", "events.ndjson", "--strict"],
        &[("DATABASE_URL", &database.url)],
    )
    .stdout(std::process::Stdio::null())
    .stderr(std::process::Stdio::null())
    .spawn()
    .unwrap();
    // Longer than a lock is waited for, so that it has to try again.
    tokio::time::sleep(Duration::from_millis(5_000)).await;
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    held.rollback().await.unwrap();
    let status = tokio::task::spawn_blocking(move || child.wait())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn what_can_not_be_read_exits_with_2_and_a_missing_database_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let missing = run(folder.path(), &["apply", "none.ndjson"], &[]);
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.err.contains("none.ndjson can't be read"),
        "{missing:?}"
    );
    assert_eq!(run(folder.path(), &["apply", "."], &[]).code, Some(2));
    let outcomes = [("ONCELEDGER_OUTCOMES_EXCHANGE", "x")];
    let refused = run(folder.path(), &["apply"], &outcomes);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("later version"), "{refused:?}");
    let nowhere = run(folder.path(), &["apply"], &[]);
    assert_eq!(nowhere.code, Some(1));
    assert!(!folder.path().join("onceledger.db").exists());
}
