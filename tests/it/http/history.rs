//! The history of an account.

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::app::{On, TestApp};

#[rstest]
#[tokio::test]
async fn an_entry_says_all_that_applies_and_nothing_else(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.post(
        "/v1/events",
        json!([
            {"event_id": "e1", "account_id": "a", "amount": 1, "version": 1, "reference": "o-1",
             "metadata": {"k": [1]}, "occurred_at": "2026-11-30T09:00:00+01:00"},
            {"event_id": "e2", "account_id": "a", "type": "credit", "amount": 5, "source": "shop"},
        ]),
    )
    .await
    .is(200);

    let full = app.get("/v1/accounts/a/history/2").await.is(200).has(json!({
        "version": 2, "expected_version": 1, "type": "debit", "amount": 1, "currency": "EUR",
        "balance_before": 100, "balance_after": 99, "event_id": "e1", "source": "http", "reference": "o-1",
        "occurred_at": "2026-11-30T08:00:00Z", "metadata": {"k": [1]},
    }));
    assert!(full.body["applied_at"].is_string());
    app.get("/v1/accounts/a/history/3")
        .await
        .is(200)
        .has(
            json!({"type": "credit", "balance_before": 99, "balance_after": 104, "source": "shop"}),
        )
        .lacks(&["expected_version", "reference", "occurred_at", "metadata"]);
    app.get("/v1/accounts/a/history/1")
        .await
        .is(200)
        .has(json!({"type": "opening", "amount": 100, "balance_before": 0, "balance_after": 100}));
}

#[rstest]
#[tokio::test]
async fn history_goes_either_way_page_by_page(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let events: Vec<Value> = (0..4)
        .map(|n| json!({"event_id": format!("e{n}"), "account_id": "a", "amount": 1}))
        .collect();
    app.post("/v1/events", events.into()).await.is(200);
    for (order, expected) in [
        ("", [5, 4, 3, 2, 1]),
        ("order=desc&", [5, 4, 3, 2, 1]),
        ("order=asc&", [1, 2, 3, 4, 5]),
    ] {
        for limit in 1..=6 {
            let mut versions = Vec::new();
            let mut query = format!("{order}limit={limit}");
            loop {
                let page = app
                    .get(&format!("/v1/accounts/a/history?{query}"))
                    .await
                    .is(200)
                    .body;
                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= limit);
                versions.extend(items.iter().map(|item| item["version"].as_i64().unwrap()));
                match page["next_cursor"].as_str() {
                    // The cursor alone carries order and limit.
                    Some(cursor) => query = format!("cursor={cursor}"),
                    None => break,
                }
            }
            assert_eq!(versions, expected, "{order} {limit}");
        }
    }
}

#[tokio::test]
async fn what_history_can_not_be_asked_for() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    app.open("b").await;
    app.post(
        "/v1/events",
        json!({"event_id": "e", "account_id": "a", "amount": 1}),
    )
    .await
    .is(200);
    let wrong = async |query: &str, field: &str, rule: &str| {
        app.get(&format!("/v1/accounts/a/history?{query}"))
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": field, "rule": rule}));
    };
    wrong("order=up", "order", "format").await;
    wrong("limit=0", "limit", "range").await;
    wrong("limit=501", "limit", "range").await;
    wrong("limit=99999999999999999999", "limit", "range").await;
    wrong("limit=x", "limit", "type").await;
    wrong("cursor=garbage", "cursor", "format").await;
    wrong("cursor=", "cursor", "format").await;
    let page = app.get("/v1/accounts/a/history?limit=1").await.is(200).body;
    let cursor = page["next_cursor"].as_str().unwrap();
    wrong(&format!("cursor={cursor}&order=asc"), "cursor", "conflict").await;
    app.get(&format!(
        "/v1/accounts/a/history?cursor={cursor}&order=desc&limit=7"
    ))
    .await
    .is(200);
    app.get(&format!("/v1/accounts/b/history?cursor={cursor}"))
        .await
        .problem(422, "invalid_request")
        .has(json!({"field": "cursor", "rule": "conflict"}));
    app.get("/v1/accounts/none/history")
        .await
        .problem(404, "account_not_found");
    app.get("/v1/accounts/none/history/1")
        .await
        .problem(404, "account_not_found");
    app.get("/v1/accounts/a/history/3")
        .await
        .problem(404, "version_not_found");
    for version in ["0", "x", "9223372036854775808", "1%00"] {
        app.get(&format!("/v1/accounts/a/history/{version}"))
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": "version"}));
    }
}
