//! Looking at events.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use crate::support::app::{On, TestApp};

#[rstest]
#[tokio::test]
async fn an_applied_event_is_shown_whole(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.post(
        "/v1/events",
        json!({"event_id": "e 1/2", "account_id": "a", "amount": 10, "version": 1,
        "reference": "o", "occurred_at": "2026-11-30T08:00:00.5Z", "metadata": {"k": 1}}),
    )
    .await
    .is(200);
    let event = app.get("/v1/events/http/e%201%2F2").await.is(200).has(json!({
        "status": "applied", "source": "http", "event_id": "e 1/2", "account_id": "a", "type": "debit", "amount": 10,
        "currency": "EUR", "expected_version": 1, "version": 2, "balance_after": 90, "duplicates": 0,
        "reference": "o", "occurred_at": "2026-11-30T08:00:00.5Z", "metadata": {"k": 1},
    })).lacks(&["reason"]);
    assert_eq!(event.body["first_seen_at"], event.body["decided_at"]);
    let timeline = event.body["timeline"].as_array().unwrap();
    assert_eq!(timeline.len(), 1);
    assert_eq!(timeline[0]["status"], "applied");
    assert_eq!(timeline[0]["at"], event.body["decided_at"]);
    for part in ["10", "account a", "version 1", "version 2", "90"] {
        assert!(
            event.body["explanation"].as_str().unwrap().contains(part),
            "{part}"
        );
    }
}

#[rstest]
#[tokio::test]
async fn a_parked_event_keeps_its_way_in_the_timeline(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.post(
        "/v1/events",
        json!({"event_id": "p", "account_id": "a", "amount": 2, "version": 2}),
    )
    .await
    .is(200);
    app.get("/v1/events/http/p")
        .await
        .is(200)
        .has(json!({"status": "parked", "reason": "version_gap", "expected_version": 2}))
        .lacks(&["decided_at", "version", "balance_after"]);
    app.post(
        "/v1/events",
        json!({"event_id": "q", "account_id": "a", "amount": 1, "version": 1}),
    )
    .await
    .is(200);
    let applied = app
        .get("/v1/events/http/p")
        .await
        .is(200)
        .has(json!({"status": "applied", "version": 3, "balance_after": 97}))
        .lacks(&["reason"]);
    let statuses: Vec<&str> = applied.body["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["parked", "applied"]);
}

#[rstest]
#[tokio::test]
async fn a_conflict_names_the_event_that_has_the_place(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.post(
        "/v1/events",
        json!({"event_id": "first", "account_id": "a", "amount": 10, "version": 1}),
    )
    .await
    .is(200);
    app.post("/v1/events", json!({"event_id": "late", "account_id": "a", "amount": 20, "version": 1})).await.is(200)
        .has(json!({"outcome": "rejected", "reason": "version_conflict", "account_version": 2, "account_balance": 90}));
    let late = app
        .get("/v1/events/http/late")
        .await
        .is(200)
        .has(json!({"status": "rejected", "reason": "version_conflict"}));
    let words = late.body["explanation"].as_str().unwrap();
    for part in ["20", "event first of source http", "version 2, balance 90"] {
        assert!(words.contains(part), "{part} in {words}");
    }
}

#[rstest]
#[tokio::test]
async fn duplicates_are_counted_within_a_moment(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    for _ in 0..3 {
        app.post(
            "/v1/events",
            json!({"event_id": "e", "account_id": "a", "amount": 10}),
        )
        .await
        .is(200);
    }
    for _ in 0..100 {
        if app.get("/v1/events/http/e").await.is(200).body["duplicates"] == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the copies were never counted");
}

#[tokio::test]
async fn an_event_that_can_not_be_is_not_found() {
    let app = TestApp::on(On::Sqlite).await;
    for path in [
        "http/none",
        "http/a%00b",
        "%00/x",
        &format!("http/{}", "x".repeat(256)),
    ] {
        app.get(&format!("/v1/events/{path}"))
            .await
            .problem(404, "event_not_found");
    }
    for path in ["http/%zz", "http/%ff", "%/x"] {
        app.get(&format!("/v1/events/{path}"))
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": "path", "rule": "format"}));
    }
    for path in ["http", "http/a/b", "//x"] {
        app.get(&format!("/v1/events/{path}"))
            .await
            .problem(404, "not_found");
    }
}
