//! Dead letters.

use std::sync::Arc;

use onceledger::{
    clock,
    domain::{Letter, Raw, Reason, Timestamp},
};
use rstest::rstest;
use serde_json::json;

use crate::support::app::{On, TestApp};

fn letter(queue: &str, reason: Reason, body: &[u8]) -> Letter {
    Letter {
        tenant: "default".into(),
        reason,
        detail: json!({"field": "amount", "rule": "required"}),
        source: Some("events".into()),
        event_id: None,
        account_id: Some("a".into()),
        event: None,
        raw: Arc::new(Raw {
            queue: queue.into(),
            body: body.to_vec(),
            headers: r#"{"content_type":"application/json","headers":{"x":1}}"#.into(),
            marks: "".into(),
        }),
    }
}

#[rstest]
#[tokio::test]
async fn letters_are_listed_with_their_bodies_cut_and_read_whole(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    let at = Timestamp::parse("2026-11-30T08:00:00Z").unwrap();
    // A two-byte letter lies across the cut.
    let long = format!("x{}", "ä".repeat(4_000));
    let letters = [
        letter("q1", Reason::Invalid, br#"{"account_id":"a"}"#),
        letter("q1", Reason::Undecodable, b"\xff\x00"),
        letter("q2", Reason::Invalid, long.as_bytes()),
    ];
    for one in letters {
        app.store
            .set_aside(std::slice::from_ref(&one), at)
            .await
            .unwrap();
        app.store.set_aside(&[one], at).await.unwrap();
    }
    let all = app.get("/v1/dead-letters").await.is(200).body;
    let items = all["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!(items[0]["body"], format!("x{}", "ä".repeat(2_047)));
    assert_eq!(items[0]["body_encoding"], "utf8");
    assert_eq!(items[0]["body_truncated"], true);
    assert_eq!(items[0]["body_bytes"], 8_001);
    assert_eq!(items[1]["body"], "/wA=");
    assert_eq!(items[1]["body_encoding"], "base64");
    let first = &items[2];
    for (name, value) in [
        ("reason", json!("invalid")),
        ("queue", json!("q1")),
        ("source", json!("events")),
        ("account_id", json!("a")),
        ("body", json!(r#"{"account_id":"a"}"#)),
        ("seen", json!(2)),
        ("status", json!("open")),
        ("received_at", json!("2026-11-30T08:00:00Z")),
        ("detail", json!({"field": "amount", "rule": "required"})),
        ("headers", json!({"x": 1})),
        ("properties", json!({"content_type": "application/json"})),
    ] {
        assert_eq!(first[name], value, "{name}");
    }
    assert_eq!(first.get("event_id"), None);
    assert_eq!(first.get("body_truncated"), None);

    let id = items[0]["id"].as_str().unwrap();
    app.get(&format!("/v1/dead-letters/{id}"))
        .await
        .is(200)
        .has(json!({"body": long, "body_encoding": "utf8"}))
        .lacks(&["body_truncated"]);

    let count = async |query: &str| {
        let page = app
            .get(&format!("/v1/dead-letters?{query}"))
            .await
            .is(200)
            .body;
        page["items"].as_array().unwrap().len()
    };
    assert_eq!(count("queue=q1").await, 2);
    assert_eq!(count("reason=invalid&queue=q1").await, 1);
    assert_eq!(count("status=open&account_id=a&source=events").await, 3);
    assert_eq!(count("status=discarded").await, 0);
    assert_eq!(count("event_id=x").await, 0);
    let page = app.get("/v1/dead-letters?limit=2").await.is(200).body;
    assert_eq!(
        count(&format!("cursor={}", page["next_cursor"].as_str().unwrap())).await,
        1
    );
}

#[rstest]
#[tokio::test]
async fn a_reused_id_leaves_a_letter_with_what_was_sent(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let event = |amount: i64| json!({"event_id": "e", "account_id": "a", "amount": amount});
    app.post("/v1/events", event(1)).await.is(200);
    app.post("/v1/events", json!([event(1), event(2)]))
        .await
        .is(200);
    let letters = app
        .get("/v1/dead-letters?reason=event_id_reused&event_id=e")
        .await
        .is(200)
        .body;
    assert_eq!(letters["items"][0]["body"], event(2).to_string());
    assert_eq!(letters["items"][0]["queue"], "http");
    assert_eq!(letters["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_letter_that_can_not_be_is_not_found() {
    let app = TestApp::on(On::Sqlite).await;
    for id in [
        clock::new_id().to_string(),
        "1".to_owned(),
        "%00".to_owned(),
    ] {
        app.get(&format!("/v1/dead-letters/{id}"))
            .await
            .problem(404, "dead_letter_not_found");
    }
}
