//! Sending events.

use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::app::{BODY_BYTES_MAX, EVENT_BYTES_MAX, On, TestApp};

const EVENTS: &str = "/v1/events";

#[rstest]
#[tokio::test]
async fn an_event_is_applied_once_and_then_a_duplicate(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let event = json!({"event_id": "e", "account_id": "a", "amount": 10, "version": 1});
    let told = |outcome: &str| {
        json!({"outcome": outcome, "source": "http", "event_id": "e", "account_id": "a",
        "expected_version": 1, "version": 2, "balance": 90})
    };
    assert_eq!(
        app.post(EVENTS, event.clone()).await.is(200).body,
        told("applied")
    );
    assert_eq!(
        app.post(EVENTS, event).await.is(200).body,
        told("duplicate")
    );
    let other = json!({"event_id": "e", "account_id": "a", "amount": 11, "version": 1});
    app.post(EVENTS, other)
        .await
        .is(200)
        .has(json!({"outcome": "rejected", "reason": "event_id_reused"}));
}

#[rstest]
#[tokio::test]
async fn what_has_no_effect_says_how_the_account_was_found(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let refused = app
        .post(
            EVENTS,
            json!({"event_id": "r", "account_id": "a", "amount": 101}),
        )
        .await
        .is(200);
    assert_eq!(
        refused.body,
        json!({"outcome": "rejected", "reason": "insufficient_funds", "source": "http",
        "event_id": "r", "account_id": "a", "account_version": 1, "account_balance": 100})
    );
    let parked = app
        .post(
            EVENTS,
            json!({"event_id": "p", "account_id": "a", "amount": 1, "version": 5}),
        )
        .await
        .is(200);
    assert_eq!(
        parked.body,
        json!({"outcome": "parked", "reason": "version_gap", "source": "http", "event_id": "p",
        "account_id": "a", "expected_version": 5, "account_version": 1, "account_balance": 100})
    );
    // The recorded outcome again.
    let again = app
        .post(
            EVENTS,
            json!({"event_id": "r", "account_id": "a", "amount": 101}),
        )
        .await
        .is(200);
    assert_eq!(again.body, refused.body);
}

#[rstest]
#[tokio::test]
async fn an_array_is_answered_in_its_order(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.open("b").await;
    let many: Vec<Value> = (0..1000)
        .map(|n| json!({"event_id": n, "type": "credit", "account_id": if n % 2 == 0 { "a" } else { "b" }, "amount": 1}))
        .collect();
    let answers = app.post(EVENTS, many.clone().into()).await.is(200).body;
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 1000);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer["event_id"], n.to_string());
        assert_eq!(answer["version"], 2 + n / 2, "{answer}");
    }
    let again = app.post(EVENTS, many.clone().into()).await.is(200).body;
    assert!(
        again
            .as_array()
            .unwrap()
            .iter()
            .all(|answer| answer["outcome"] == "duplicate")
    );
    assert_eq!(app.post(EVENTS, json!([])).await.is(200).body, json!([]));

    let mut too_many = many;
    too_many.push(json!({"event_id": "one more", "account_id": "a", "amount": 1}));
    app.post(EVENTS, too_many.into())
        .await
        .problem(422, "invalid_request")
        .has(json!({"field": "body", "rule": "length"}));
}

#[rstest]
#[tokio::test]
async fn nothing_of_an_array_with_a_wrong_element_is_applied(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let good = json!({"event_id": "good", "account_id": "a", "amount": 1});
    let check = async |bad: Value, code: &str, status: u16, fields: Value| {
        app.post(EVENTS, json!([good, bad]))
            .await
            .problem(status, code)
            .has(json!({"index": 1}))
            .has(fields);
    };
    check(
        json!({"event_id": "b", "account_id": "a", "amount": 0}),
        "invalid_event",
        422,
        json!({"field": "amount", "rule": "range"}),
    )
    .await;
    check(
        json!({"event_id": "b", "account_id": "a"}),
        "invalid_event",
        422,
        json!({"field": "amount", "rule": "required"}),
    )
    .await;
    check(
        json!({"event_id": "b", "account_id": "a", "amount": 1, "source": "onceledger.x"}),
        "invalid_event",
        422,
        json!({"field": "source", "rule": "reserved"}),
    )
    .await;
    check(json!("text"), "invalid_event", 422, json!({"rule": "type"})).await;
    check(
        json!({"event_id": "b", "account_id": "a", "amount": 1, "x": "y".repeat(EVENT_BYTES_MAX)}),
        "too_large",
        413,
        json!({"rule": "max_bytes"}),
    )
    .await;
    app.get("/v1/events/http/good")
        .await
        .problem(404, "event_not_found");
    app.get("/v1/accounts/a")
        .await
        .is(200)
        .has(json!({"balance": 100, "version": 1}));
    app.get("/v1/dead-letters")
        .await
        .is(200)
        .has(json!({"items": []}));
}

