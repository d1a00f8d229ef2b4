//! Headers that come with an event: `Idempotency-Key`, `If-Match`, `Prefer`.

use rstest::rstest;
use serde_json::json;

use crate::support::app::{On, TestApp};

const EVENTS: &str = "/v1/events";

#[rstest]
#[tokio::test]
async fn a_key_serves_as_event_id(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let body = json!({"account_id": "a", "amount": 10});
    for (key, outcome) in [("k", "applied"), ("\"k\"", "duplicate")] {
        app.post_with(EVENTS, &[("idempotency-key", key)], body.clone())
            .await
            .is(200)
            .has(json!({"outcome": outcome, "event_id": "k"}));
    }
    // With a version the id is the key too, and none is derived.
    app.post_with(
        EVENTS,
        &[("idempotency-key", "v")],
        json!({"account_id": "a", "amount": 1, "version": 2}),
    )
    .await
    .is(200)
    .has(json!({"outcome": "applied", "event_id": "v"}));
    app.post_with(
        EVENTS,
        &[("idempotency-key", "k2")],
        json!({"event_id": "k2", "account_id": "a", "amount": 1}),
    )
    .await
    .is(200)
    .has(json!({"outcome": "applied"}));
    app.post_with(
        EVENTS,
        &[("idempotency-key", "k3")],
        json!({"event_id": "e3", "account_id": "a", "amount": 1}),
    )
    .await
    .problem(422, "invalid_request")
    .has(json!({"field": "event_id", "rule": "conflict"}));
    for (wrong, rule) in [
        ("", "length"),
        ("\"\"", "length"),
        (&"x".repeat(256), "length"),
    ] {
        app.post_with(EVENTS, &[("idempotency-key", wrong)], body.clone())
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": "Idempotency-Key", "rule": rule}));
    }
    app.post(EVENTS, body)
        .await
        .problem(422, "invalid_event")
        .has(json!({"field": "event_id", "rule": "required"}));
}

#[rstest]
#[tokio::test]
async fn a_condition_holds_or_nothing_is_recorded(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let send = async |id: &str, tag: &str| {
        let body = json!({"event_id": id, "account_id": "a", "amount": 1});
        app.post_with(EVENTS, &[("if-match", tag)], body).await
    };
    send("e1", "\"2\"")
        .await
        .problem(412, "version_conflict")
        .has(json!({"account_version": 1, "account_balance": 100}));
    app.get("/v1/events/http/e1")
        .await
        .problem(404, "event_not_found");
    send("e1", "\"1\"")
        .await
        .is(200)
        .has(json!({"outcome": "applied", "version": 2}))
        .lacks(&["expected_version"]);
    // A known identity is answered first.
    send("e1", "\"1\"")
        .await
        .is(200)
        .has(json!({"outcome": "duplicate"}));
    send("e1", "\"abc\"")
        .await
        .is(200)
        .has(json!({"outcome": "duplicate"}));
    send("e2", "*")
        .await
        .is(200)
        .has(json!({"outcome": "applied", "version": 3}));
    send("e3", "\"3.2\"")
        .await
        .is(200)
        .has(json!({"outcome": "applied", "version": 4}));
    send("e4", "\"9\", \"8\", \"4\"")
        .await
        .is(200)
        .has(json!({"outcome": "applied", "version": 5}));
    send("e5", "\"9\", \"8\", \"4\"")
        .await
        .problem(412, "version_conflict")
        .has(json!({"account_version": 5}));
    for never in ["\"abc\"", "W/\"5\"", "\"0\""] {
        send("e5", never).await.problem(412, "version_conflict");
    }
    send("e5", "5")
        .await
        .problem(422, "invalid_request")
        .has(json!({"field": "If-Match", "rule": "format"}));

    let versioned = json!({"event_id": "e6", "account_id": "a", "amount": 1, "version": 5});
    app.post_with(EVENTS, &[("if-match", "\"4\"")], versioned.clone())
        .await
        .problem(422, "invalid_request")
        .has(json!({"field": "version", "rule": "conflict"}));
    app.post_with(EVENTS, &[("if-match", "\"5\"")], versioned)
        .await
        .is(200)
        .has(json!({"outcome": "applied"}));

    let nobody = json!({"event_id": "e7", "account_id": "nobody", "amount": 1});
    app.post_with(EVENTS, &[("if-match", "\"1\"")], nobody)
        .await
        .problem(412, "version_conflict")
        .lacks(&["account_version"]);
    for header in ["If-Match", "Idempotency-Key"] {
        app.post_with(EVENTS, &[(header, "\"1\"")], json!([]))
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": header, "rule": "conflict"}));
    }
}

#[rstest]
#[tokio::test]
async fn strict_handling_refuses_what_would_wait(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let strict = [("prefer", "respond-async, handling=strict")];
    let gap = json!({"event_id": "g", "account_id": "a", "amount": 1, "version": 5});
    app.post_with(EVENTS, &strict, gap.clone())
        .await
        .problem(409, "version_gap")
        .has(json!({"account_version": 1, "expected_version": 5}));
    let nobody = json!({"event_id": "n", "account_id": "nobody", "amount": 1});
    app.post_with(EVENTS, &strict, nobody.clone())
        .await
        .problem(409, "account_not_found");
    for id in ["g", "n"] {
        app.get(&format!("/v1/events/http/{id}"))
            .await
            .problem(404, "event_not_found");
    }
    // In an array each element has its own answer, and the others their effect.
    let good = json!({"event_id": "first", "account_id": "a", "amount": 1});
    let many = app
        .post_with(EVENTS, &strict, json!([good, gap, nobody]))
        .await
        .is(200)
        .body;
    assert_eq!(many[0]["outcome"], "applied");
    for (place, reason) in [(1, "version_gap"), (2, "account_not_found")] {
        assert_eq!(many[place]["outcome"], "rejected");
        assert_eq!(many[place]["reason"], reason);
    }
    assert_eq!(many[1]["account_version"], 2);
    for id in ["g", "n"] {
        app.get(&format!("/v1/events/http/{id}"))
            .await
            .problem(404, "event_not_found");
    }
    let good = json!({"event_id": "ok", "account_id": "a", "amount": 1, "version": 2});
    let applied = app.post_with(EVENTS, &strict, good).await.is(200);
    assert_eq!(
        applied.header("preference-applied"),
        Some("handling=strict")
    );
    app.post_with(EVENTS, &[("prefer", "handling=lenient")], gap)
        .await
        .is(200)
        .has(json!({"outcome": "parked"}));
}
