//! The service as a process: its start, its signals, and what it says of itself.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::task::JoinSet;

use super::program::{Service, run};
use crate::support::databases;

/// A port on which nobody listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

#[tokio::test]
async fn it_makes_its_file_serves_and_ends_with_0_on_sigterm_and_sigint() {
    for signal in ["TERM", "INT"] {
        let folder = tempfile::tempdir().unwrap();
        let mut service = Service::start(folder.path(), &[], &[]);
        service.answers("/readyz", 200).await;
        assert!(folder.path().join("onceledger.db").exists());
        let account = json!({"id": "1", "currency": "EUR", "opening_balance": 1000});
        assert_eq!(service.post("/v1/accounts", &account).await.0, 201);
        let address = service.address.clone();
        let health = ["healthcheck", "--http-addr", &address];
        assert_eq!(run(folder.path(), &health, &[]).code, Some(0));
        let told = Instant::now();
        service.signal(signal);
        assert_eq!(service.ended(), Some(0), "{}", service.log());
        assert!(told.elapsed() < Duration::from_secs(10));
        assert!(!service.log().contains("WARN"), "{}", service.log());
        let gone = run(folder.path(), &health, &[]);
        assert_eq!(gone.code, Some(1));
        assert!(gone.err.contains("does not answer"), "{gone:?}");
    }
}

#[tokio::test]
async fn it_starts_while_postgres_is_away_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("postgres://u:geheim@127.0.0.1:{}/d", closed_port());
    let mut service = Service::start(folder.path(), &["--database-url", &url], &[]);
    service.logged("trying on without a last attempt");
    assert_eq!(service.get("/livez").await.0, 200);
    let (status, body) = service.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains("\"away\":[\"database\"]"), "{body}");
    let (status, body) = service.get("/v1/accounts/1").await;
    assert_eq!(status, 503);
    assert!(body.contains("database_unavailable"), "{body}");
    let address = service.address.clone();
    let health = ["healthcheck", "--http-addr", &address];
    let unready = run(folder.path(), &health, &[]);
    assert_eq!(unready.code, Some(1));
    assert!(unready.err.contains("answers 503"), "{unready:?}");
    let mut live = health.to_vec();
    live.push("--live");
    assert_eq!(run(folder.path(), &live, &[]).code, Some(0));
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    let log = service.log();
    assert_eq!(
        log.matches("trying on").count(),
        1,
        "one line a change: {log}"
    );
    assert!(!log.contains("geheim"), "{log}");
}

#[tokio::test]
async fn a_broker_that_is_away_is_waited_for_and_http_works() {
    let folder = tempfile::tempdir().unwrap();
    let amqp = format!("amqp://u:geheim@127.0.0.1:{}", closed_port());
    let mut service = Service::start(folder.path(), &[], &[("AMQP_URL", &amqp)]);
    service.answers("/readyz?only=database", 200).await;
    let (status, body) = service.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains("\"broker\":\"down\""), "{body}");
    assert!(body.contains("queue onceledger.events"), "{body}");
    let account = json!({"id": "1", "currency": "EUR"});
    assert_eq!(service.post("/v1/accounts", &account).await.0, 201);
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    assert!(!service.log().contains("geheim"), "{}", service.log());
}

