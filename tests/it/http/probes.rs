//! What the service says of itself.

use onceledger::http::BrokerState;
use serde_json::json;

use crate::support::app::{On, TestApp};

#[tokio::test]
async fn ready_means_that_nothing_is_away() {
    let app = TestApp::on(On::Sqlite).await;
    let set = |database, broker, consumed| {
        let mut readiness = app.readiness.lock().unwrap();
        (readiness.database, readiness.broker) = (database, broker);
        readiness.queues.insert("q".to_owned(), consumed);
    };
    let ready = app.get("/readyz").await.is(200);
    assert_eq!(
        ready.body,
        json!({"status": "ready", "away": [], "database": "up", "broker": "not_configured", "queues": {}})
    );
    set(true, BrokerState::Blocked, true);
    app.get("/readyz")
        .await
        .is(200)
        .has(json!({"status": "ready", "broker": "blocked", "queues": {"q": "up"}}));
    set(true, BrokerState::Down, false);
    app.get("/readyz")
        .await
        .is(503)
        .has(json!({"status": "unavailable", "away": ["broker", "queue q"]}));
    let only = app.get("/readyz?only=database").await.is(200);
    assert_eq!(
        only.body,
        json!({"status": "ready", "away": [], "database": "up"})
    );
    set(false, BrokerState::Up, true);
    app.get("/readyz")
        .await
        .is(503)
        .has(json!({"away": ["database"], "database": "down"}));
    app.get("/readyz?only=database").await.is(503);
    app.get("/readyz?only=broker")
        .await
        .problem(422, "invalid_request");
    app.get("/livez")
        .await
        .is(200)
        .has(json!({"status": "alive"}));
}

#[tokio::test]
async fn figures_and_descriptions_are_there() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    app.post(
        "/v1/events",
        json!({"event_id": "e", "account_id": "a", "amount": 1}),
    )
    .await
    .is(200);
    let metrics = app.get("/metrics").await.is(200);
    assert_eq!(
        metrics.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let text = metrics.body.as_str().unwrap();
    assert!(
        text.contains(r#"onceledger_events_total{outcome="applied",reason=""} 1"#),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"));
    app.get("/")
        .await
        .is(200)
        .has(json!({"name": "onceledger"}));
    app.get("/openapi.json")
        .await
        .is(200)
        .has(json!({"openapi": "3.1.0"}));
}

/// Every file that the page names comes from the service, and none from elsewhere.
#[tokio::test]
async fn the_pages_for_people_need_no_network() {
    let app = TestApp::on(On::Sqlite).await;
    let page = app.get("/docs").await.is(200);
    assert_eq!(page.header("content-type"), Some("text/html"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'self'"), "{policy}");
    let html = page.body.as_str().unwrap();
    let base = html.split_once("<base href=\"").unwrap().1;
    assert!(base.starts_with("docs/\""), "{html}");
    let mut files = 0;
    for name in ["href=\"", "src=\""] {
        for rest in html.split(name).skip(1) {
            let file = rest.split_once('"').unwrap().0;
            if file == "docs/" {
                continue;
            }
            assert!(!file.contains("//"), "{file} is elsewhere");
            app.get(&format!("/docs/{}", file.trim_start_matches("./")))
                .await
                .is(200);
            files += 1;
        }
    }
    assert!(files >= 5, "{files} files in {html}");
    let settings = app.get("/docs/swagger-initializer.js").await.is(200);
    let settings = settings.body.as_str().unwrap();
    assert!(settings.contains("\"../openapi.json\""), "{settings}");
    assert!(
        settings.contains("\"validatorUrl\": \"none\""),
        "{settings}"
    );
    app.get("/docs/nothing.js").await.problem(404, "not_found");
    app.get("/docs?x=1").await.problem(422, "invalid_request");
}

#[tokio::test]
async fn it_stops_when_told_and_answers_what_is_in_hand() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    assert!(app.stop().await, "the service did not stop in time");
}
