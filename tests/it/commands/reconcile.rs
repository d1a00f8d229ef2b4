//! `reconcile`: a producer's own list against the ledger.

use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};

use super::program::{Ended, Service, run, run_with_input};
use crate::support::databases::{self, TestDatabase};

/// Books with some of everything.
async fn books(on_postgres: bool) -> TestDatabase {
    let database = match on_postgres {
        true => databases::postgres().await,
        false => databases::sqlite().await,
    };
    let folder = tempfile::tempdir().unwrap();
    let url = database.url.clone();
    let mut service = Service::start(folder.path(), &["--database-url", &url], &[]);
    service.answers("/readyz", 200).await;
    let account = json!({"id": "1", "currency": "EUR", "opening_balance": 1_000_000});
    assert_eq!(service.post("/v1/accounts", &account).await.0, 201);
    let mut events = vec![
        json!({"event_id": "applied", "source": "orders", "account_id": "1", "amount": 5}),
        json!({"event_id": "amount", "source": "orders", "account_id": "1", "amount": 6}),
        json!({"event_id": "forgotten", "source": "orders", "account_id": "1", "amount": 7, "type": "credit"}),
        json!({"event_id": "poor", "source": "orders", "account_id": "1", "amount": 10_000_000}),
        json!({"event_id": "early", "source": "orders", "account_id": "1", "amount": 8, "version": 9999}),
        json!({"event_id": "other", "source": "fees", "account_id": "1", "amount": 9}),
    ];
    for n in 0..700 {
        events.push(json!({"event_id": format!("e{n}"), "source": "orders", "account_id": "1", "amount": 1}));
    }
    assert_eq!(service.post("/v1/events", &json!(events)).await.0, 200);
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    database
}

fn many() -> String {
    (0..700).map(|n| format!("e{n},1,1\n")).collect()
}

fn reconcile(folder: &Path, database: &TestDatabase, args: &[&str]) -> Ended {
    let mut all = vec!["reconcile"];
    all.extend(args);
    all.extend(["--database-url", &database.url]);
    run(folder, &all, &[])
}

#[rstest]
#[tokio::test]
async fn every_kind_of_disagreement_is_told(#[values(true, false)] on_postgres: bool) {
    let database = books(on_postgres).await;
    let folder = tempfile::tempdir().unwrap();
    let list = format!(
        "event_id,account,amount\napplied,1,5\namount,1,60\npoor,1,10000000\nearly,1,8\nnowhere,1,1\n\
         applied,1,5\nbad,1,1.5\n{}",
        many()
    );
    let file = folder.path().join("list.csv");
    std::fs::write(&file, list).unwrap();
    let file = file.to_str().unwrap();
    let ended = reconcile(folder.path(), &database, &[file, "--source", "orders"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    let told = |start: &str, said: &str| {
        let found = lines
            .iter()
            .any(|line| line.starts_with(start) && line.contains(said));
        assert!(found, "{start:?} {said:?} in {}", ended.out);
    };
    told(
        "differing  orders/amount (line 3)",
        "amount 60 in the list, 6 in the ledger",
    );
    told(
        "missing    orders/poor (line 4)",
        "rejected insufficient_funds",
    );
    told("missing    orders/early (line 5)", "parked version_gap");
    told(
        "missing    orders/nowhere (line 6)",
        "the ledger knows no such event",
    );
    told("twice      (line 7)", "line 2");
    told("unreadable (line 8)", "amount must be a whole number");
    told(
        "extra      orders/forgotten",
        "a credit over 7 on account 1",
    );
    assert!(!ended.out.contains("fees"), "{}", ended.out);
    assert!(!ended.out.contains("onceledger.opening"), "{}", ended.out);
    assert_eq!(
        lines.last().unwrap(),
        &"707 lines: 702 agree, 3 missing, 1 differing, 1 twice, 1 unreadable; 1 extra in the ledger"
    );
    assert_eq!(lines.len(), 8, "{}", ended.out);
}

#[tokio::test]
async fn a_list_that_agrees_exits_with_0_also_as_json_from_a_pipe() {
    let database = books(false).await;
    let folder = tempfile::tempdir().unwrap();
    let mut list = String::new();
    for n in 0..700 {
        list += &format!(
            "{{\"source\":\"orders\",\"event_id\":\"e{n}\",\"account_id\":1,\"amount\":1,\"currency\":\"EUR\"}}\n"
        );
    }
    let args = ["reconcile", "-", "--json", "--database-url", &database.url];
    let ended = run_with_input(folder.path(), &args, &[], list.as_bytes());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let found: Vec<Value> = ended
        .out
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let extras: Vec<&str> = found
        .iter()
        .filter_map(|it| it["event_id"].as_str())
        .collect();
    assert_eq!(extras, ["forgotten", "amount", "applied"]);
    assert_eq!(found[3]["agreeing"], 700);

    for more in [
        "{\"source\":\"orders\",\"event_id\":\"applied\",\"account_id\":\"1\",\"amount\":5}\n",
        "{\"source\":\"orders\",\"event_id\":\"amount\",\"account_id\":\"1\",\"amount\":\"6\"}\n",
        "{\"source\":\"orders\",\"event_id\":\"forgotten\",\"account_id\":\"1\",\"amount\":7,\"type\":\"credit\"}\n",
    ] {
        list += more;
    }
    let ended = run_with_input(folder.path(), &args, &[], list.as_bytes());
    assert_eq!(ended.code, Some(0), "{ended:?}");

    // Nothing was applied that long ago.
    let until = ["--until", "2020-01-01T00:00:00Z"];
    let args: Vec<&str> = args.into_iter().chain(until).collect();
    let short = "{\"source\":\"orders\",\"event_id\":\"e1\",\"account_id\":1,\"amount\":1}\n";
    let ended = run_with_input(folder.path(), &args, &[], short.as_bytes());
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test]
async fn what_can_not_be_compared_exits_with_2() {
    let database = databases::sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list.csv");
    std::fs::write(&file, "event_id,amount\n").unwrap();
    let file = file.to_str().unwrap();
    let ended = reconcile(folder.path(), &database, &[file]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("account_id or account"), "{ended:?}");
    let ended = reconcile(folder.path(), &database, &["nowhere.csv"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let ended = reconcile(folder.path(), &database, &[file, "--since", "yesterday"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    std::fs::write(file, "source,event_id,account,amount\n").unwrap();
    let ended = run(folder.path(), &["reconcile", file], &[]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("there is no database"), "{ended:?}");
    assert!(!folder.path().join("onceledger.db").exists());
}
