//! What is declared, and what is there already.

use lapin::types::{AMQPValue, FieldTable};

use super::{
    broker::{self, Broker},
    service::{BALANCE, SOON, Service, debit, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_the_service_needs_is_declared() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.consuming().await;
    for queue in ["events", "dead", "commands"] {
        assert_eq!(
            broker.waiting(&broker.name(queue)).await,
            Some(0),
            "{queue}"
        );
    }
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_queue_with_other_arguments_is_used_as_it_is() {
    let broker = Broker::new().await;
    let queue = broker.name("events");
    let mut arguments = FieldTable::default();
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(3_600_000));
    broker.declare(&queue, arguments).await;
    broker.publish(&queue, [debit("early", "0", 7)]).await;
    let service = Service::start(&broker, &broker::url()).await;
    service.open_accounts(1).await;
    until("the debit", SOON, async || {
        service.balance("0").await == BALANCE - 7
    })
    .await;
    service.consuming().await;
    service.drained(&broker).await;
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_declare_false_nothing_is_declared() {
    let broker = Broker::new().await;
    let queue = broker.name("events");
    broker.declare(&queue, FieldTable::default()).await;
    let service = Service::consume(&broker, &broker::url(), &queue, |config| {
        config.queues[0].declare = Some(false);
    })
    .await;
    service.consuming().await;
    for queue in ["dead", "commands"] {
        assert_eq!(broker.waiting(&broker.name(queue)).await, None, "{queue}");
    }
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_queue_is_declared_where_the_settings_say_so() {
    let broker = Broker::new().await;
    let queue = broker.name("theirs");
    let service = Service::consume(&broker, &broker::url(), &queue, |config| {
        config.queues[0].declare = Some(true);
    })
    .await;
    service.consuming().await;
    assert_eq!(broker.waiting(&queue).await, Some(0));
    service.end().await;
}