#[tokio::test]
async fn no_migrate_on_an_empty_database_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let postgres = databases::empty_postgres().await;
    for url in [postgres.url.as_str(), "sqlite://missing.db"] {
        let args = [
            "serve",
            "--http-addr",
            "127.0.0.1:0",
            "--no-migrate",
            "--database-url",
            url,
        ];
        let ended = run(folder.path(), &args, &[]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(
            ended.err.contains("error: ") && ended.err.contains("`onceledger migrate`"),
            "{ended:?}"
        );
    }
    assert!(!folder.path().join("missing.db").exists());
    let migrate = ["migrate", "--database-url", &postgres.url];
    for _ in 0..2 {
        let ended = run(folder.path(), &migrate, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let service = Service::start(
        folder.path(),
        &["--no-migrate", "--database-url", &postgres.url],
        &[],
    );
    service.answers("/readyz", 200).await;
}

#[tokio::test]
async fn an_address_in_use_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run(folder.path(), &["serve", "--http-addr", &address], &[]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .err
            .contains(&format!("HTTP can't be served on {address}")),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_request_in_hand_is_answered_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = Service::start(folder.path(), &[], &[]);
    service.answers("/readyz", 200).await;
    let account = json!({"id": "1", "currency": "EUR", "opening_balance": 1_000_000});
    assert_eq!(service.post("/v1/accounts", &account).await.0, 201);
    let events: Vec<_> = (0..1_000)
        .map(|n| json!({"event_id": format!("e{n}"), "account_id": "1", "amount": 1}))
        .collect();
    let events = json!(events);
    let (answer, ()) = tokio::join!(service.post("/v1/events", &events), async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        service.signal("TERM");
    });
    assert_eq!(answer.0, 200, "{}", answer.1);
    assert_eq!(answer.1.matches("\"applied\"").count(), 1_000);
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    assert_eq!(run(folder.path(), &["verify"], &[]).code, Some(0));
}

#[test]
fn the_openapi_document_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &["openapi"], &[]);
    assert_eq!(ended.code, Some(0));
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
}

/// A database that is known to be away is waited for by nobody.
async fn known_away(service: &Service, event: &serde_json::Value) {
    let asked = Instant::now();
    for _ in 0..30 {
        let (status, body) = service.get("/v1/accounts/1").await;
        assert!(
            status == 503 && body.contains("database_unavailable"),
            "{body}"
        );
        let (status, body) = service.post("/v1/events", event).await;
        assert!(
            status == 503 && body.contains("database_unavailable"),
            "{body}"
        );
    }
    // One that is waited for takes seconds a call.
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
}

/// Passes connections on to a server until it is dropped.
struct Passage(#[expect(dead_code, reason = "ends its tasks when dropped")] JoinSet<()>);

impl Passage {
    async fn open(port: u16, server: String) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port))
            .await
            .unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let server = server.clone();
                open.spawn(async move {
                    let mut server = tokio::net::TcpStream::connect(server).await.unwrap();
                    // A broken connection is what this is for.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self(tasks)
    }
}

#[tokio::test]
async fn postgres_may_come_late_go_away_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let database = databases::empty_postgres().await;
    let port = closed_port();
    let mut url = url::Url::parse(&database.url).unwrap();
    let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432));
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(port)).unwrap();
    let mut service = Service::start(folder.path(), &["--database-url", url.as_str()], &[]);
    service.logged("trying on without");
    service.answers("/readyz", 503).await;

    let passage = Passage::open(port, server.clone()).await;
    service.answers("/readyz", 200).await;
    let account = json!({"id": "1", "currency": "EUR", "opening_balance": 10});
    assert_eq!(service.post("/v1/accounts", &account).await.0, 201);

    drop(passage);
    service.answers("/readyz", 503).await;
    assert_eq!(service.get("/livez").await.0, 200);
    let event = json!({"event_id": "e", "account_id": "1", "amount": 3});
    known_away(&service, &event).await;

    let _passage = Passage::open(port, server).await;
    service.answers("/readyz", 200).await;
    // A connection from before may still be found dead once: the same is sent again.
    let mut answer = service.post("/v1/events", &event).await;
    for _ in 0..20 {
        if answer.0 == 200 {
            break;
        }
        assert_eq!(answer.0, 503, "{}", answer.1);
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = service.post("/v1/events", &event).await;
    }
    assert!(answer.1.contains("\"balance\":7"), "{}", answer.1);
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    let log = service.log();
    assert_eq!(log.matches("trying on without").count(), 2, "{log}");
    assert_eq!(log.matches("the database answers").count(), 2, "{log}");
}
