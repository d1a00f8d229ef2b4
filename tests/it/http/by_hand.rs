//! What an operator does by hand: replay, discard, reversal, and the audit of it.

use onceledger::domain::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::app::{On, TestApp};

async fn sound(app: &TestApp) {
    let verified = app.store.verify().await.unwrap();
    assert_eq!(verified.offences, Vec::new());
}

fn debit(id: &str, account: &str, amount: i64) -> Value {
    json!({"event_id": id, "account_id": account, "amount": amount})
}

fn versioned(id: &str, account: &str, amount: i64, version: i64) -> Value {
    json!({"event_id": id, "account_id": account, "amount": amount, "version": version})
}

fn credit(id: &str, account: &str, amount: i64) -> Value {
    json!({"event_id": id, "account_id": account, "amount": amount, "type": "credit"})
}

fn causes(event: &Value) -> Vec<&str> {
    let steps = event["timeline"].as_array().unwrap();
    let cause = |step: &'_ Value| step["cause"].as_str().map(str::to_owned);
    assert_eq!(cause(&steps[0]), None);
    steps[1..]
        .iter()
        .map(|step| step["cause"].as_str().unwrap())
        .collect()
}

#[rstest]
#[tokio::test]
async fn a_replay_evaluates_a_refused_event_afresh_and_once(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let big = debit("big", "a", 150);
    let refused = json!({"outcome": "rejected", "reason": "insufficient_funds"});
    app.post("/v1/events", big.clone())
        .await
        .is(200)
        .has(refused.clone());
    let replay = "/v1/events/http/big/replay";
    // Nothing has changed, so that nothing comes of it.
    app.post(replay, json!({})).await.is(200).has(refused);
    app.post("/v1/events", credit("top", "a", 500))
        .await
        .is(200);
    let done = json!({"outcome": "applied", "version": 3, "balance": 450});
    app.post("/v1/events/http/big/replay?dry_run=true", json!({}))
        .await
        .is(200)
        .has(done.clone());
    app.get("/v1/accounts/a")
        .await
        .has(json!({"balance": 600, "version": 2}));
    app.get("/v1/events/http/big")
        .await
        .has(json!({"status": "rejected"}));
    // Two people at once: one effect.
    let note = json!({"note": "topped up"});
    let (one, other) = tokio::join!(app.post(replay, note.clone()), app.post(replay, note));
    let mut outcomes = [&one.is(200).body, &other.is(200).body].map(|it| it["outcome"].clone());
    outcomes.sort_by_key(Value::to_string);
    assert_eq!(outcomes, [json!("applied"), json!("duplicate")]);
    // A replay is no copy, and the same event sent again is one.
    app.post(replay, json!({}))
        .await
        .is(200)
        .has(json!({"outcome": "duplicate", "version": 3}));
    app.get("/v1/events/http/big")
        .await
        .has(json!({"status": "applied", "duplicates": 0}));
    app.post("/v1/events", big)
        .await
        .has(json!({"outcome": "duplicate", "version": 3}));
    let event = app.get("/v1/events/http/big").await.is(200).body;
    assert_eq!(causes(&event), ["replayed", "replayed"]);
    let acts = app.get("/v1/audit?account_id=a").await.is(200).body;
    let outcomes: Vec<&Value> = acts["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|act| &act["detail"]["outcome"])
        .collect();
    assert_eq!(outcomes, ["applied", "rejected"]);
    assert_eq!(acts["items"][0]["note"], "topped up");
    assert_eq!(acts["items"][0]["action"], "event.replayed");
    assert_eq!(acts["items"][0]["detail"]["before"]["status"], "rejected");
    sound(&app).await;
}

#[rstest]
#[tokio::test]
async fn a_replay_may_carry_another_version_which_is_a_form_of_the_event_from_then_on(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.post("/v1/events", debit("first", "a", 1)).await.is(200);
    app.post("/v1/events", versioned("late", "a", 5, 1))
        .await
        .has(json!({"outcome": "rejected", "reason": "version_conflict"}));
    let replay = "/v1/events/http/late/replay";
    app.post(replay, json!({"version": 9}))
        .await
        .is(200)
        .has(json!({"outcome": "parked", "reason": "version_gap", "expected_version": 9}));
    app.post(replay, json!({"version": null}))
        .await
        .is(200)
        .has(json!({"outcome": "applied", "version": 3, "balance": 94}))
        .lacks(&["expected_version"]);
    for form in [
        versioned("late", "a", 5, 1),
        versioned("late", "a", 5, 9),
        debit("late", "a", 5),
    ] {
        app.post("/v1/events", form)
            .await
            .has(json!({"outcome": "duplicate", "version": 3}));
    }
    sound(&app).await;
}

#[rstest]
#[tokio::test]
async fn a_corrected_body_may_lead_a_waiting_event_to_another_account(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("right").await;
    app.post("/v1/events", debit("e", "wrnog", 5))
        .await
        .has(json!({"outcome": "parked", "reason": "account_not_found"}));
    let replay = "/v1/events/http/e/replay";
    let corrected = json!({"body": {"account_id": "right", "amount": 5}, "note": "mistyped"});
    let done = json!({"outcome": "applied", "account_id": "right", "balance": 95});
    app.post("/v1/events/http/e/replay?dry_run=true", corrected.clone())
        .await
        .is(200)
        .has(done.clone());
    app.get("/v1/events/http/e")
        .await
        .has(json!({"status": "parked", "account_id": "wrnog"}));
    app.post(replay, corrected).await.is(200).has(done);
    // The original is kept beside what it was corrected to.
    let event = app.get("/v1/events/http/e").await.is(200).body;
    let original: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
    assert_eq!(original["account_id"], "wrnog");
    let corrected: Value = serde_json::from_str(event["corrected_body"].as_str().unwrap()).unwrap();
    assert_eq!(corrected["account_id"], "right");
    // Nothing waits for the other account any more.
    app.open("wrnog").await;
    app.get("/v1/accounts/wrnog")
        .await
        .has(json!({"balance": 100, "version": 1}));
    // A copy in the first form is the same event.
    app.post("/v1/events", debit("e", "wrnog", 5))
        .await
        .has(json!({"outcome": "duplicate"}));
    sound(&app).await;
}

#[rstest]
#[tokio::test]
async fn what_a_replay_can_not_be_is_told(#[values(On::Sqlite, On::Postgres)] on: On) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.post("/v1/events", versioned("e", "a", 5, 4))
        .await
        .has(json!({"outcome": "parked"}));
    let replay = "/v1/events/http/e/replay";
    let other = json!({"body": {"event_id": "f", "account_id": "a", "amount": 5}});
    app.post(replay, other)
        .await
        .is(422)
        .has(json!({"field": "body", "rule": "conflict"}));
    app.post(replay, json!({"body": {"account_id": "a"}}))
        .await
        .is(422)
        .has(json!({"code": "invalid_event", "field": "amount", "rule": "required"}));
    app.post(
        replay,
        json!({"body": {"account_id": "a", "amount": 1}, "version": 2}),
    )
    .await
    .is(422)
    .has(json!({"field": "version", "rule": "conflict"}));
    app.post(replay, json!({"version": 0}))
        .await
        .is(422)
        .has(json!({"field": "version", "rule": "range"}));
    app.post(replay, json!({"versoin": 2}))
        .await
        .is(422)
        .has(json!({"field": "versoin", "rule": "unknown"}));
    app.post("/v1/events/http/e/replay?dry_run=yes", json!({}))
        .await
        .is(422)
        .has(json!({"field": "dry_run", "rule": "type"}));
    app.post("/v1/events/http/none/replay", json!({}))
        .await
        .is(404)
        .has(json!({"code": "event_not_found"}));
    app.post("/v1/events/http/none/discard", json!({}))
        .await
        .is(404)
        .has(json!({"code": "event_not_found"}));
    let empty = app.get("/v1/audit").await.is(200).body;
    assert_eq!(empty["items"], json!([]));
    app.get("/v1/events/http/e")
        .await
        .has(json!({"status": "parked"}));
}

#[rstest]
#[tokio::test]
async fn what_a_person_gave_up_stays_given_up_until_it_is_replayed(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    let event = versioned("e", "a", 5, 2);
    app.post("/v1/events", event.clone())
        .await
        .has(json!({"outcome": "parked"}));
    let discard = "/v1/events/http/e/discard";
    let given_up = json!({"outcome": "rejected", "reason": "discarded"});
    for _ in 0..2 {
        // An operator's curl without a body.
        app.send(reqwest::Method::POST, discard, &[], "")
            .await
            .is(200)
            .has(given_up.clone());
    }
    // The version that it waited for passes it by.
    app.post("/v1/events", debit("f", "a", 1))
        .await
        .has(json!({"outcome": "applied", "version": 2}));
    app.post("/v1/events", event).await.is(200).has(given_up);
    app.get("/v1/accounts/a")
        .await
        .has(json!({"balance": 99, "version": 2}));
    app.post("/v1/events/http/e/replay", json!({}))
        .await
        .has(json!({"outcome": "applied", "version": 3}));
    app.post(discard, json!({}))
        .await
        .is(409)
        .has(json!({"code": "already_applied", "version": 3}));
    let event = app.get("/v1/events/http/e").await.is(200).body;
    assert_eq!(causes(&event), ["discarded", "replayed"]);
    let acts = app.get("/v1/audit?subject=anonymous").await.is(200).body;
    assert_eq!(acts["items"].as_array().unwrap().len(), 2);
    let none = app.get("/v1/audit?subject=somebody").await.is(200).body;
    assert_eq!(none["items"], json!([]));
    sound(&app).await;
}

#[rstest]
#[tokio::test]
async fn the_letter_of_a_dead_event_is_resolved_with_it(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    use onceledger::domain::{Ask, Work};

    let app = TestApp::on(on).await;
    app.open("a").await;
    let ids = ["again", "given-up", "sent-again"];
    for id in ids {
        app.post("/v1/events", versioned(id, "a", 1, 9))
            .await
            .has(json!({"outcome": "parked"}));
    }
    let far = Timestamp(i64::MAX);
    for waiting in app.store.expired(far, 10).await.unwrap() {
        let ask = Ask::Expire {
            key: waiting.key,
            parked_before: far,
            raw: waiting.raw,
        };
        let account = waiting.account;
        app.lanes.ask(Work { account, ask }).await.unwrap();
    }
    for id in ids {
        app.get(&format!("/v1/events/http/{id}"))
            .await
            .has(json!({"status": "dead", "reason": "version_gap_expired"}));
    }
    app.post("/v1/events/http/given-up/discard", json!({}))
        .await
        .is(200);
    app.post("/v1/events/http/again/replay", json!({"version": null}))
        .await
        .has(json!({"outcome": "applied"}));
    // Sent again it waits, and is applied when its version comes.
    app.post("/v1/events", versioned("sent-again", "a", 1, 9))
        .await
        .has(json!({"outcome": "parked"}));
    for version in 2..9 {
        app.post(
            "/v1/events",
            versioned(&format!("f{version}"), "a", 1, version),
        )
        .await
        .has(json!({"outcome": "applied"}));
    }
    let event = app.get("/v1/events/http/sent-again").await.is(200).body;
    assert_eq!(event["status"], "applied");
    assert_eq!(causes(&event), ["expired", "sent_again", "released"]);
    for (id, status) in ids.iter().zip(["replayed", "discarded", "superseded"]) {
        let letters = app
            .get(&format!("/v1/dead-letters?event_id={id}"))
            .await
            .is(200)
            .body;
        assert_eq!(letters["items"][0]["status"], status, "{id}");
    }
    sound(&app).await;
}

#[rstest]
#[tokio::test]
async fn a_reversal_puts_the_money_back_once_and_names_what_it_reverses(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.post("/v1/events", debit("e", "a", 60)).await.is(200);
    let reversal = "/v1/accounts/a/history/2/reversal";
    let ask = || {
        app.post(
            reversal,
            json!({"reference": "complaint-1", "note": "came back"}),
        )
    };
    let answers = futures_util::future::join_all((0..8).map(|_| ask())).await;
    let mut outcomes: Vec<String> = answers
        .iter()
        .map(|reply| reply.body["outcome"].as_str().unwrap().to_owned())
        .collect();
    outcomes.sort();
    assert_eq!(outcomes[0], "applied");
    assert!(
        outcomes[1..].iter().all(|it| it == "duplicate"),
        "{outcomes:?}"
    );
    app.get("/v1/accounts/a")
        .await
        .has(json!({"balance": 100, "version": 3}));
    app.get("/v1/accounts/a/history/3").await.is(200).has(json!({
        "type": "credit", "amount": 60, "reverses": 2, "source": "onceledger.reversal", "event_id": "a:v2",
        "reference": "complaint-1",
    }));
    app.get("/v1/accounts/a/history/2")
        .await
        .has(json!({"reversed_by": 3}))
        .lacks(&["reverses"]);
    let page = app
        .get("/v1/accounts/a/history?order=asc")
        .await
        .is(200)
        .body;
    assert_eq!(page["items"][1]["reversed_by"], 3);
    assert_eq!(page["items"][2]["reverses"], 2);
    let csv = app
        .get_with(
            "/v1/accounts/a/history?order=asc",
            &[("accept", "text/csv")],
        )
        .await;
    let lines: Vec<&str> = csv.body.as_str().unwrap().lines().collect();
    assert!(lines[0].ends_with(",reverses,reversed_by"), "{}", lines[0]);
    assert!(
        lines[2].ends_with(",,3") && lines[3].ends_with(",2,"),
        "{lines:?}"
    );
    for version in [1, 3] {
        app.post(
            &format!("/v1/accounts/a/history/{version}/reversal"),
            json!({}),
        )
        .await
        .is(409)
        .has(json!({"code": "not_reversible"}));
    }
    app.post("/v1/accounts/a/history/9/reversal", json!({}))
        .await
        .is(404)
        .has(json!({"code": "version_not_found"}));
    app.post("/v1/accounts/b/history/2/reversal", json!({}))
        .await
        .is(404)
        .has(json!({"code": "account_not_found"}));
    let acts = app.get("/v1/audit?account_id=a").await.is(200).body;
    assert_eq!(acts["items"].as_array().unwrap().len(), 1);
    assert_eq!(acts["items"][0]["action"], "entry.reversed");
    sound(&app).await;
}

#[rstest]
#[tokio::test]
async fn a_reversal_that_was_refused_is_evaluated_afresh_when_it_is_asked_for_again(
    #[values(On::Sqlite, On::Postgres)] on: On,
) {
    let app = TestApp::on(on).await;
    app.open("a").await;
    app.post("/v1/events", credit("in", "a", 50)).await.is(200);
    app.post("/v1/events", debit("out", "a", 120)).await.is(200);
    let reversal = "/v1/accounts/a/history/2/reversal";
    app.post(reversal, json!({}))
        .await
        .is(200)
        .has(json!({"outcome": "rejected", "reason": "insufficient_funds"}));
    app.get("/v1/accounts/a/history/2")
        .await
        .is(200)
        .lacks(&["reversed_by"]);
    app.post("/v1/events", credit("more", "a", 100))
        .await
        .is(200);
    app.post(reversal, json!({}))
        .await
        .is(200)
        .has(json!({"outcome": "applied", "version": 5, "balance": 80}));
    sound(&app).await;
}
