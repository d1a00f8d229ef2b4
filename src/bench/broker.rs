//! The broker's part: a queue is filled, drained by a consumer that only
//! acknowledges, and published to at a steady pace.

use std::{collections::VecDeque, time::Duration};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
        ConfirmSelectOptions, ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};
use tokio::time::Instant;

use crate::amqp;

/// Messages on their way to the broker that it has not confirmed yet.
const WINDOW: usize = 1_000;

/// A broker that takes longer for one answer has failed.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A connection of the measurement's own.
#[derive(Debug)]
pub(super) struct Broker {
    connection: Connection,
}

impl Broker {
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let uri = amqp::parse(url).map_err(anyhow::Error::msg)?;
        let properties =
            ConnectionProperties::default().with_connection_name("onceledger bench".into());
        let connecting = Connection::connect_uri(uri, properties);
        let connection = tokio::time::timeout(ANSWER_MAX, connecting)
            .await
            .context("the broker does not answer")??;
        Ok(Self { connection })
    }

    /// A quorum queue, as the service declares its own.
    pub(super) async fn declare(&self, queue: &str) -> anyhow::Result<()> {
        let mut arguments = FieldTable::default();
        arguments.insert(
            "x-queue-type".into(),
            AMQPValue::LongString("quorum".into()),
        );
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let channel = self.connection.create_channel().await?;
        channel
            .queue_declare(short(queue)?, options, arguments)
            .await?;
        Ok(())
    }

    /// Deletes queues and exchanges; what is not there is passed over.
    pub(super) async fn delete(
        &self,
        queues: &[String],
        exchanges: &[String],
    ) -> anyhow::Result<()> {
        for queue in queues {
            let channel = self.connection.create_channel().await?;
            let deleted = channel.queue_delete(short(queue)?, QueueDeleteOptions::default());
            deleted.await?;
        }
        for exchange in exchanges {
            let channel = self.connection.create_channel().await?;
            let deleted =
                channel.exchange_delete(short(exchange)?, ExchangeDeleteOptions::default());
            deleted.await?;
        }
        Ok(())
    }

    /// How many messages wait in a queue.
    pub(super) async fn ready(&self, queue: &str) -> anyhow::Result<u32> {
        let channel = self.connection.create_channel().await?;
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let queue = channel
            .queue_declare(short(queue)?, options, FieldTable::default())
            .await?;
        // It did its work; one that can't be closed is closed already.
        let _ = channel.close(200, "done".into()).await;
        Ok(queue.message_count())
    }

    /// Which broker it is.
    pub(super) fn about(&self) -> String {
        "RabbitMQ, quorum queues".to_owned()
    }

    /// A channel on which messages are published with confirms.
    pub(super) async fn publisher(&self, queue: &str) -> anyhow::Result<Publisher> {
        let channel = self.connection.create_channel().await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(Publisher {
            channel,
            queue: short(queue)?,
            open: VecDeque::new(),
        })
    }

    /// Takes messages off a queue, acknowledging as the service does, and says how
    /// long it took from the first to the last.
    pub(super) async fn drain(
        &self,
        queue: &str,
        count: usize,
        prefetch: u16,
    ) -> anyhow::Result<Duration> {
        let (channel, mut consumer) = self.consume(queue, prefetch).await?;
        let every = (usize::from(prefetch) / 10).max(1);
        let (mut taken, mut unacked, mut began) = (0, 0, None);
        while taken < count {
            let next = tokio::time::timeout(ANSWER_MAX, consumer.next()).await;
            let delivery = next
                .context("the broker sends no more")?
                .context("the broker cancelled the consumer")??;
            began.get_or_insert_with(Instant::now);
            taken += 1;
            unacked += 1;
            if unacked >= every || taken == count {
                unacked = 0;
                let options = BasicAckOptions { multiple: true };
                channel.basic_ack(delivery.delivery_tag, options).await?;
            }
        }
        let took = began.map_or(Duration::ZERO, |began| began.elapsed());
        // Closed right after an ack, a quorum queue hands out again what it has.
        tokio::time::sleep(Duration::from_millis(200)).await;
        channel.close(200, "done".into()).await?;
        Ok(took)
    }

    /// A consumer on a channel of its own.
    pub(super) async fn consume(
        &self,
        queue: &str,
        prefetch: u16,
    ) -> anyhow::Result<(Channel, lapin::Consumer)> {
        let channel = self.connection.create_channel().await?;
        channel
            .basic_qos(prefetch, BasicQosOptions::default())
            .await?;
        let consumer = channel
            .basic_consume(
                short(queue)?,
                "bench".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await?;
        Ok((channel, consumer))
    }

    pub(super) async fn close(self) {
        // What is left of it goes with the process.
        let _ = self.connection.close(200, "done".into()).await;
    }
}

/// Publishes to one queue, with confirms.
#[derive(Debug)]
pub(super) struct Publisher {
    channel: Channel,
    queue: ShortString,
    open: VecDeque<PublisherConfirm>,
}

impl Publisher {
    /// Sends one message; waits only where too many are not confirmed yet.
    pub(super) async fn send(&mut self, body: &[u8]) -> anyhow::Result<()> {
        let properties = BasicProperties::default()
            // Persistent.
            .with_delivery_mode(2)
            .with_content_type("application/json".into());
        let options = BasicPublishOptions::default();
        let confirm = self
            .channel
            .basic_publish("".into(), self.queue.clone(), options, body, properties)
            .await?;
        self.open.push_back(confirm);
        while self.open.len() > WINDOW {
            self.confirmed().await?;
        }
        Ok(())
    }

    /// Waits until everything is confirmed.
    pub(super) async fn finish(&mut self) -> anyhow::Result<()> {
        while !self.open.is_empty() {
            self.confirmed().await?;
        }
        Ok(())
    }

    async fn confirmed(&mut self) -> anyhow::Result<()> {
        let Some(confirm) = self.open.pop_front() else {
            return Ok(());
        };
        let confirmation = tokio::time::timeout(ANSWER_MAX, confirm).await;
        match confirmation.context("the broker does not confirm")?? {
            Confirmation::Ack(None) => Ok(()),
            _ => bail!("the broker did not take a message"),
        }
    }
}

fn short(name: &str) -> anyhow::Result<ShortString> {
    ShortString::try_new(name).map_err(|_| anyhow::anyhow!("the name {name} is too long"))
}
