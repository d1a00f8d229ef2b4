//! What becomes of single messages.

use lapin::types::FieldTable;
use onceledger::domain::Reason;
use serde_json::json;

use super::{
    broker::{self, Broker},
    service::{BALANCE, SOON, Service, account, debit, until},
};
use crate::commands::program::Service as Program;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_published_twice_is_applied_once_and_acknowledged() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.open_accounts(1).await;
    service.consuming().await;
    let body = debit("pay-1", "0", 500);
    broker.publish(&service.queue, [body.clone(), body]).await;
    until("the second one", SOON, async || {
        service.balance("0").await != BALANCE && service.copies_of("pay-1").await == 1
    })
    .await;
    service.settled(&broker, 1, BALANCE - 500).await;
    service.stop().await;
    assert_eq!(broker.waiting(&service.queue).await, Some(0));
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_message_becomes_a_letter_and_is_acknowledged() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.open_accounts(1).await;
    service.consuming().await;
    let bodies = [
        "not json",
        "{}",
        r#"{"account_id":"0","amount":0,"event_id":"x"}"#,
    ];
    let mut all: Vec<String> = bodies.map(str::to_owned).to_vec();
    all.push(debit("good", "0", 1));
    all.push("not json".to_owned());
    broker.publish(&service.queue, all).await;
    until("four letters, two of them alike", SOON, async || {
        let letters = service.letters().await;
        letters.iter().map(|letter| letter.seen).sum::<i64>() == 4
    })
    .await;
    service.settled(&broker, 1, BALANCE - 1).await;
    let mut reasons: Vec<(Reason, i64)> = service
        .letters()
        .await
        .iter()
        .map(|letter| (letter.letter.reason, letter.seen))
        .collect();
    reasons.sort_by_key(|(reason, seen)| (reason.as_str(), *seen));
    assert_eq!(
        reasons,
        [
            (Reason::Invalid, 1),
            (Reason::Invalid, 1),
            (Reason::Undecodable, 2)
        ]
    );
    service.stop().await;
    assert_eq!(broker.waiting(&service.queue).await, Some(0));
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_busy_account_does_not_stop_the_others_and_is_not_given_back() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.open_accounts(10).await;
    service.consuming().await;
    // Past the slow start first.
    let first = (0..100).map(|n| debit(&format!("first-{n}"), "9", 1));
    broker.publish(&service.queue, first).await;
    service.settled(&broker, 10, 10 * BALANCE - 100).await;

    service.store.lock(&[account("0")]);
    let busy = (0..50).map(|n| debit(&format!("busy-{n}"), "0", 1));
    let others = (0..2_000).map(|n| debit(&format!("free-{n}"), &(1 + n % 9).to_string(), 1));
    broker.publish(&service.queue, busy.chain(others)).await;
    until("the others acknowledged", SOON, async || {
        service.in_hand() == 50 && broker.waiting(&service.queue).await == Some(0)
    })
    .await;
    assert_eq!(service.balance("0").await, BALANCE);

    service.store.lock(&[]);
    service.settled(&broker, 10, 10 * BALANCE - 2_150).await;
    assert_eq!(service.balance("0").await, BALANCE - 50);
    service.stop().await;
    assert_eq!(broker.waiting(&service.queue).await, Some(0));
    assert_eq!(broker.waiting(&broker.name("dead")).await, Some(0));
    service.end().await;
}

/// More than is taken off the channel in one go, many times over, with the prefetch
/// that the program has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_long_backlog_nothing_is_acknowledged_that_is_not_in_the_books() {
    const MESSAGES: i64 = 8_000;
    let broker = Broker::new().await;
    let (queue, url) = (broker.name("events"), broker::url());
    let folder = tempfile::tempdir().unwrap();
    let env = [
        ("AMQP_URL", url.as_str()),
        ("ONCELEDGER_AMQP_PREFIX", broker.prefix.as_str()),
    ];
    let mut first = Program::start(folder.path(), &[], &env);
    first.answers("/readyz", 200).await;
    let account = json!({"id": "0", "currency": "EUR", "opening_balance": MESSAGES});
    assert_eq!(first.post("/v1/accounts", &account).await.0, 201);
    first.signal("TERM");
    assert_eq!(first.ended(), Some(0), "{}", first.log());
    let backlog = (0..MESSAGES).map(|n| debit(&format!("pay-{n}"), "0", 1));
    broker.publish(&queue, backlog).await;

    let second = Program::start(folder.path(), &[], &env);
    second.answers("/readyz", 200).await;
    until("everything is acknowledged", SOON, async || {
        let (_, metrics) = second.get("/metrics").await;
        let idle = format!("onceledger_deliveries_in_hand{{queue=\"{queue}\"}} 0");
        broker.waiting(&queue).await == Some(0) && metrics.contains(&idle)
    })
    .await;
    let (_, account) = second.get("/v1/accounts/0").await;
    assert!(account.contains("\"balance\":0,"), "{account}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_the_prefetch_busy_and_nothing_more_is_taken() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.open_accounts(2).await;
    service.consuming().await;
    let first = (0..100).map(|n| debit(&format!("first-{n}"), "1", 1));
    broker.publish(&service.queue, first).await;
    service.settled(&broker, 2, 2 * BALANCE - 100).await;

    service.store.lock(&[account("0")]);
    let busy = (0..500).map(|n| debit(&format!("busy-{n}"), "0", 1));
    broker.publish(&service.queue, busy).await;
    until("it says that it waits", SOON, async || {
        service
            .waits_for()
            .is_some_and(|reason| reason.contains("busy"))
    })
    .await;
    assert!(service.in_hand() <= 200, "{}", service.in_hand());
    service.store.lock(&[]);
    service.settled(&broker, 2, 2 * BALANCE - 600).await;
    assert_eq!(broker.waiting(&broker.name("dead")).await, Some(0));
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_process_takes_one_delivery_before_it_takes_many() {
    let broker = Broker::new().await;
    let queue = broker.name("events");
    broker.declare(&queue, FieldTable::default()).await;
    let bodies = (0..100).map(|n| debit(&format!("e-{n}"), "0", 1));
    broker.publish(&queue, bodies).await;
    let service = Service::consume(&broker, &broker::url(), &queue, |_| {}).await;
    // Parked, for want of the account, which is an answer like any other; but
    // not one of them is answered while the database is away.
    service.store.set_away(true);
    until("the first one", SOON, async || service.in_hand() > 0).await;
    let waiting = broker.waiting(&queue).await;
    service.store.set_away(false);
    service.open_accounts(1).await;
    service.settled(&broker, 1, BALANCE - 100).await;
    assert!(waiting >= Some(68), "{waiting:?} are left to others");
    service.end().await;
}
