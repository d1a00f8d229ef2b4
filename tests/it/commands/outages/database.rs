//! PostgreSQL away in every way, and read-only.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{Service, debit, debited, end, open, until};
use crate::{
    amqp::broker::{self, Broker},
    support::{
        databases,
        network::{Network, Road},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_broke_off_is_told_at_once_and_used_as_soon_as_it_is_back() {
    away_and_back(Network::Broken).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_fell_silent_is_told_at_once_and_used_as_soon_as_it_is_back() {
    away_and_back(Network::Silent).await;
}

async fn away_and_back(network: Network) {
    let folder = tempfile::tempdir().unwrap();
    let database = databases::empty_postgres().await;
    let road = Road::to(&database.url, 5432).await;
    let url = road.url(&database.url);
    let service = Service::start(folder.path(), &["--database-url", &url], &[]);
    service.answers("/readyz", 200).await;
    open(&service, "1").await;

    road.is(network);
    let began = Instant::now();
    let (status, body) = service.post("/v1/events", &debit("e", "1")).await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("database_unavailable"), "{body}");
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
    service.answers("/readyz", 503).await;
    let (_, ready) = service.get("/readyz").await;
    assert!(
        ready.contains("\"away\":[\"database\"]"),
        "{ready}\n{}",
        service.log()
    );

    // Each of these alone would wait for seconds, were the database asked.
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(service.get("/v1/accounts/1").await.0, 503);
        let (status, body) = service.post("/v1/events", &debit("e", "1")).await;
        assert_eq!(status, 503, "{body}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );

    road.is(Network::Whole);
    let began = Instant::now();
    service.answers("/readyz", 200).await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    // No connection from before is met again.
    for n in 0..8 {
        let event = debit(&format!("e{n}"), "1");
        let (status, body) = service.post("/v1/events", &event).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(service.get("/v1/accounts/1").await.0, 200);
    }
    let log = service.log();
    assert_eq!(log.matches("trying on without").count(), 1, "{log}");
    end(service, folder.path(), &database.url);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debits_wait_while_postgres_is_away_and_apply_once_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::new().await;
    let database = databases::empty_postgres().await;
    let road = Road::to(&database.url, 5432).await;
    let (url, amqp) = (road.url(&database.url), broker::url());
    let service = Service::start(
        folder.path(),
        &["--database-url", &url, "--prefetch", "50"],
        &[
            ("AMQP_URL", &amqp),
            ("ONCELEDGER_AMQP_PREFIX", &broker.prefix),
        ],
    );
    service.answers("/readyz", 200).await;
    for account in 0..5 {
        open(&service, &account.to_string()).await;
    }
    let queue = broker.name("events");
    let mut total = 0;
    for (network, outage) in [
        (Network::Broken, 500),
        (Network::Silent, 5_000),
        // Longer than deliveries are held: the channel is closed in between, once.
        (Network::Broken, 62_000),
    ] {
        let bodies =
            (total..total + 500).map(|n| debit(&format!("e{n}"), &(n % 5).to_string()).to_string());
        let publishing = broker.publish(&queue, bodies);
        let cutting = async {
            road.is(network);
            tokio::time::sleep(Duration::from_millis(outage)).await;
            road.is(Network::Whole);
        };
        tokio::join!(publishing, cutting);
        total += 500;
        until("all debits", async || sum(&service).await == Some(total)).await;
        until("nothing in the queue", async || {
            broker.waiting(&queue).await == Some(0)
        })
        .await;
        assert_eq!(broker.waiting(&broker.name("dead")).await, Some(0));
    }
    service.answers("/readyz", 200).await;
    let (_, letters) = service.get("/v1/dead-letters").await;
    assert!(letters.contains("\"items\":[]"), "{letters}");
    end(service, folder.path(), &database.url);
}

async fn sum(service: &Service) -> Option<i64> {
    let mut sum = 0;
    for account in 0..5 {
        sum += debited(service, &account.to_string()).await?;
    }
    Some(sum)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_takes_no_writes_is_read_and_what_waits_applies_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::new().await;
    let database = databases::empty_postgres().await;
    let amqp = broker::url();
    let mut service = Service::start(
        folder.path(),
        &["--database-url", &database.url],
        &[
            ("AMQP_URL", &amqp),
            ("ONCELEDGER_AMQP_PREFIX", &broker.prefix),
        ],
    );
    service.answers("/readyz", 200).await;
    open(&service, "1").await;
    read_only(&database.url, true).await;
    service.answers("/readyz", 503).await;
    service.logged("takes no writes");
    let queue = broker.name("events");
    broker
        .publish(&queue, [debit("queued", "1").to_string()])
        .await;
    assert_eq!(service.post("/v1/events", &debit("e", "1")).await.0, 503);
    assert_eq!(debited(&service, "1").await, Some(0));
    let (_, ready) = service.get("/readyz?only=database").await;
    assert!(ready.contains("\"away\":[\"database\"]"), "{ready}");

    read_only(&database.url, false).await;
    service.answers("/readyz", 200).await;
    until("the debit", async || {
        debited(&service, "1").await == Some(1)
    })
    .await;
    assert_eq!(service.post("/v1/events", &debit("e", "1")).await.0, 200);
    until("nothing in the queue", async || {
        broker.waiting(&queue).await == Some(0)
    })
    .await;
    end(service, folder.path(), &database.url);
}

/// As an administrator does: for new sessions, and the old ones are ended once.
async fn read_only(url: &str, on: bool) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let name: String = sqlx::query_scalar("SELECT current_database()")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    // This session, too, began with what is to be taken back.
    sqlx::raw_sql("SET default_transaction_read_only = off")
        .execute(&mut connection)
        .await
        .unwrap();
    let statement = match on {
        true => format!(
            "ALTER DATABASE {name} SET default_transaction_read_only = on; \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = '{name}' AND pid <> pg_backend_pid()"
        ),
        false => format!("ALTER DATABASE {name} RESET default_transaction_read_only"),
    };
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}
