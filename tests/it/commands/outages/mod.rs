//! The whole program while what it stands on misbehaves, against real servers:
//! what callers and probes are told meanwhile, and that everything applies by
//! itself afterwards, once.

mod broker;
mod callers;
mod database;
mod locked;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Service, run};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_secs(60);

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition().await {
        assert!(Instant::now() < end, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn debit(id: &str, account: &str) -> Value {
    json!({"event_id": id, "account_id": account, "amount": 1})
}

async fn open(service: &Service, account: &str) {
    let account = json!({"id": account, "currency": "EUR", "opening_balance": 1_000_000});
    let (status, body) = service.post("/v1/accounts", &account).await;
    assert_eq!(status, 201, "{body}");
}

/// How many entries have taken effect, or nothing where that can't be read.
async fn debited(service: &Service, account: &str) -> Option<i64> {
    let (status, body) = service.get(&format!("/v1/accounts/{account}")).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    (status == 200).then(|| 1_000_000 - body["balance"].as_i64().unwrap())
}

/// Ends the service, and checks the books from outside.
fn end(mut service: Service, folder: &std::path::Path, database: &str) {
    let told = Instant::now();
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    assert!(
        told.elapsed() < Duration::from_secs(10),
        "{}",
        service.log()
    );
    let verify = run(folder, &["verify", "--database-url", database], &[]);
    assert_eq!(verify.code, Some(0), "{verify:?}");
}
