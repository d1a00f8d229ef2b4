//! Lists: filters, pages and cursors.

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::app::{On, TestApp};

fn ids(page: &Value, field: &str) -> Vec<String> {
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item[field].as_str().unwrap().to_owned())
        .collect()
}

async fn all(app: &TestApp, path: &str, field: &str) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), path.to_owned());
    loop {
        let page = app.get(&next).await.is(200).body;
        found.extend(ids(&page, field));
        let Some(cursor) = page["next_cursor"].as_str() else {
            return found;
        };
        // The cursor alone: it carries filters and limit.
        next = format!("{}?cursor={cursor}", path.split('?').next().unwrap());
    }
}

#[rstest]
#[tokio::test]
async fn accounts_are_filtered_and_paged(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    for (id, currency) in [
        ("b_1", "EUR"),
        ("a-2", "EUR"),
        ("a-1", "CNY"),
        ("a.3", "EUR"),
        ("B", "EUR"),
    ] {
        app.post("/v1/accounts", json!({"id": id, "currency": currency}))
            .await
            .is(201);
    }
    app.patch("/v1/accounts/a.3", &[], json!({"status": "frozen"}))
        .await
        .is(200);
    for limit in 1..=5 {
        let list = async |filter: &str| {
            all(&app, &format!("/v1/accounts?limit={limit}{filter}"), "id").await
        };
        assert_eq!(list("").await, ["B", "a-1", "a-2", "a.3", "b_1"]);
        assert_eq!(list("&currency=EUR").await, ["B", "a-2", "a.3", "b_1"]);
        assert_eq!(list("&status=frozen").await, ["a.3"]);
        assert_eq!(list("&prefix=a").await, ["a-1", "a-2", "a.3"]);
        assert_eq!(list("&prefix=a-&currency=EUR").await, ["a-2"]);
        // An underscore is a letter here, no wildcard.
        assert_eq!(list("&prefix=b_").await, ["b_1"]);
        assert_eq!(list("&prefix=a_").await, [""; 0]);
        assert_eq!(list("&status=closed").await, [""; 0]);
    }
}

#[rstest]
#[tokio::test]
async fn events_are_filtered_and_paged(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.open("b").await;
    for (id, account, amount, source) in [
        ("e1", "a", 1, "s"),
        ("e2", "b", 1, "s"),
        ("e3", "a", 1000, "t"),
        ("e4", "none", 1, "t"),
        ("e5", "a", 2, "s"),
    ] {
        let event =
            json!({"event_id": id, "account_id": account, "amount": amount, "source": source});
        app.post("/v1/events", event).await.is(200);
    }
    for limit in 1..=4 {
        let list = async |filter: &str| {
            all(
                &app,
                &format!("/v1/events?limit={limit}{filter}"),
                "event_id",
            )
            .await
        };
        assert_eq!(list("&source=s").await, ["e5", "e2", "e1"]);
        assert_eq!(list("&account_id=a&source=s").await, ["e5", "e1"]);
        assert_eq!(list("&status=rejected").await, ["e3"]);
        assert_eq!(list("&reason=insufficient_funds").await, ["e3"]);
        assert_eq!(list("&status=parked&account_id=none").await, ["e4"]);
        assert_eq!(list("&event_id=e2").await, ["e2"]);
        // Nothing is hidden: the openings are events too.
        assert_eq!(list("").await, ["e5", "e4", "e3", "e2", "e1", "b", "a"]);
        assert_eq!(list("&status=dead").await, [""; 0]);
    }
}

#[tokio::test]
async fn a_filter_that_nothing_can_match_is_refused() {
    let app = TestApp::on(On::Sqlite).await;
    let wrong = async |path: &str, field: &str, rule: &str| {
        app.get(path)
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": field, "rule": rule}));
    };
    wrong("/v1/accounts?nonsense=1", "nonsense", "unknown").await;
    wrong("/v1/accounts?status=awaited", "status", "format").await;
    wrong("/v1/accounts?status=", "status", "format").await;
    wrong("/v1/accounts?currency=eur", "currency", "format").await;
    wrong("/v1/accounts?prefix=", "prefix", "format").await;
    wrong("/v1/accounts?prefix=a%25", "prefix", "format").await;
    wrong("/v1/accounts?limit=1&limit=1", "limit", "duplicate_key").await;
    wrong("/v1/accounts?prefix=%zz", "prefix", "format").await;
    wrong("/v1/accounts?prefix=%ff", "prefix", "format").await;
    wrong("/v1/accounts?prefix=a%00", "prefix", "format").await;
    wrong("/v1/events?status=gone", "status", "format").await;
    wrong("/v1/events?reason=gone", "reason", "format").await;
    wrong("/v1/events?account_id=a%20b", "account_id", "format").await;
    wrong(
        &format!("/v1/events?event_id={}", "x".repeat(256)),
        "event_id",
        "format",
    )
    .await;
    wrong("/v1/dead-letters?status=parked", "status", "format").await;
    wrong("/v1/dead-letters?queue=", "queue", "format").await;
    app.get("/v1/accounts?prefix=.").await.is(200);
    app.get("/v1/accounts?&").await.is(200);
    app.get(&format!("/v1/accounts?prefix={}", "x".repeat(128)))
        .await
        .is(200);
}

#[tokio::test]
async fn a_cursor_contradicts_neither_its_list_nor_its_filters() {
    let app = TestApp::on(On::Sqlite).await;
    for id in ["a1", "a2", "a3"] {
        app.open(id).await;
    }
    let page = app.get("/v1/accounts?limit=1&prefix=a").await.is(200).body;
    let cursor = page["next_cursor"].as_str().unwrap();
    let conflict = async |path: String| {
        app.get(&path)
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": "cursor", "rule": "conflict"}));
    };
    conflict(format!("/v1/accounts?prefix=a1&cursor={cursor}")).await;
    conflict(format!("/v1/accounts?status=open&cursor={cursor}")).await;
    conflict(format!("/v1/events?cursor={cursor}")).await;
    let next = app
        .get(&format!("/v1/accounts?limit=2&prefix=a&cursor={cursor}"))
        .await
        .is(200);
    assert_eq!(ids(&next.body, "id"), ["a2", "a3"]);
    // What was bent is refused, whatever it says.
    for bent in [
        &cursor[1..],
        &cursor[..cursor.len() - 2],
        "e30",
        "eyJmb3JtIjoxfQ",
    ] {
        app.get(&format!("/v1/accounts?cursor={bent}"))
            .await
            .problem(422, "invalid_request")
            .has(json!({"field": "cursor", "rule": "format"}));
    }
}
