//! A whole history as a stream.

use std::time::Duration;

use onceledger::clock::Clock;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    app::{On, Reply, TestApp},
    flaky::Flaky,
};

async fn export(app: &TestApp, query: &str, accept: &str) -> Reply {
    let path = format!("/v1/accounts/a/history{query}");
    app.get_with(&path, &[("accept", accept)]).await
}

/// Adds so many credits of 1 to account `a`.
async fn fill(app: &TestApp, count: usize) {
    for first in (0..count).step_by(1_000) {
        let events: Vec<Value> = (first..count.min(first + 1_000))
            .map(|n| json!({"event_id": format!("e{n}"), "account_id": "a", "amount": 1, "type": "credit"}))
            .collect();
        app.post("/v1/events", events.into()).await.is(200);
    }
}

#[rstest]
#[tokio::test]
async fn csv_and_ndjson_say_what_the_pages_say(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let events = json!([
        {"event_id": "a,\"b\"\n", "account_id": "a", "amount": 1, "version": 1, "reference": "o-1, ü",
         "metadata": {"k": [1, "x,y"]}, "occurred_at": "2026-11-30T09:00:00+01:00"},
        {"event_id": "e2", "account_id": "a", "type": "credit", "amount": 5, "source": "shop"},
    ]);
    app.post("/v1/events", events).await.is(200);
    let pages = app.get("/v1/accounts/a/history").await.is(200);
    let items = pages.body["items"].as_array().unwrap().clone();

    let lines = export(&app, "", "application/x-ndjson").await.is(200);
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let text = lines.body.as_str().unwrap();
    let parsed: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(parsed, items);
    assert!(text.ends_with('\n'));

    let table = export(&app, "?order=asc", "text/csv").await.is(200);
    let content_type = table.header("content-type").unwrap();
    assert!(
        content_type.starts_with("text/csv; charset=utf-8"),
        "{content_type}"
    );
    assert_eq!(
        table.header("content-disposition"),
        Some("attachment; filename=\"a.csv\"")
    );
    let text = table.body.as_str().unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names: Vec<String> = reader
        .headers()
        .unwrap()
        .iter()
        .map(str::to_owned)
        .collect();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3);
    for (row, item) in rows.iter().zip(items.iter().rev()) {
        let item = item.as_object().unwrap();
        for name in item.keys() {
            assert!(names.contains(name), "{name} is no column");
        }
        for (name, cell) in names.iter().zip(row) {
            let expected = match item.get(name) {
                None => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
            };
            assert_eq!(cell, expected, "{name}");
        }
    }
    assert!(text.contains("\r\n") && !text.replace("\r\n", "").contains('\r'));
}

#[rstest]
#[tokio::test]
async fn all_of_it_comes_in_either_order(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    // Around the size of a page too.
    for (more, total) in [(248, 249), (1, 250), (1, 251), (749, 1_000)] {
        let before = total - 1 - more;
        let events: Vec<Value> = (before..total - 1)
            .map(|n| json!({"event_id": format!("e{n}"), "account_id": "a", "amount": 1, "type": "credit"}))
            .collect();
        app.post("/v1/events", events.into()).await.is(200);
        for query in ["", "?order=asc", "?order=desc"] {
            let lines = export(&app, query, "application/x-ndjson").await.is(200);
            let text = lines.body.as_str().unwrap().to_owned();
            let mut versions: Vec<i64> = text
                .lines()
                .map(|line| {
                    serde_json::from_str::<Value>(line).unwrap()["version"]
                        .as_i64()
                        .unwrap()
                })
                .collect();
            if query != "?order=asc" {
                versions.reverse();
            }
            assert_eq!(versions, (1..=total as i64).collect::<Vec<_>>(), "{query}");
        }
    }
}

#[tokio::test]
async fn a_whole_history_has_no_pages_and_no_account_no_history() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    for query in ["?limit=10", "?cursor=x"] {
        export(&app, query, "text/csv")
            .await
            .problem(422, "invalid_request")
            .has(json!({"rule": "conflict"}));
    }
    export(&app, "?order=up", "text/csv")
        .await
        .problem(422, "invalid_request");
    app.get_with("/v1/accounts/b/history", &[("accept", "text/csv")])
        .await
        .problem(404, "account_not_found");
}

/// Whoever reads nothing more is read nothing more for, and whoever reads on gets
/// the rest.
#[tokio::test]
async fn a_slow_reader_holds_the_reading_up() {
    let (database, store) = TestApp::books(On::Sqlite).await;
    let store = Flaky::new(store);
    let app = TestApp::over(store.clone(), database, Clock::system()).await;
    app.open("a").await;
    // About 17 MB of lines: more than the buffers of a connection hold.
    const ENTRIES: usize = 60_000;
    fill(&app, ENTRIES).await;

    let mut connection = app.connect().await;
    let request = "GET /v1/accounts/a/history HTTP/1.1\r\nhost: x\r\n\
         accept: application/x-ndjson\r\nconnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut read = 0;
    let mut still = 0;
    // It has come to rest when no page was read for a second.
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = store.pages();
        still = if now == read && now > 0 { still + 1 } else { 0 };
        read = now;
        if still == 10 {
            break;
        }
    }
    assert_eq!(still, 10, "it never comes to rest");
    assert!(
        read < ENTRIES / 250,
        "{read} pages for a reader who reads nothing"
    );

    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    let text = String::from_utf8(answer).unwrap();
    assert_eq!(text.matches("\"version\":").count(), ENTRIES + 1);
    assert!(
        text.ends_with("\r\n0\r\n\r\n"),
        "the transfer ends as it should"
    );
}

/// Half a history must not look like a whole one.
#[tokio::test]
async fn a_transfer_that_fails_half_way_is_seen_to_be_broken() {
    let (database, store) = TestApp::books(On::Sqlite).await;
    let store = Flaky::new(store);
    let app = TestApp::over(store.clone(), database, Clock::system()).await;
    app.open("a").await;
    fill(&app, 60_000).await;
    let mut connection = app.connect().await;
    let request = "GET /v1/accounts/a/history HTTP/1.1\r\nhost: x\r\naccept: text/csv\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1_000];
    connection.read_exact(&mut answer).await.unwrap();
    store.set_away(true);
    // An end without the last chunk, or no end but a reset: never a proper end.
    let _ = connection.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(!answer.ends_with(b"0\r\n\r\n"), "it looks whole");
}
