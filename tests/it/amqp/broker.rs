//! The broker as a producer and an operator use it, with names of its own for
//! each test that are deleted when the test is over, also when it failed.

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, PublisherConfirm,
    options::{
        BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions,
        ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::FieldTable,
};
use onceledger::clock;

const BROKER: &str = "ONCELEDGER_TEST_AMQP";

/// A producer's and operator's connection.
pub(crate) struct Broker {
    /// First part of every name of this test.
    pub(crate) prefix: String,
    connection: Connection,
    publishing: Channel,
}

/// Where the broker is.
#[expect(
    clippy::disallowed_methods,
    reason = "where the broker is, only the environment knows"
)]
pub(crate) fn url() -> String {
    std::env::var(BROKER).unwrap_or_else(|_| {
        panic!("{BROKER} must name a broker, e.g. amqp://guest:guest@127.0.0.1:5672/%2f")
    })
}

impl Broker {
    /// A broker with nothing of this test in it yet.
    pub(crate) async fn new() -> Self {
        let connection = connect().await;
        let publishing = connection.create_channel().await.unwrap();
        publishing
            .confirm_select(ConfirmSelectOptions::default())
            .await
            .unwrap();
        Self {
            prefix: format!("test-{}", clock::new_id().simple()),
            connection,
            publishing,
        }
    }

    /// A name of this test.
    pub(crate) fn name(&self, last: &str) -> String {
        format!("{}.{last}", self.prefix)
    }

    /// Declares a queue the way somebody else would.
    pub(crate) async fn declare(&self, queue: &str, arguments: FieldTable) {
        let channel = self.connection.create_channel().await.unwrap();
        channel
            .queue_declare(queue.into(), QueueDeclareOptions::durable(), arguments)
            .await
            .unwrap();
        channel.close(200, "done".into()).await.unwrap();
    }

    /// Deletes a queue.
    pub(crate) async fn delete(&self, queue: &str) {
        let channel = self.connection.create_channel().await.unwrap();
        channel
            .queue_delete(queue.into(), QueueDeleteOptions::default())
            .await
            .unwrap();
        channel.close(200, "done".into()).await.unwrap();
    }

    /// Messages in a queue that nobody holds; `None`: no such queue.
    pub(crate) async fn waiting(&self, queue: &str) -> Option<u32> {
        let channel = self.connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let found = channel
            .queue_declare(queue.into(), options, FieldTable::default())
            .await;
        let count = found.ok()?.message_count();
        channel.close(200, "done".into()).await.unwrap();
        Some(count)
    }

    /// Publishes to a queue and waits until the broker has all of it. What it
    /// refuses (a quorum queue may while it elects its leader) is sent again, as
    /// a producer would.
    pub(crate) async fn publish(&self, queue: &str, bodies: impl IntoIterator<Item = String>) {
        let mut waiting: Vec<String> = bodies.into_iter().collect();
        for _ in 0..100 {
            let mut confirms = Vec::new();
            for body in waiting {
                let confirm = self.send(queue, &body).await;
                confirms.push((body, confirm));
            }
            waiting = Vec::new();
            for (body, confirm) in confirms {
                if !confirm.await.unwrap().is_ack() {
                    waiting.push(body);
                }
            }
            if waiting.is_empty() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{queue} never took {} messages", waiting.len());
    }

    async fn send(&self, queue: &str, body: &str) -> PublisherConfirm {
        let headers = FieldTable::default();
        self.put("", queue, body.as_bytes(), headers).await
    }

    /// Publishes one message and waits until the broker has it.
    pub(crate) async fn post(&self, exchange: &str, key: &str, body: &[u8], headers: FieldTable) {
        for _ in 0..100 {
            let confirm = self.put(exchange, key, body, headers.clone()).await;
            if confirm.await.unwrap().is_ack() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{exchange} never took a message for {key}");
    }

    async fn put(
        &self,
        exchange: &str,
        key: &str,
        body: &[u8],
        headers: FieldTable,
    ) -> PublisherConfirm {
        let properties = BasicProperties::default()
            .with_delivery_mode(2)
            .with_headers(headers);
        let options = BasicPublishOptions::default();
        self.publishing
            .basic_publish(exchange.into(), key.into(), options, body, properties)
            .await
            .unwrap()
    }

    /// Takes a message as a consumer that refuses it: the broker sets it aside.
    pub(crate) async fn refuse(&self, queue: &str) {
        let channel = self.connection.create_channel().await.unwrap();
        for _ in 0..250 {
            let options = BasicGetOptions::default();
            if let Some(message) = channel.basic_get(queue.into(), options).await.unwrap() {
                let options = BasicRejectOptions { requeue: false };
                message.reject(options).await.unwrap();
                channel.close(200, "done".into()).await.unwrap();
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("nothing is in {queue}");
    }
}

async fn connect() -> Connection {
    Connection::connect(&url(), ConnectionProperties::default())
        .await
        .unwrap()
}

impl Drop for Broker {
    fn drop(&mut self) {
        let prefix = self.prefix.clone();
        // The test's own runtime may be ending; this one is nobody else's.
        let cleaned = std::thread::spawn(move || {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap()
                .block_on(clean(&prefix));
        })
        .join();
        if cleaned.is_err() {
            eprintln!(
                "queues and exchanges of {} could not be deleted",
                self.prefix
            );
        }
    }
}

async fn clean(prefix: &str) {
    let connection = connect().await;
    let channel = connection.create_channel().await.unwrap();
    for last in ["events", "dead", "commands", "theirs"] {
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
    connection.close(200, "done".into()).await.unwrap();
}
