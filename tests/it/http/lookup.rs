//! Many events looked up at once.

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::app::{On, TestApp};

#[rstest]
#[tokio::test]
async fn each_is_answered_in_turn_and_unknown_ones_are_named(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    for event in [
        json!({"event_id": "applied", "account_id": "a", "amount": 1}),
        json!({"event_id": "applied", "account_id": "a", "amount": 1}),
        json!({"event_id": "refused", "account_id": "a", "amount": 1_000}),
        json!({"event_id": "parked", "account_id": "a", "amount": 1, "version": 9, "source": "shop"}),
        json!({"event_id": 7, "account_id": "a", "amount": 1}),
    ] {
        app.post("/v1/events", event).await.is(200);
    }
    let asked = json!([
        {"source": "shop", "event_id": "parked"},
        {"source": "http", "event_id": "nobody"},
        {"source": "http", "event_id": "applied"},
        {"source": "http", "event_id": 7},
        {"source": "http", "event_id": "parked"},
        {"source": "http", "event_id": "refused"},
        {"source": "http", "event_id": "applied"},
    ]);
    let found = app.post("/v1/events/lookup", asked).await.is(200);
    let items = found.body.as_array().unwrap();
    let statuses: Vec<&str> = items
        .iter()
        .map(|it| it["status"].as_str().unwrap())
        .collect();
    let expected = [
        "parked", "unknown", "applied", "applied", "unknown", "rejected", "applied",
    ];
    assert_eq!(statuses, expected);
    assert_eq!(
        items[1],
        json!({"status": "unknown", "source": "http", "event_id": "nobody"})
    );
    assert_eq!(items[5]["reason"], "insufficient_funds");
    let one = app.get("/v1/events/http/applied").await.is(200);
    assert_eq!(items[2]["version"], 2);
    assert_eq!(items[2]["explanation"], one.body["explanation"]);
    assert_eq!(items[2], items[6]);
    let none = app.post("/v1/events/lookup", json!([])).await.is(200);
    assert_eq!(none.body, json!([]));
}

#[rstest]
#[tokio::test]
async fn a_thousand_at_once_and_no_more(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let events = |count: usize| -> Value {
        (0..count)
            .map(|n| json!({"event_id": format!("e{n}"), "account_id": "a", "amount": 1, "type": "credit"}))
            .collect()
    };
    let asked = |count: usize| -> Value {
        (0..count)
            .map(|n| json!({"source": "http", "event_id": format!("e{n}")}))
            .collect()
    };
    app.post("/v1/events", events(700)).await.is(200);
    let found = app.post("/v1/events/lookup", asked(1_000)).await.is(200);
    let items = found.body.as_array().unwrap();
    assert_eq!(items.len(), 1_000);
    for (n, item) in items.iter().enumerate() {
        let expected = if n < 700 { "applied" } else { "unknown" };
        assert_eq!(item["event_id"], format!("e{n}"));
        assert_eq!(item["status"], expected);
    }
    app.post("/v1/events/lookup", asked(1_001))
        .await
        .problem(422, "invalid_request")
        .has(json!({"field": "body", "rule": "length"}));
}

#[tokio::test]
async fn what_can_not_be_looked_up_is_told_by_its_place() {
    let app = TestApp::on(On::Sqlite).await;
    let check = async |element: Value, field: &str, rule: &str| {
        let body = json!([{"source": "s", "event_id": "e"}, element]);
        app.post("/v1/events/lookup", body)
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": field, "rule": rule, "index": 1}));
    };
    check(json!({"source": "s"}), "event_id", "required").await;
    check(json!({"event_id": "e"}), "source", "required").await;
    check(json!({"source": "s", "event_id": 1.5}), "event_id", "type").await;
    check(json!({"source": "s", "event_id": ""}), "event_id", "length").await;
    check(
        json!({"source": "s".repeat(256), "event_id": "e"}),
        "source",
        "length",
    )
    .await;
    check(
        json!({"source": "s", "event_id": "e", "x": 1}),
        "x",
        "unknown",
    )
    .await;
    check(
        json!({"source": "a\u{0}b", "event_id": "e"}),
        "source",
        "format",
    )
    .await;
    check(json!("e"), "body", "type").await;
    app.post("/v1/events/lookup", json!({"source": "s", "event_id": "e"}))
        .await
        .problem(422, "invalid_request")
        .has(json!({"field": "body", "rule": "type"}));
    app.json(reqwest::Method::POST, "/v1/events/lookup", &[], "[{")
        .await
        .problem(400, "malformed_json");
    app.send(reqwest::Method::POST, "/v1/events/lookup", &[], "[]")
        .await
        .problem(415, "unsupported_media_type");
}
