//! The life of an account: opened, moved, frozen, emptied, closed.

use rstest::rstest;
use serde_json::json;

use crate::support::app::{On, TestApp};

#[rstest]
#[tokio::test]
async fn from_its_opening_to_its_end(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    let opening = json!({"id": "a", "currency": "EUR", "opening_balance": 100});
    let path = "/v1/accounts/a";
    let debit =
        |id: &str, amount: i64| json!({"event_id": id, "account_id": "a", "amount": amount});
    let opened = app.post("/v1/accounts", opening.clone()).await.is(201);
    assert_eq!(opened.header("etag"), Some("\"1\""));
    assert_eq!(opened.header("location"), Some("/v1/accounts/a"));

    // Settings count in the tag, entries in the version, whichever comes first.
    let tag = async || app.get(path).await.header("etag").unwrap().to_owned();
    app.patch(path, &[], json!({"metadata": {"k": 1}}))
        .await
        .is(200);
    assert_eq!(tag().await, "\"1.1\"");
    app.post("/v1/events", debit("e1", 10)).await.is(200);
    assert_eq!(tag().await, "\"2.1\"");

    // A floor above the balance lets nothing out and everything in.
    let floor = json!({"floor": 200, "note": "on request"});
    app.patch(path, &[("if-match", "W/\"9\", \"2.1\"")], floor)
        .await
        .is(200)
        .has(json!({"balance": 90, "floor": 200, "version": 2}));
    assert_eq!(tag().await, "\"2.2\"");
    app.post("/v1/events", debit("e2", 1))
        .await
        .is(200)
        .has(json!({"outcome": "rejected", "reason": "insufficient_funds"}));
    let credit = json!({"event_id": "e3", "account_id": "a", "type": "credit", "amount": 5});
    app.post("/v1/events", credit)
        .await
        .is(200)
        .has(json!({"outcome": "applied", "balance": 95}));

    // What opened it answers the account as it is now; anything else is another one.
    let again = app.post("/v1/accounts", opening).await.is(200);
    assert_eq!(again.header("etag"), Some("\"3.2\""));
    again.has(json!({"balance": 95, "floor": 200, "version": 3}));
    let other = json!({"id": "a", "currency": "EUR", "opening_balance": 95});
    app.post("/v1/accounts", other)
        .await
        .problem(409, "account_exists");

    // A weak tag alone is never a match for a change.
    app.patch(path, &[("if-match", "W/\"3.2\"")], json!({"floor": null}))
        .await
        .problem(412, "version_conflict");
    app.patch(path, &[("if-match", "*")], json!({"floor": null}))
        .await
        .is(200)
        .has(json!({"floor": null}));

    app.patch(path, &[], json!({"status": "closed"}))
        .await
        .problem(409, "account_not_empty");
    app.patch(path, &[], json!({"status": "frozen"}))
        .await
        .is(200);
    app.post("/v1/events", debit("e4", 95))
        .await
        .is(200)
        .has(json!({"outcome": "rejected", "reason": "account_frozen"}));
    app.patch(path, &[], json!({"status": "open"}))
        .await
        .is(200);
    app.post("/v1/events", debit("e5", 95))
        .await
        .is(200)
        .has(json!({"outcome": "applied", "balance": 0}));
    app.patch(path, &[], json!({"status": "frozen"}))
        .await
        .is(200);
    app.patch(path, &[], json!({"status": "closed"}))
        .await
        .is(200)
        .has(json!({"status": "closed", "balance": 0}));

    // Closed is final, for settings and for money.
    for change in [
        json!({"status": "open"}),
        json!({"status": "frozen"}),
        json!({"floor": 1}),
        json!({"metadata": {}}),
    ] {
        app.patch(path, &[], change)
            .await
            .problem(409, "account_closed");
    }
    let credit = json!({"event_id": "e6", "account_id": "a", "type": "credit", "amount": 5});
    app.post("/v1/events", credit)
        .await
        .is(200)
        .has(json!({"outcome": "rejected", "reason": "account_closed"}));
    let listed = app.get("/v1/accounts?status=closed").await.is(200);
    assert_eq!(listed.body["items"][0]["id"], "a");
    let verified = app.store.verify().await.unwrap();
    assert_eq!(verified.offences, []);
}

#[tokio::test]
async fn settings_that_can_not_be_are_refused_by_name() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    let path = "/v1/accounts/a";
    let check = async |body: &str, field: &str, rule: &str| {
        let reply = app
            .json(reqwest::Method::PATCH, path, &[], body.to_owned())
            .await;
        reply
            .problem(422, "invalid_request")
            .has(json!({"field": field, "rule": rule}));
    };
    let large = format!("{{\"metadata\":{{\"k\":\"{}\"}}}}", "x".repeat(16 << 10));
    check(&large, "metadata", "max_bytes").await;
    check(r#"{"floor":1,"floor":2}"#, "floor", "duplicate_key").await;
    check(r#"{"note":"a\u0000b"}"#, "note", "format").await;
    check(r#"{"status":"awaited"}"#, "status", "format").await;
    check(r#"{"status":null}"#, "status", "format").await;
    check(r#"{"floor":1.5}"#, "floor", "type").await;
    check(r#"{"balance":1}"#, "balance", "unknown").await;
    check(r#"{"metadata":[]}"#, "metadata", "type").await;
    let account = app.get(path).await.is(200);
    assert_eq!(account.header("etag"), Some("\"1\""));
}
