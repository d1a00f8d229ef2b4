//! The whole program with a real broker: told to stop in the middle, started
//! again, and nothing is lost or done twice.

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicPublishOptions, ConfirmSelectOptions, ExchangeDeleteOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::FieldTable,
};
use onceledger::clock;
use serde_json::json;

use super::program::{Service, run};

const EVENTS: i64 = 3_000;

#[expect(
    clippy::disallowed_methods,
    reason = "where the broker is, only the environment knows"
)]
fn url() -> String {
    std::env::var("ONCELEDGER_TEST_AMQP").unwrap_or_else(|_| {
        panic!(
            "ONCELEDGER_TEST_AMQP must name a broker, e.g. amqp://guest:guest@127.0.0.1:5672/%2f"
        )
    })
}

async fn publish(channel: &Channel, queue: &str) {
    let mut confirms = Vec::new();
    for n in 0..EVENTS {
        let body = json!({"event_id": format!("e{n}"), "account_id": "1", "amount": 1}).to_string();
        let properties = BasicProperties::default().with_delivery_mode(2);
        let options = BasicPublishOptions::default();
        let sending = channel.basic_publish(
            "".into(),
            queue.into(),
            options,
            body.as_bytes(),
            properties,
        );
        confirms.push(sending.await.unwrap());
    }
    for confirm in confirms {
        assert!(confirm.await.unwrap().is_ack());
    }
}

async fn version(service: &Service) -> i64 {
    let (status, body) = service.get("/v1/accounts/1").await;
    assert_eq!(status, 200, "{body}");
    let account: serde_json::Value = serde_json::from_str(&body).unwrap();
    account["version"].as_i64().unwrap()
}

async fn waiting(channel: &Channel, queue: &str) -> u32 {
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let found = channel.queue_declare(queue.into(), options, FieldTable::default());
    found.await.unwrap().message_count()
}

#[tokio::test]
async fn a_stop_in_the_middle_loses_nothing_and_nothing_happens_twice() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = format!("test-{}", clock::new_id().simple());
    let queue = format!("{prefix}.events");
    let url = url();
    // Small bites, so that the signal meets a service at work.
    let env = [
        ("AMQP_URL", url.as_str()),
        ("ONCELEDGER_AMQP_PREFIX", &prefix),
        ("ONCELEDGER_BATCH_MAX", "20"),
    ];
    let mut service = Service::start(folder.path(), &[], &env);
    service.answers("/readyz", 200).await;
    let account = json!({"id": "1", "currency": "EUR", "opening_balance": EVENTS + 500});
    assert_eq!(service.post("/v1/accounts", &account).await.0, 201);

    let connection = Connection::connect(&url, ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .unwrap();
    publish(&channel, &queue).await;
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    assert!(
        !service.log().contains("did not stop in time"),
        "{}",
        service.log()
    );

    let mut service = Service::start(folder.path(), &[], &env);
    service.answers("/readyz", 200).await;
    for _ in 0..1_500 {
        if version(&service).await > EVENTS {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(version(&service).await, EVENTS + 1, "{}", service.log());
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    assert_eq!(
        waiting(&channel, &queue).await,
        0,
        "everything was acknowledged"
    );
    let verified = run(folder.path(), &["verify"], &[]);
    assert_eq!(verified.code, Some(0), "{verified:?}");

    for last in ["events", "dead", "commands"] {
        let queue = format!("{prefix}.{last}");
        channel
            .queue_delete(queue.into(), QueueDeleteOptions::default())
            .await
            .unwrap();
    }
    for last in ["events", "dead"] {
        let exchange = format!("{prefix}.{last}");
        channel
            .exchange_delete(exchange.into(), ExchangeDeleteOptions::default())
            .await
            .unwrap();
    }
}
