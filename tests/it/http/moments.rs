//! The books as they stood at a moment, and what they hold together.

use onceledger::{clock::Clock, domain::Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::app::{On, TestApp};

/// 2026-11-30T08:00:00Z.
const OPENED: i64 = 1_796_025_600_000_000;

/// An account of 100 EUR, and a debit of 1 each minute from then on.
async fn minutes(on: On) -> TestApp {
    let clock = Clock::standing_at(Timestamp(OPENED));
    let (database, store) = TestApp::books(on).await;
    let app = TestApp::over(store, database, clock.clone()).await;
    app.open("a").await;
    for minute in 1..=3 {
        clock.set(Timestamp(OPENED + minute * 60_000_000));
        let event = json!({"event_id": format!("e{minute}"), "account_id": "a", "amount": 1});
        app.post("/v1/events", event).await.is(200);
    }
    app
}

#[rstest]
#[tokio::test]
async fn an_account_is_shown_as_it_stood_at_a_moment(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = minutes(on).await;
    for (at, version, balance) in [
        ("2026-11-30T08:00:00Z", 1, 100),
        ("2026-11-30T08:00:59.999999Z", 1, 100),
        ("2026-11-30T08:01:00Z", 2, 99),
        // The offset counts, and so does each microsecond but nothing finer.
        ("2026-11-30T09:01:00%2B01:00", 2, 99),
        ("2026-11-30T03:02:00-05:00", 3, 98),
        ("2026-11-30T08:02:59.9999999Z", 3, 98),
        ("2026-11-30T08:03:00Z", 4, 97),
        ("2199-01-01T00:00:00Z", 4, 97),
    ] {
        let then = app.get(&format!("/v1/accounts/a?at={at}")).await.is(200);
        let expected =
            json!({"id": "a", "currency": "EUR", "balance": balance, "version": version});
        assert_eq!(then.body, expected, "{at}");
    }
    for early in ["2026-11-30T07:59:59.999999Z", "2026-11-30T08:00:00%2B01:00"] {
        let none = app.get(&format!("/v1/accounts/a?at={early}")).await;
        let none = none.problem(404, "version_not_found");
        let detail = none.body["detail"].as_str().unwrap();
        assert!(detail.contains("2026-11-30T08:00:00Z"), "{detail}");
    }
    app.get("/v1/accounts/b?at=2026-11-30T08:00:00Z")
        .await
        .problem(404, "account_not_found");
}

#[tokio::test]
async fn a_moment_that_can_not_be_read_is_refused_with_what_to_write() {
    let app = TestApp::on(On::Sqlite).await;
    app.open("a").await;
    for path in ["/v1/accounts/a", "/v1/totals"] {
        for at in [
            "",
            "yesterday",
            "2026-11-30",
            "2026-11-30T08:00:00",
            "1796025600",
        ] {
            app.get(&format!("{path}?at={at}"))
                .await
                .problem(422, "invalid_request")
                .has(json!({"field": "at", "rule": "format"}));
        }
        // A plus that is not encoded is a blank.
        let blank = app
            .get(&format!("{path}?at=2026-11-30T08:00:00+01:00"))
            .await;
        let blank = blank.problem(422, "invalid_request");
        let detail = blank.body["detail"].as_str().unwrap();
        assert!(detail.contains("%2B"), "{detail}");
    }
    app.get("/v1/accounts/a?at=2026-11-30T08:00:00Z&version=1")
        .await
        .problem(422, "invalid_request")
        .has(json!({"field": "at", "rule": "conflict"}));
}

#[rstest]
#[tokio::test]
async fn totals_add_up_now_and_at_a_moment(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = minutes(on).await;
    for (id, currency) in [("b", "EUR"), ("c", "CNY")] {
        let account = json!({"id": id, "currency": currency, "opening_balance": -7, "floor": null});
        app.post("/v1/accounts", account).await.is(201);
    }
    let credit = json!({"event_id": "x", "account_id": "c", "type": "credit", "amount": 10});
    app.post("/v1/events", credit).await.is(200);
    // Refused and waiting events move nothing.
    for event in [
        json!({"event_id": "y", "account_id": "a", "amount": 1_000}),
        json!({"event_id": "z", "account_id": "a", "amount": 1, "version": 99}),
        json!({"event_id": "w", "account_id": "nobody", "amount": 1}),
    ] {
        app.post("/v1/events", event).await.is(200);
    }
    let now = app.get("/v1/totals").await.is(200);
    assert_eq!(
        now.body,
        json!({"items": [
            {"currency": "CNY", "accounts": 1, "openings": -7, "credits": 10, "debits": 0, "balances": 3},
            {"currency": "EUR", "accounts": 2, "openings": 93, "credits": 0, "debits": 3, "balances": 90},
        ]})
    );
    let then = app
        .get("/v1/totals?at=2026-11-30T09:01:30%2B01:00")
        .await
        .is(200);
    assert_eq!(
        then.body,
        json!({"at": "2026-11-30T08:01:30Z", "items": [
            {"currency": "EUR", "accounts": 1, "openings": 100, "credits": 0, "debits": 1, "balances": 99},
        ]})
    );
    let before = app.get("/v1/totals?at=2026-11-30T07:00:00Z").await.is(200);
    assert_eq!(before.body["items"], json!([]));
}

/// Balances of 64 bits, whose sum needs more.
#[rstest]
#[tokio::test]
async fn totals_may_need_more_than_64_bits(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    let most = i64::MAX;
    let openings = [("a", "EUR", most), ("b", "EUR", most), ("c", "EUR", most)];
    let lowest = [
        ("d", "CNY", i64::MIN),
        ("e", "CNY", i64::MIN),
        ("f", "CNY", -1),
    ];
    for (id, currency, balance) in openings.into_iter().chain(lowest) {
        let account =
            json!({"id": id, "currency": currency, "opening_balance": balance, "floor": null});
        app.post("/v1/accounts", account).await.is(201);
    }
    for path in ["/v1/totals", "/v1/totals?at=2199-01-01T00:00:00Z"] {
        let totals = app.send(reqwest::Method::GET, path, &[], "").await.is(200);
        let sum = |number: i128| Value::Number(number.to_string().parse().unwrap());
        let most = sum(3 * i128::from(most));
        let least = sum(2 * i128::from(i64::MIN) - 1);
        let shown = |item: usize, field: &str| totals.body["items"][item][field].to_string();
        assert_eq!(shown(1, "openings"), most.to_string());
        assert_eq!(shown(1, "balances"), most.to_string());
        assert_eq!(shown(0, "balances"), least.to_string());
    }
}
