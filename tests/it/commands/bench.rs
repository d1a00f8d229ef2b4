//! `bench`: that it measures what it says, and leaves nothing behind. No figure of
//! it is judged here.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use serde_json::Value;
use sqlx::Connection as _;

use super::program::{command, run};
use crate::{amqp::broker, support::databases};

/// As small as it gets.
const SMALL: [&str; 9] = [
    "bench",
    "--rounds=1",
    "--events=1000",
    "--accounts=200",
    "--latency-secs=1",
    "--backlog=2000",
    "--json=report.json",
    "--plot=report.svg",
    "--seed=7",
];

fn report(folder: &std::path::Path) -> Value {
    let text = std::fs::read_to_string(folder.join("report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The ids of all cases, each of which reached some rate.
fn cases(report: &Value) -> Vec<String> {
    let cases = report["cases"].as_array().unwrap();
    let id = |case: &Value| {
        let rate = case["rates"][0].as_f64().unwrap();
        assert!(rate > 0.0, "{case}");
        case["id"].as_str().unwrap().to_owned()
    };
    cases.iter().map(id).collect()
}

#[test]
fn without_a_broker_the_books_alone_are_measured_and_the_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &SMALL, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = report(folder.path());
    let expected = ["database.per_event.1", "database.batch.1", "ledger.1"];
    assert_eq!(cases(&report), expected);
    // Openings of two sets of accounts, and every event of both rounds.
    let verified = report["verified"].as_str().unwrap();
    assert!(verified.ends_with("of 400 accounts add up"), "{verified}");
    assert!(ended.out.contains("Ratios, paired by round"), "{ended:?}");
    let mut left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["report.json", "report.svg"]);

    // The same again, beside the first one.
    std::fs::rename(
        folder.path().join("report.json"),
        folder.path().join("earlier.json"),
    )
    .unwrap();
    let mut args = SMALL.to_vec();
    args.extend(["--compare=earlier.json", "--only=ledger"]);
    let ended = run(folder.path(), &args, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (_, compared) = ended.out.split_once("Against the earlier report").unwrap();
    assert!(
        compared.contains("onceledger without a broker"),
        "{compared}"
    );
    assert!(!compared.contains("raw batches, 1 at once |"), "{compared}");
}

#[tokio::test]
async fn with_a_broker_every_case_is_measured_and_schema_and_queues_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let database = databases::empty_postgres().await;
    let broker = broker::url();
    let env = [
        ("DATABASE_URL", database.url.as_str()),
        ("AMQP_URL", broker.as_str()),
    ];
    let ended = run(folder.path(), &SMALL, &env);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = report(folder.path());
    let measured = cases(&report);
    for case in [
        "broker.drain",
        "database.per_event.32",
        "database.batch.2",
        "database.minimal.1",
        "ledger.1",
        "ledger.3",
        "one_by_one",
        "queue.spread",
        "queue.zipf",
        "queue.hot",
        "queue.duplicates",
        "queue.shuffled",
        "queue.two_instances",
    ] {
        assert!(measured.iter().any(|it| it == case), "{case}: {measured:?}");
    }
    let counts = |id: &str| {
        let cases = report["cases"].as_array().unwrap();
        let case = cases.iter().find(|case| case["id"] == id).unwrap();
        case["counts"].clone()
    };
    assert_eq!(counts("queue.spread")["applied"], 1_000);
    assert_eq!(counts("queue.duplicates")["duplicates"], 500);
    assert_eq!(report["latencies"].as_object().unwrap().len(), 3);
    assert!(report["memory"]["peak"].as_u64().unwrap() > 1_000_000);
    assert!(report["verified"].as_str().unwrap().contains("add up"));
    let svg = std::fs::read_to_string(folder.path().join("report.svg")).unwrap();
    assert!(svg.contains("</svg>"));

    let mut connection = sqlx::PgConnection::connect(&database.url).await.unwrap();
    let schemas: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'onceledger%'")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    connection.close().await.unwrap();
    assert_eq!(schemas, 0);
}

#[test]
fn a_report_that_can_not_be_read_is_told_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("no.json"), "{}").unwrap();
    for file in ["no.json", "missing.json"] {
        let ended = run(folder.path(), &["bench", "--compare", file], &[]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(file), "{ended:?}");
    }
}

#[tokio::test]
async fn a_run_that_is_interrupted_leaves_nothing_behind_either() {
    let folder = tempfile::tempdir().unwrap();
    let database = databases::empty_postgres().await;
    let broker = broker::url();
    let env = [
        ("DATABASE_URL", database.url.as_str()),
        ("AMQP_URL", broker.as_str()),
    ];
    let args = ["bench", "--events=20000", "--accounts=200", "--only=queue"];
    let mut child = command(folder.path(), &args, &env)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let begun = lines.by_ref().map(Result::unwrap);
    assert!(begun.into_iter().any(|line| line.starts_with("round 1")));
    let mut connection = sqlx::PgConnection::connect(&database.url).await.unwrap();
    let schemas = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'onceledger%'";
    let name: String = sqlx::query_scalar(schemas)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    // In the middle of a sample, with consumers at work or a queue being filled.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let interrupt = ["-INT".to_owned(), child.id().to_string()];
    assert!(
        Command::new("kill")
            .args(interrupt)
            .status()
            .unwrap()
            .success()
    );
    let last = lines.map(Result::unwrap).last();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{last:?}");
    let left: Option<String> = sqlx::query_scalar(schemas)
        .fetch_optional(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    assert_eq!(left, None);
    let properties = lapin::ConnectionProperties::default();
    let broker = lapin::Connection::connect(&broker, properties)
        .await
        .unwrap();
    for queue in ["events", "dead", "commands", "alone"] {
        let channel = broker.create_channel().await.unwrap();
        let options = lapin::options::QueueDeclareOptions {
            passive: true,
            ..Default::default()
        };
        let name = format!("{name}.{queue}");
        let found = channel.queue_declare(name.as_str().into(), options, Default::default());
        assert!(found.await.is_err(), "{name} is left");
    }
}
