//! Callers who hang up, and neighbours who hold the file.

use std::time::Duration;

use sqlx::{
    ConnectOptions as _, Connection as _, PgConnection, SqliteConnection,
    sqlite::SqliteConnectOptions,
};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet};

use super::{Service, debit, debited, end, open, until};
use crate::support::databases;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_hang_up_leave_no_transaction_open_and_no_answer_untrue() {
    let folder = tempfile::tempdir().unwrap();
    let database = databases::empty_postgres().await;
    let service = Service::start(folder.path(), &["--database-url", &database.url], &[]);
    service.answers("/readyz", 200).await;
    open(&service, "1").await;
    let mut callers = JoinSet::new();
    for n in 0..200_u64 {
        let body = debit(&format!("hung-up-{n}"), "1").to_string();
        let request = format!(
            "POST /v1/events HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let address = service.address.clone();
        callers.spawn(async move {
            let mut caller = TcpStream::connect(address).await.unwrap();
            caller.write_all(request.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_micros(n * 15)).await;
        });
    }
    callers.join_all().await;

    let mut outsider = PgConnection::connect(&database.url).await.unwrap();
    until("no transaction is left open", async || {
        let idle: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND state LIKE 'idle in transaction%'",
        )
        .fetch_one(&mut outsider)
        .await
        .unwrap();
        idle == 0
    })
    .await;
    for n in 0..50 {
        let event = debit(&format!("normal-{n}"), "1");
        let (status, body) = service.post("/v1/events", &event).await;
        assert_eq!(status, 200, "{body}");
        let seen: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM event WHERE event_id = $1 AND status = 'applied'",
        )
        .bind(format!("normal-{n}"))
        .fetch_one(&mut outsider)
        .await
        .unwrap();
        assert_eq!(seen, 1, "normal-{n}");
    }
    end(service, folder.path(), &database.url);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neighbour_who_holds_the_sqlite_file_for_seconds_costs_waiting_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), &[], &[]);
    service.answers("/readyz", 200).await;
    open(&service, "1").await;
    let path = folder.path().join("onceledger.db");
    let file = SqliteConnectOptions::new().filename(&path);
    let mut outsider: SqliteConnection = file.connect().await.unwrap();
    let hold = sqlx::raw_sql("BEGIN IMMEDIATE");
    hold.execute(&mut outsider).await.unwrap();

    let holding = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let free = sqlx::raw_sql("COMMIT");
        free.execute(&mut outsider).await.unwrap();
    };
    let writing = async {
        let (service, each) = (&service, 25);
        let writers = (0..8).map(|writer| async move {
            for n in 0..each {
                let event = debit(&format!("{writer}-{n}"), "1");
                let (status, body) = service.post("/v1/events", &event).await;
                assert_eq!(status, 200, "{body}");
            }
        });
        futures_util::future::join_all(writers).await;
    };
    tokio::join!(holding, writing);
    assert_eq!(debited(&service, "1").await, Some(200));
    let log = service.log();
    assert!(!log.contains("WARN"), "{log}");
    end(service, folder.path(), "sqlite://onceledger.db");
}
