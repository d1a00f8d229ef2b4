//! Requests that lead nowhere, each with its problem document.

use reqwest::Method;
use serde_json::json;

use crate::support::app::{On, TestApp};

#[tokio::test]
async fn paths_and_methods_that_are_not_there() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    for path in [
        "/nowhere",
        "/v1",
        "/v1/accounts/",
        "/v1/accounts/a/b",
        "/V1/accounts",
        "/%00",
        "/%ff",
    ] {
        app.get(path).await.problem(404, "not_found");
    }
    let allowed = async |method: Method, path: &str| {
        let reply = app
            .send(method, path, &[], "")
            .await
            .problem(405, "method_not_allowed");
        let mut allowed: Vec<String> = reply
            .header("allow")
            .unwrap()
            .split(',')
            .map(|m| m.trim().to_owned())
            .collect();
        allowed.sort();
        allowed.join(" ")
    };
    assert_eq!(
        allowed(Method::DELETE, "/v1/accounts/a").await,
        "GET HEAD PATCH"
    );
    assert_eq!(allowed(Method::PUT, "/v1/events").await, "GET HEAD POST");
    assert_eq!(allowed(Method::POST, "/livez").await, "GET HEAD");
    assert_eq!(allowed(Method::POST, "/openapi.json").await, "GET HEAD");
    assert_eq!(
        allowed(Method::OPTIONS, "/v1/dead-letters").await,
        "GET HEAD"
    );
    let head = app
        .send(Method::HEAD, "/v1/accounts/a", &[], "")
        .await
        .is(200);
    assert!(head.body.is_null());
}

#[tokio::test]
async fn account_ids_that_can_not_be() {
    let app = TestApp::on(On::Sqlite).await;
    for id in [
        "none",
        "no%20spaces",
        "a%00",
        "a%2Fb",
        "%C3%A4",
        &"x".repeat(129),
    ] {
        app.get(&format!("/v1/accounts/{id}"))
            .await
            .problem(404, "account_not_found");
        app.get(&format!("/v1/accounts/{id}/history"))
            .await
            .problem(404, "account_not_found");
        app.patch(&format!("/v1/accounts/{id}"), &[], json!({}))
            .await
            .problem(404, "account_not_found");
    }
    for id in ["%ff", "%zz", "a%"] {
        app.get(&format!("/v1/accounts/{id}"))
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": "path", "rule": "format"}));
    }
}

#[tokio::test]
async fn bodies_of_another_kind() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    let account = r#"{"id":"b","currency":"EUR"}"#;
    for media_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/merge-patch+json",
        "",
        "json",
    ] {
        app.send(
            Method::POST,
            "/v1/accounts",
            &[("content-type", media_type)],
            account,
        )
        .await
        .problem(415, "unsupported_media_type");
        app.send(
            Method::POST,
            "/v1/events",
            &[("content-type", media_type)],
            "[]",
        )
        .await
        .problem(415, "unsupported_media_type");
    }
    app.send(Method::POST, "/v1/accounts", &[], account)
        .await
        .problem(415, "unsupported_media_type");
    let zipped = [
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
    ];
    app.send(Method::POST, "/v1/events", &zipped, "[]")
        .await
        .problem(415, "unsupported_media_type");
    for bytes in [&b""[..], b"{", b"{}x", b"\xef\xbb\xbf{}", b"\xff"] {
        app.json(Method::POST, "/v1/accounts", &[], bytes.to_vec())
            .await
            .problem(400, "malformed_json");
        app.json(Method::PATCH, "/v1/accounts/a", &[], bytes.to_vec())
            .await
            .problem(400, "malformed_json");
    }
    let charset = [("content-type", "Application/JSON ; charset=\"utf-8\"")];
    app.send(Method::POST, "/v1/accounts", &charset, account)
        .await
        .is(201);
}

#[tokio::test]
async fn parameters_are_known_on_every_path() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    for path in [
        "/v1/accounts",
        "/v1/accounts/a",
        "/v1/accounts/a/history",
        "/v1/accounts/a/history/1",
        "/v1/events",
        "/v1/events/s/e",
        "/v1/dead-letters",
        "/v1/dead-letters/0193b2c4-6d3e-7f00-8000-000000000001",
        "/readyz",
        "/",
    ] {
        app.get(&format!("{path}?nonsense=1"))
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": "nonsense", "rule": "unknown"}));
    }
    for path in ["/v1/accounts", "/v1/events"] {
        app.post(&format!("{path}?nonsense=1"), json!([]))
            .await
            .problem(422, "invalid_request");
    }
}

#[tokio::test]
async fn a_database_that_is_away_is_told_as_that() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    app.store.close().await;
    let away = app
        .get("/v1/accounts/a")
        .await
        .problem(503, "database_unavailable");
    assert!(away.header("retry-after").is_some());
    let event = json!({"event_id": "e", "account_id": "a", "amount": 1});
    let away = app
        .post("/v1/events", event.clone())
        .await
        .problem(503, "database_unavailable");
    assert!(away.header("retry-after").is_some());
    app.post("/v1/events", json!([event]))
        .await
        .problem(503, "database_unavailable");
    app.get("/livez").await.is(200);
}
