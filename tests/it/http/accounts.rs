//! Opening, reading and changing accounts.

use reqwest::Method;
use rstest::rstest;
use serde_json::json;

use crate::support::app::{On, TestApp};

#[rstest]
#[tokio::test]
async fn an_account_is_opened_once_and_shown(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    let body = json!({"id": "a", "currency": "CNY", "opening_balance": "500", "floor": -10,
        "metadata": {"owner": "x", "n": 1.50}});
    let first = app.post("/v1/accounts", body.clone()).await.is(201);
    assert_eq!(first.header("location"), Some("/v1/accounts/a"));
    assert_eq!(first.header("etag"), Some("\"1\""));
    let shown = json!({"id": "a", "currency": "CNY", "balance": 500, "version": 1, "status": "open",
        "floor": -10, "metadata": {"owner": "x", "n": 1.50}});
    let first = first.has(shown.clone());
    assert!(first.body["opened_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(first.body["opened_at"], first.body["updated_at"]);

    app.post("/v1/accounts", body)
        .await
        .is(200)
        .has(shown.clone());
    app.get("/v1/accounts/a").await.is(200).has(shown);
    app.post(
        "/v1/accounts",
        json!({"id": "a", "currency": "CNY", "opening_balance": 501, "floor": -10}),
    )
    .await
    .problem(409, "account_exists");
}

#[rstest]
#[tokio::test]
async fn what_is_left_out_of_an_opening_has_its_default(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.post("/v1/accounts", json!({"id": 7, "currency": "EUR"}))
        .await
        .is(201)
        .has(json!({"id": "7", "balance": 0, "floor": 0, "metadata": {}}));
    app.post(
        "/v1/accounts",
        json!({"id": "n", "currency": "EUR", "floor": null, "metadata": null}),
    )
    .await
    .is(201)
    .has(json!({"floor": null, "metadata": {}}));
    // Without a floor a debit may leave anything.
    app.post(
        "/v1/events",
        json!({"event_id": "e", "account_id": "n", "amount": 5}),
    )
    .await
    .is(200)
    .has(json!({"outcome": "applied", "balance": -5}));
    app.post(
        "/v1/accounts",
        json!({"currency": "EUR", "opening_balance": i64::MIN, "floor": i64::MIN}),
    )
    .await
    .is(201)
    .has(json!({"balance": i64::MIN}));
}

#[rstest]
#[tokio::test]
async fn without_an_id_one_is_made_and_a_key_makes_it_repeatable(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    let body = json!({"currency": "EUR", "opening_balance": 5});
    let made = |reply: crate::support::app::Reply| reply.body["id"].as_str().unwrap().to_owned();
    let one = made(app.post("/v1/accounts", body.clone()).await.is(201));
    let two = made(app.post("/v1/accounts", body.clone()).await.is(201));
    assert_ne!(one, two);

    let key = [("idempotency-key", "k-1")];
    let three = made(
        app.post_with("/v1/accounts", &key, body.clone())
            .await
            .is(201),
    );
    let again = made(
        app.post_with("/v1/accounts", &[("idempotency-key", "\"k-1\"")], body)
            .await
            .is(200),
    );
    assert_eq!(three, again);
    app.post_with(
        "/v1/accounts",
        &key,
        json!({"currency": "EUR", "opening_balance": 6}),
    )
    .await
    .problem(409, "account_exists");
    app.get(&format!("/v1/accounts/{three}")).await.is(200);
}

#[tokio::test]
async fn a_wrong_opening_is_told_by_field_and_rule() {
    let app = TestApp::on(On::Sqlite).await;
    let check = async |body: &str, field: &str, rule: &str| {
        app.json(Method::POST, "/v1/accounts", &[], body.to_owned())
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": field, "rule": rule}));
    };
    check(r#"{"id":"x"}"#, "currency", "required").await;
    check(r#"{"id":"x","currency":null}"#, "currency", "required").await;
    check(r#"{"id":"x","currency":"eur"}"#, "currency", "format").await;
    check(r#"{"id":"x","currency":5}"#, "currency", "type").await;
    check(
        r#"{"id":"no spaces please","currency":"EUR"}"#,
        "id",
        "format",
    )
    .await;
    check(r#"{"id":"","currency":"EUR"}"#, "id", "length").await;
    check(r#"{"id":"..","currency":"EUR"}"#, "id", "format").await;
    check(r#"{"id":-1,"currency":"EUR"}"#, "id", "range").await;
    check(r#"{"id":1.0,"currency":"EUR"}"#, "id", "type").await;
    check(r#"{"id":true,"currency":"EUR"}"#, "id", "type").await;
    check(
        r#"{"id":"x","id":"x","currency":"EUR"}"#,
        "id",
        "duplicate_key",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","metadata":{"a":1,"a":1}}"#,
        "a",
        "duplicate_key",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","blance":1}"#,
        "blance",
        "unknown",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","opening_balance":1.5}"#,
        "opening_balance",
        "type",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","opening_balance":1e2}"#,
        "opening_balance",
        "type",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","opening_balance":-0}"#,
        "opening_balance",
        "type",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","opening_balance":"01"}"#,
        "opening_balance",
        "type",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","opening_balance":9223372036854775808}"#,
        "opening_balance",
        "range",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","opening_balance":-1}"#,
        "opening_balance",
        "range",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","floor":true}"#,
        "floor",
        "type",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","metadata":[]}"#,
        "metadata",
        "type",
    )
    .await;
    check(
        r#"{"id":"x","currency":"EUR","metadata":{"a":"\u0000"}}"#,
        "a",
        "format",
    )
    .await;
    check("[]", "body", "type").await;
    let large = format!(
        r#"{{"id":"x","currency":"EUR","metadata":{{"a":"{}"}}}}"#,
        "x".repeat(16 << 10)
    );
    check(&large, "metadata", "max_bytes").await;
    app.get("/v1/accounts/x")
        .await
        .problem(404, "account_not_found");
}

#[rstest]
#[tokio::test]
async fn settings_change_the_tag_and_not_the_version(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let at = "/v1/accounts/a";
    let changed = app
        .patch(
            at,
            &[("if-match", "\"1\"")],
            json!({"floor": -10, "metadata": {"k": 1}, "note": "why"}),
        )
        .await
        .is(200)
        .has(json!({"version": 1, "floor": -10, "metadata": {"k": 1}, "status": "open"}));
    assert_eq!(changed.header("etag"), Some("\"1.1\""));
    let stale = app
        .patch(at, &[("if-match", "\"1\"")], json!({"floor": 0}))
        .await
        .problem(412, "version_conflict");
    stale.has(json!({"account_version": 1, "etag": "\"1.1\""}));
    for never in ["W/\"1.1\"", "\"abc\"", "\"1.01\""] {
        app.patch(at, &[("if-match", never)], json!({}))
            .await
            .problem(412, "version_conflict");
    }
    app.patch(at, &[("if-match", "1.1")], json!({}))
        .await
        .problem(422, "invalid_request")
        .has(json!({"field": "If-Match", "rule": "format"}));
    let unchanged = app
        .patch(at, &[("if-match", "\"9\", \"1.1\"")], json!({}))
        .await
        .is(200);
    assert_eq!(unchanged.header("etag"), Some("\"1.1\""));
    app.patch(
        at,
        &[("if-match", "*")],
        json!({"floor": null, "metadata": null}),
    )
    .await
    .is(200)
    .has(json!({"floor": null, "metadata": {}}));
}

#[rstest]
#[tokio::test]
async fn closing_needs_nothing_left_and_is_final(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let at = "/v1/accounts/a";
    app.patch(at, &[], json!({"status": "closed"}))
        .await
        .problem(409, "account_not_empty")
        .has(json!({"account_balance": 100}));
    app.patch(at, &[], json!({"status": "frozen"}))
        .await
        .is(200)
        .has(json!({"status": "frozen"}));
    app.post("/v1/events", json!({"event_id": "f", "account_id": "a", "amount": 1}))
        .await
        .is(200)
        .has(json!({"outcome": "rejected", "reason": "account_frozen", "account_version": 1, "account_balance": 100}));
    app.patch(at, &[], json!({"status": "open"})).await.is(200);
    app.post(
        "/v1/events",
        json!({"event_id": "e", "account_id": "a", "amount": 100}),
    )
    .await
    .is(200);
    app.patch(at, &[], json!({"status": "closed"}))
        .await
        .is(200)
        .has(json!({"status": "closed", "version": 2}));
    app.patch(at, &[], json!({"status": "open"}))
        .await
        .problem(409, "account_closed");
    app.patch(at, &[], json!({})).await.is(200);
    app.patch("/v1/accounts/none", &[], json!({}))
        .await
        .problem(404, "account_not_found");
}

#[tokio::test]
async fn a_wrong_change_is_told_by_field_and_rule() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    let check = async |body: serde_json::Value, field: &str, rule: &str| {
        app.patch("/v1/accounts/a", &[], body)
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": field, "rule": rule}));
    };
    check(json!({"status": "awaited"}), "status", "format").await;
    check(json!({"status": null}), "status", "format").await;
    check(json!({"status": 1}), "status", "type").await;
    check(json!({"floor": 1.5}), "floor", "type").await;
    check(json!({"currency": "EUR"}), "currency", "unknown").await;
    check(json!({"metadata": "x"}), "metadata", "type").await;
    check(json!({"note": "ä".repeat(1001)}), "note", "length").await;
    app.patch("/v1/accounts/a", &[], json!({"note": "ä".repeat(1000)}))
        .await
        .is(200);
    let merge = [(
        "content-type",
        "application/merge-patch+json; charset=utf-8",
    )];
    app.send(Method::PATCH, "/v1/accounts/a", &merge, "{}")
        .await
        .is(200);
}

#[rstest]
#[tokio::test]
async fn an_unchanged_account_is_not_sent_again(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    for same in ["\"1\"", "W/\"1\"", "\"7\", \"1\"", "*"] {
        let reply = app
            .get_with("/v1/accounts/a", &[("if-none-match", same)])
            .await
            .is(304);
        assert_eq!(reply.header("etag"), Some("\"1\""));
        assert!(reply.body.is_null());
    }
    for other in ["\"2\"", "\"1.1\"", "1", ""] {
        app.get_with("/v1/accounts/a", &[("if-none-match", other)])
            .await
            .is(200);
    }
    app.get_with("/v1/accounts/none", &[("if-none-match", "*")])
        .await
        .problem(404, "account_not_found");
}

#[rstest]
#[tokio::test]
async fn balances_are_shown_as_they_stood(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.post(
        "/v1/events",
        json!({"event_id": "e", "account_id": "a", "amount": 30}),
    )
    .await
    .is(200);
    let then = app.get("/v1/accounts/a?version=1").await.is(200);
    assert_eq!(
        then.body,
        json!({"id": "a", "currency": "EUR", "balance": 100, "version": 1})
    );
    app.get("/v1/accounts/a?version=2")
        .await
        .is(200)
        .has(json!({"balance": 70}));
    app.get("/v1/accounts/a?version=3")
        .await
        .problem(404, "version_not_found");
    app.get(&format!("/v1/accounts/a?version={}", i64::MAX))
        .await
        .problem(404, "version_not_found");
    for (wrong, rule) in [
        ("0", "range"),
        ("-1", "range"),
        ("abc", "type"),
        ("", "type"),
        ("1.0", "type"),
        ("%221%22", "type"),
        ("9223372036854775808", "range"),
        ("+1", "type"),
    ] {
        app.get(&format!("/v1/accounts/a?version={wrong}"))
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": "version", "rule": rule}));
    }
    app.get("/v1/accounts/none?version=1")
        .await
        .problem(404, "account_not_found");
}

#[rstest]
#[tokio::test]
async fn an_account_that_only_waits_to_be_opened_is_none(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.post(
        "/v1/events",
        json!({"event_id": "early", "account_id": "a", "amount": 40}),
    )
    .await
    .is(200)
    .has(json!({"outcome": "parked", "reason": "account_not_found"}))
    .lacks(&["account_version", "account_balance", "version", "balance"]);
    app.get("/v1/accounts/a")
        .await
        .problem(404, "account_not_found");
    app.get("/v1/accounts/a/history")
        .await
        .problem(404, "account_not_found");
    app.get("/v1/accounts")
        .await
        .is(200)
        .has(json!({"items": []}));
    app.post(
        "/v1/accounts",
        json!({"id": "a", "currency": "EUR", "opening_balance": 100}),
    )
    .await
    .is(201)
    .has(json!({"version": 2, "balance": 60}));
}
