//! A broker that is not there yet, stops, dies, sounds an alarm, or throws
//! everybody out.

use std::time::Duration;

use lapin::{
    BasicProperties, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};

use super::{Service, debit, debited, end, open, until};
use crate::support::servers::OwnRabbit;

const QUEUE: &str = "onceledger.events";

/// Puts so many debits into the queue.
async fn publish(rabbit: &OwnRabbit, round: &str, count: usize) {
    let properties = ConnectionProperties::default();
    let connection = Connection::connect(&rabbit.url(), properties)
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let confirming = ConfirmSelectOptions::default();
    channel.confirm_select(confirming).await.unwrap();
    for n in 0..count {
        let body = debit(&format!("{round}{n}"), "1").to_string();
        let sending = channel.basic_publish(
            "".into(),
            QUEUE.into(),
            BasicPublishOptions::default(),
            body.as_bytes(),
            BasicProperties::default().with_delivery_mode(2),
        );
        assert!(sending.await.unwrap().await.unwrap().is_ack());
    }
    connection.close(200, "done".into()).await.unwrap();
}

async fn down(service: &Service) {
    until("told that the broker is away", async || {
        let (status, body) = service.get("/readyz").await;
        status == 503 && body.contains("\"broker\":\"down\"") && body.contains(QUEUE)
    })
    .await;
    assert_eq!(service.get("/readyz?only=database").await.0, 200);
    assert!(debited(service, "1").await.is_some());
}

async fn has(service: &Service, total: i64) {
    until("the debits", async || {
        debited(service, "1").await == Some(total)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_may_come_late_stop_die_and_sound_an_alarm() {
    let mut rabbit = OwnRabbit::prepare();
    let folder = tempfile::tempdir().unwrap();
    let amqp = rabbit.url();
    let environment = [("AMQP_URL", amqp.as_str())];
    let service = Service::start(folder.path(), &[], &environment);
    service.answers("/readyz?only=database", 200).await;
    open(&service, "1").await;
    down(&service).await;

    rabbit.start().await;
    service.answers("/readyz", 200).await;
    publish(&rabbit, "late", 20).await;
    has(&service, 20).await;

    rabbit.control(&["stop_app"]);
    down(&service).await;
    rabbit.control(&["start_app"]);
    service.answers("/readyz", 200).await;
    publish(&rabbit, "stopped", 20).await;
    has(&service, 40).await;

    rabbit.control(&["close_all_connections", "thrown out"]);
    publish(&rabbit, "thrown out", 20).await;
    has(&service, 60).await;

    // What was confirmed survives the broker's death.
    service.signal("STOP");
    publish(&rabbit, "dead", 20).await;
    rabbit.kill();
    service.signal("CONT");
    down(&service).await;
    rabbit.start().await;
    service.answers("/readyz", 200).await;
    has(&service, 80).await;

    // An alarm holds publishers back, and nobody else.
    service.signal("STOP");
    publish(&rabbit, "alarm", 20).await;
    rabbit.control(&["set_vm_memory_high_watermark", "0.000001"]);
    service.signal("CONT");
    has(&service, 100).await;
    let (status, body) = service.get("/readyz").await;
    assert_eq!(status, 200, "{body}");
    let told = service.log().matches("trying on without").count();
    assert!(told <= 5, "a line a change: {}", service.log());
    end(service, folder.path(), "sqlite://onceledger.db");

    rabbit.control(&["set_vm_memory_high_watermark", "0.4"]);
    let service = Service::start(folder.path(), &[], &environment);
    service.answers("/readyz", 200).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(debited(&service, "1").await, Some(100));
    let (_, letters) = service.get("/v1/dead-letters").await;
    assert!(letters.contains("\"items\":[]"), "{letters}");
    end(service, folder.path(), "sqlite://onceledger.db");
}
