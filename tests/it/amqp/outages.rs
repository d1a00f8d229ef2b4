//! The queue, the connection or the database goes away and comes back.

use std::time::Duration;

use lapin::types::{AMQPValue, FieldTable};
use onceledger::amqp::ConnectionState;

use super::{
    broker::{self, Broker},
    proxy::Proxy,
    service::{BALANCE, DATABASE_AWAY_MAX, SOON, Service, debit, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_queue_is_told_at_once_and_consumed_again_when_it_is_back() {
    let broker = Broker::new().await;
    let queue = broker.name("theirs");
    broker.declare(&queue, quorum()).await;
    let service = Service::consume(&broker, &broker::url(), &queue, |_| {}).await;
    service.open_accounts(1).await;
    service.consuming().await;
    broker.publish(&queue, [debit("before", "0", 1)]).await;
    service.settled(&broker, 1, BALANCE - 1).await;

    broker.delete(&queue).await;
    until("not ready", Duration::from_secs(5), async || {
        !service.status.ready()
    })
    .await;
    assert!(service.waits_for().is_some());

    broker.declare(&queue, quorum()).await;
    broker.publish(&queue, [debit("after", "0", 2)]).await;
    until("the debit", SOON, async || {
        service.balance("0").await == BALANCE - 3
    })
    .await;
    service.consuming().await;
    service.drained(&broker).await;
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_services_own_queue_is_declared_again_with_its_binding() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.consuming().await;
    broker.delete(&service.queue).await;
    until("it is back", SOON, async || {
        broker.waiting(&service.queue).await.is_some()
    })
    .await;
    service.consuming().await;
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_missing_at_the_start_is_waited_for() {
    let broker = Broker::new().await;
    let queue = broker.name("theirs");
    let service = Service::consume(&broker, &broker::url(), &queue, |_| {}).await;
    until("it says what is missing", SOON, async || {
        service
            .waits_for()
            .is_some_and(|reason| reason.contains("no queue"))
    })
    .await;
    broker.declare(&queue, quorum()).await;
    service.consuming().await;
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_cost_duplicates_and_nothing_else() {
    let broker = Broker::new().await;
    let proxy = Proxy::new().await;
    let service = Service::start(&broker, &proxy.url()).await;
    service.open_accounts(20).await;
    service.consuming().await;
    for round in 0..3 {
        let bodies = (0..2_000).map(|n| debit(&format!("{round}-{n}"), &(n % 20).to_string(), 1));
        broker.publish(&service.queue, bodies).await;
        until("half of it", SOON, async || {
            service.total(20).await < 20 * BALANCE - round * 2_000 - 500
        })
        .await;
        proxy.cut();
    }
    service.settled(&broker, 20, 20 * BALANCE - 6_000).await;
    service.consuming().await;
    assert_eq!(broker.waiting(&broker.name("dead")).await, Some(0));
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_away_is_told_and_waited_for() {
    let broker = Broker::new().await;
    let proxy = Proxy::new().await;
    proxy.close();
    let service = Service::start(&broker, &proxy.url()).await;
    service.open_accounts(1).await;
    assert!(!service.status.ready());
    proxy.open();
    service.consuming().await;
    until("seen empty", SOON, async || {
        service.status.queues_seen_empty()
    })
    .await;
    proxy.close();
    until("told", Duration::from_secs(5), async || {
        let (purpose, state) = service.status.connections().remove(0);
        purpose == "consume" && matches!(state, ConnectionState::Away(_)) && !service.status.ready()
    })
    .await;
    assert!(!service.status.queues_seen_empty());
    broker
        .publish(&service.queue, [debit("meanwhile", "0", 1)])
        .await;
    proxy.open();
    until("the debit", SOON * 2, async || {
        service.balance("0").await == BALANCE - 1
    })
    .await;
    service.consuming().await;
    until("seen empty again", SOON, async || {
        service.status.queues_seen_empty()
    })
    .await;
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_nothing_is_acknowledged_and_nothing_given_back() {
    // A prefetch of 200 stays in hand.
    database_away(DATABASE_AWAY_MAX / 2, 301).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_outage_of_the_database_costs_a_message_one_delivery() {
    database_away(DATABASE_AWAY_MAX * 2, 501).await;
}

async fn database_away(outage: Duration, waiting_then: u32) {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.open_accounts(20).await;
    service.consuming().await;
    let bodies = (0..100).map(|n| debit(&format!("a-{n}"), &(n % 20).to_string(), 1));
    broker.publish(&service.queue, bodies).await;
    service.settled(&broker, 20, 20 * BALANCE - 100).await;

    service.store.set_away(true);
    let bodies = (0..500).map(|n| debit(&format!("b-{n}"), &(n % 20).to_string(), 1));
    let bodies = bodies.chain(["no event".to_owned()]);
    broker.publish(&service.queue, bodies).await;
    until("not ready", Duration::from_secs(5), async || {
        !service.status.ready()
    })
    .await;
    let reason = service.waits_for().unwrap_or_default();
    assert!(reason.contains("database"), "{reason}");
    tokio::time::sleep(outage).await;
    assert_eq!(service.total(20).await, 20 * BALANCE - 100);
    assert_eq!(
        broker.waiting(&service.queue).await,
        Some(waiting_then),
        "held back, or given back once"
    );

    service.store.set_away(false);
    service.settled(&broker, 20, 20 * BALANCE - 600).await;
    service.consuming().await;
    assert_eq!(service.letters().await.len(), 1);
    assert_eq!(broker.waiting(&broker.name("dead")).await, Some(0));
    service.end().await;
}

fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("quorum".into()),
    );
    arguments
}