#[rstest]
#[tokio::test]
async fn cloudevents_come_in_three_ways(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let event = |id: &str| {
        json!({"specversion": "1.0", "id": id, "source": "/shop/1", "type": "shop.debit",
        "data": {"account_id": "a", "amount": 1}})
    };
    let structured = [(
        "content-type",
        "application/cloudevents+json; charset=utf-8",
    )];
    app.send(Method::POST, EVENTS, &structured, event("s").to_string())
        .await
        .is(200)
        .has(json!({"outcome": "applied", "source": "/shop/1", "event_id": "s", "version": 2}));
    let binary = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "b%C3%A4"),
        ("ce-source", "/shop/1"),
        ("ce-type", "shop.credit"),
    ];
    app.send(Method::POST, EVENTS, &binary, r#"{"account_id":"a","amount":3}"#)
        .await
        .is(200)
        .has(json!({"outcome": "applied", "source": "/shop/1", "event_id": "bä", "version": 3, "balance": 102}));
    let batch = [("content-type", "application/cloudevents-batch+json")];
    let answers = app
        .send(
            Method::POST,
            EVENTS,
            &batch,
            json!([event("s"), event("t")]).to_string(),
        )
        .await
        .is(200)
        .body;
    assert_eq!(answers[0]["outcome"], "duplicate");
    assert_eq!(answers[1]["outcome"], "applied");
    app.send(Method::POST, EVENTS, &batch, "[]").await.is(200);
    app.send(Method::POST, EVENTS, &batch, event("u").to_string())
        .await
        .problem(422, "invalid_request")
        .has(json!({"field": "body", "rule": "type"}));
    // A plain event in a batch is no CloudEvent.
    app.send(
        Method::POST,
        EVENTS,
        &batch,
        json!([{"event_id": "x", "account_id": "a", "amount": 1}]).to_string(),
    )
    .await
    .problem(422, "invalid_event")
    .has(json!({"index": 0}));
    app.send(
        Method::POST,
        EVENTS,
        &structured,
        json!([event("v")]).to_string(),
    )
    .await
    .problem(422, "invalid_event");
    app.send(Method::POST, EVENTS, &binary, "[]")
        .await
        .problem(422, "invalid_event");
    // A slash in the source is encoded in the path.
    app.get("/v1/events/%2Fshop%2F1/b%C3%A4")
        .await
        .is(200)
        .has(json!({"status": "applied", "type": "credit"}));
}

#[tokio::test]
async fn what_is_no_event_is_told_apart_and_not_recorded() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    for bytes in [
        &b"{not json"[..],
        b"",
        b" ",
        b"{}{}",
        b"\xff",
        b"[1,",
        b"[{]",
        deep.as_bytes(),
    ] {
        app.json(Method::POST, EVENTS, &[], bytes.to_vec())
            .await
            .problem(400, "malformed_json");
    }
    let check = async |body: String, field: &str, rule: &str| {
        app.json(Method::POST, EVENTS, &[], body)
            .await
            .problem(422, "invalid_event")
            .has(json!({"field": field, "rule": rule}));
    };
    let event = |rest: &str| format!(r#"{{"event_id":"x","account_id":"a",{rest}}}"#);
    check(event(r#""amount":1.5"#), "amount", "type").await;
    check(event(r#""amount":1e3"#), "amount", "type").await;
    check(event(r#""amount":-1"#), "amount", "range").await;
    check(event(r#""amount":9223372036854775808"#), "amount", "range").await;
    check(event(r#""amount":1,"amount":1"#), "amount", "duplicate_key").await;
    check(event(r#""amount":1,"type":"steal""#), "type", "unknown").await;
    check(event(r#""amount":1,"version":0"#), "version", "range").await;
    check("null".to_owned(), "body", "type").await;
    app.get("/v1/events?source=http")
        .await
        .is(200)
        .has(json!({"items": []}));
    app.get("/v1/dead-letters")
        .await
        .is(200)
        .has(json!({"items": []}));
}

#[tokio::test]
async fn sizes_have_their_limits() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    let sized = |bytes: usize| {
        let event = json!({"event_id": "x", "account_id": "a", "amount": 1, "pad": ""}).to_string();
        event.replace(
            r#""pad":"""#,
            &format!(r#""pad":"{}""#, "x".repeat(bytes - event.len())),
        )
    };
    app.json(Method::POST, EVENTS, &[], sized(EVENT_BYTES_MAX + 1))
        .await
        .problem(413, "too_large");
    app.json(Method::POST, EVENTS, &[], sized(EVENT_BYTES_MAX))
        .await
        .is(200)
        .has(json!({"outcome": "applied"}));
    app.json(Method::POST, EVENTS, &[], sized(BODY_BYTES_MAX + 1))
        .await
        .problem(413, "too_large")
        .has(json!({"field": "body", "rule": "max_bytes", "bytes_max": BODY_BYTES_MAX}));
    // Also much larger, and without saying so beforehand: the answer can still be read.
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    let head = "POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let answer = app
        .raw(&format!("{head}{}0\r\n\r\n", chunk.repeat(16)))
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.contains("too_large"),
        "{answer}"
    );
}

#[rstest]
#[tokio::test]
async fn a_caller_that_hangs_up_leaves_whole_events(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    for n in 0..50 {
        let body =
            json!({"event_id": n, "type": "credit", "account_id": "a", "amount": 1}).to_string();
        app.hang_up(&format!(
            "POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    }
    // Sent again, each takes effect once at most.
    for n in 0..50 {
        app.post(
            EVENTS,
            json!({"event_id": n, "type": "credit", "account_id": "a", "amount": 1}),
        )
        .await
        .is(200);
    }
    app.get("/v1/accounts/a")
        .await
        .is(200)
        .has(json!({"balance": 150, "version": 51}));
}
