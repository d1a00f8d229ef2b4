//! A disk that is full, and a queue of somebody else, with the real program: everything is
//! held back, told, and goes on by itself.

use std::os::unix::fs::MetadataExt;

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection};

use super::{
    broker::{self, Broker},
    service::{SOON, debit, until},
};
use crate::{
    commands::program::{Service, run},
    support::{databases, small_disk::SmallDisk},
};

const EVENTS: i64 = 3_000;

/// The program consumes while the disk is full, and has room again.
async fn outlasts(database_url: &str, disk: &SmallDisk) {
    let broker = Broker::new().await;
    let (queue, url) = (broker.name("events"), broker::url());
    let folder = tempfile::tempdir().unwrap();
    let env = [
        ("DATABASE_URL", database_url),
        ("AMQP_URL", url.as_str()),
        ("ONCELEDGER_AMQP_PREFIX", broker.prefix.as_str()),
    ];
    let mut service = Service::start(folder.path(), &[], &env);
    service.answers("/readyz", 200).await;
    let account = json!({"id": "0", "currency": "EUR", "opening_balance": EVENTS + 1});
    assert_eq!(service.post("/v1/accounts", &account).await.0, 201);
    let version = async || {
        let (status, body) = service.get("/v1/accounts/0").await;
        let account: serde_json::Value = serde_json::from_str(&body).unwrap();
        // A connection that was cut is found dead by the first who reads on it.
        assert!(status == 200 || status == 503, "{body}");
        account["version"].as_i64().unwrap_or(-1)
    };
    let debits = |from: i64, to| (from..to).map(|n| debit(&format!("e{n}"), "0", 1));
    broker.publish(&queue, debits(0, 50)).await;
    until("the first are applied", SOON, async || {
        version().await == 51
    })
    .await;

    disk.fill();
    // More than finds a place in pages that are there already.
    broker.publish(&queue, debits(50, EVENTS)).await;
    service.answers("/readyz?only=database", 503).await;
    until("reading goes on", SOON, async || version().await > 0).await;
    let stuck = version().await;
    assert!(stuck < EVENTS, "all of it went in");

    disk.free();
    service.answers("/readyz", 200).await;
    until("the rest is applied", SOON * 2, async || {
        version().await == EVENTS + 1
    })
    .await;
    until("everything is acknowledged", SOON, async || {
        broker.waiting(&queue).await == Some(0)
    })
    .await;
    let event = json!({"event_id": "http", "account_id": "0", "amount": 1});
    assert_eq!(service.post("/v1/events", &event).await.0, 200);
    assert_eq!(version().await, EVENTS + 2);
    let (_, letters) = service.get("/v1/dead-letters").await;
    assert!(letters.contains("\"items\":[]"), "{letters}");
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    let verified = run(
        folder.path(),
        &["verify", "--database-url", database_url],
        &[],
    );
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let log = service.log();
    let told = log.matches("the database can't be worked with").count();
    assert!((1..=20).contains(&told), "told {told} times: {log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_sqlite() {
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    let disk = SmallDisk::new(8, own);
    let url = format!("sqlite://{}", disk.path().join("books.db").display());
    outlasts(&url, &disk).await;
}

/// The whole database in a tablespace of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_postgres() {
    let database = databases::empty_postgres().await;
    let mut server = sqlx::PgConnection::connect(&databases::server())
        .await
        .unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut server)
        .await
        .unwrap();
    let process = format!("/proc/{pid}");
    let user = std::fs::metadata(&process)
        .expect("the server runs on this machine")
        .uid();
    let disk = SmallDisk::new(48, user);
    let space = database.name();
    let mut tell = async |statement: String| {
        let statement = AssertSqlSafe(statement);
        sqlx::raw_sql(statement).execute(&mut server).await.unwrap();
    };
    tell(format!(
        "CREATE TABLESPACE {space} LOCATION '{}'",
        disk.path().display()
    ))
    .await;
    tell(format!("ALTER DATABASE {space} SET TABLESPACE {space}")).await;
    let url = database.url.clone();
    outlasts(&url, &disk).await;
    drop(database);
    tell(format!("DROP TABLESPACE {space}")).await;
}

/// Behind our own queue stands a queue of somebody's: it is used as it is, and what it
/// lacks is said once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_classic_queue_is_warned_of_once() {
    let broker = Broker::new().await;
    let theirs = broker.name("theirs");
    broker
        .declare(&theirs, lapin::types::FieldTable::default())
        .await;
    let folder = tempfile::tempdir().unwrap();
    let (queues, url) = (format!("orders={theirs}"), broker::url());
    let env = [
        ("AMQP_URL", url.as_str()),
        ("ONCELEDGER_AMQP_PREFIX", broker.prefix.as_str()),
        ("ONCELEDGER_QUEUES", queues.as_str()),
    ];
    let mut service = Service::start(folder.path(), &[], &env);
    service.answers("/readyz", 200).await;
    let line = service.logged("it is a classic queue");
    assert!(line.contains("WARN") && line.contains(&theirs), "{line}");
    let account = json!({"id": "0", "currency": "EUR", "opening_balance": 10});
    assert_eq!(service.post("/v1/accounts", &account).await.0, 201);
    broker.publish(&theirs, [debit("e", "0", 3)]).await;
    until("it is consumed", SOON, async || {
        service
            .get("/v1/accounts/0")
            .await
            .1
            .contains("\"balance\":7")
    })
    .await;
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    assert_eq!(service.log().matches("it is a classic queue").count(), 1);
}
