//! Told to stop under load.

use std::time::{Duration, Instant};

use super::{
    broker::{self, Broker},
    service::{BALANCE, SOON, Service, debit, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_under_load_it_acknowledges_what_it_recorded_and_loses_nothing() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.open_accounts(20).await;
    service.consuming().await;
    let bodies = (0..8_000).map(|n| debit(&format!("e-{n}"), &(n % 20).to_string(), 1));
    broker.publish(&service.queue, bodies).await;
    until("a part of it", SOON, async || {
        service.total(20).await < 20 * BALANCE - 500
    })
    .await;
    let began = Instant::now();
    service.stop().await;
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(!service.status.ready());
    let applied = 20 * BALANCE - service.total(20).await;
    // What was in hand is given back a moment after the channel's end.
    until("each is acknowledged or still there", SOON, async || {
        applied + i64::from(broker.waiting(&service.queue).await.unwrap()) >= 8_000
    })
    .await;
    // The broker may miss the last acks, where it is slow: a prefetch at most.
    let left = i64::from(broker.waiting(&service.queue).await.unwrap());
    assert!(applied + left <= 8_200, "{applied} applied, {left} left");
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_stops_also_while_the_broker_and_the_database_are_away() {
    let broker = Broker::new().await;
    let proxy = super::proxy::Proxy::new().await;
    let service = Service::start(&broker, &proxy.url()).await;
    service.open_accounts(1).await;
    service.consuming().await;
    service.store.set_away(true);
    broker.publish(&service.queue, [debit("e", "0", 1)]).await;
    until("not ready", SOON, async || !service.status.ready()).await;
    proxy.close();
    service.stop().await;
    assert_eq!(service.balance("0").await, BALANCE);
    until("it is given back", SOON, async || {
        broker.waiting(&service.queue).await == Some(1)
    })
    .await;
    service.end().await;
}
