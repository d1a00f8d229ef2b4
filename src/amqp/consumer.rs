//! One queue's consumer: subscribes, works a session off, and subscribes again,
//! until told to stop.
//!
//! What must not live here: what happens to a delivery ([`super::session`]).

use std::{sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use lapin::{
    Connection,
    options::{BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Workshop,
    appetite::Appetite,
    connection::Link,
    reader::Reader,
    session::{End, Report, Session, Subscription},
    status::{QueueCell, QueueState},
    topology::{self, Topology},
};
use crate::store::StoreError;

/// Subscribing has failed if the broker takes longer.
const SUBSCRIBE_MAX: Duration = Duration::from_secs(20);

/// A session that lasted this long was a good one: the next delay is short.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// A queue that need not be there is looked for so often: each look that finds none
/// leaves an error in the broker's log.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A ping of the database has failed if it takes longer.
pub(super) const PING_MAX: Duration = Duration::from_secs(5);

/// Consumes one queue.
pub(super) struct Consumer {
    /// The queue's name at the broker.
    pub(super) queue: Arc<str>,
    pub(super) reader: Reader,
    pub(super) workshop: Workshop,
    pub(super) cell: Arc<QueueCell>,
    /// Learned over the whole life of the process: only a fresh one starts slowly.
    pub(super) appetite: Appetite,
    /// Answers of the lanes, of whatever session.
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    pub(super) reporter: mpsc::UnboundedSender<Report>,
    topology: Arc<Topology>,
    generation: u64,
}

impl Consumer {
    pub(super) fn new(
        reader: Reader,
        prefetch: u16,
        workshop: Workshop,
        topology: Arc<Topology>,
        cell: Arc<QueueCell>,
    ) -> Self {
        let (reporter, reports) = mpsc::unbounded_channel();
        Self {
            queue: cell.name.clone(),
            reader,
            workshop,
            cell,
            appetite: Appetite::new(prefetch),
            reports,
            reporter,
            topology,
            generation: 0,
        }
    }

    /// Ends only when told to stop.
    pub(super) async fn run(mut self, mut link: Link, stop: CancellationToken) {
        let mut delays = delays();
        while let Some(Some(connection)) = stop.run_until_cancelled(link.up()).await {
            let began = Instant::now();
            let end = self.work(&connection, &stop).await;
            self.cell.set_in_hand(0);
            self.cell.interrupted();
            match end {
                End::Stopped => break,
                End::DatabaseAway(error) => {
                    self.wait(format!(
                        "the database is away, the channel is closed: {error}"
                    ));
                    self.await_database(&stop).await;
                    delays = self::delays();
                    continue;
                }
                End::Cancelled => self.wait(
                    "the broker cancelled the consumer: the queue was deleted, or lost its leader"
                        .to_owned(),
                ),
                End::HeldTooLong => self.wait(
                    "a delivery was held so long that the broker would close the channel"
                        .to_owned(),
                ),
                End::Failed(reason) => self.wait(reason),
            }
            if began.elapsed() > STABLE_AFTER {
                delays = self::delays();
            }
            let delay = match self.cell.needed {
                true => delays.next().unwrap_or(STABLE_AFTER),
                false => LOOK_AGAIN_AFTER,
            };
            stop.run_until_cancelled(tokio::time::sleep(delay)).await;
        }
        self.cell.stopping();
    }

    fn wait(&self, reason: String) {
        self.cell.set(QueueState::Waiting(reason));
    }

    /// One session, from subscribing to its end.
    async fn work(&mut self, connection: &Arc<Connection>, stop: &CancellationToken) -> End {
        self.generation += 1;
        let subscribing = tokio::time::timeout(SUBSCRIBE_MAX, self.subscribe(connection));
        let subscription = match stop.run_until_cancelled(subscribing).await {
            None => return End::Stopped,
            Some(Err(_)) => return End::Failed("the broker does not answer".to_owned()),
            Some(Ok(Err(reason))) => return End::Failed(reason),
            Some(Ok(Ok(subscription))) => subscription,
        };
        self.cell.interrupted();
        let channel = subscription.channel.clone();
        let end = Session::new(self, subscription).run(stop).await;
        // Whatever is not acknowledged goes back to the queue with this, once.
        let closing = topology::close(&channel);
        let _ = tokio::time::timeout(Duration::from_millis(500), closing).await;
        end
    }

    async fn subscribe(&self, connection: &Connection) -> Result<Subscription, String> {
        let queue = &*self.queue;
        self.topology.ensure(connection, queue).await?;
        let channel = connection.create_channel().await.map_err(text)?;
        let mut subscription = Subscription {
            generation: self.generation,
            channel,
            stream: None,
            prefetch: 0,
            tags: 0,
        };
        let prefetch = self.appetite.wanted();
        let stream = subscription.again(queue, prefetch)?.await.map_err(text)?;
        subscription.stream = Some(stream);
        subscription.prefetch = prefetch;
        Ok(subscription)
    }

    /// After the channel was closed for it: nothing is subscribed before the
    /// database answers, so that the outage costs no message another delivery.
    async fn await_database(&self, stop: &CancellationToken) {
        let mut delays = delays();
        loop {
            let delay = delays.next().unwrap_or(STABLE_AFTER);
            let waited = stop.run_until_cancelled(tokio::time::sleep(delay)).await;
            if waited.is_none() || ping(&self.workshop).await.is_ok() {
                return;
            }
        }
    }
}

impl Subscription {
    /// Subscribes with another prefetch. `basic.qos` holds for consumers made
    /// after it (<https://www.rabbitmq.com/docs/consumer-prefetch>), so the former
    /// subscription is cancelled; what it delivered stays ours on this channel.
    pub(super) fn again(
        &mut self,
        queue: &str,
        prefetch: u16,
    ) -> Result<impl Future<Output = Result<lapin::Consumer, lapin::Error>> + Send + 'static, String>
    {
        let queue = topology::short(queue).map_err(text)?;
        let former = (self.tags > 0).then(|| tag(self.generation, self.tags));
        self.tags += 1;
        let tag = tag(self.generation, self.tags);
        let channel = self.channel.clone();
        Ok(async move {
            if let Some(former) = former {
                channel
                    .basic_cancel(former.into(), Default::default())
                    .await?;
            }
            // Per consumer: quorum queues know no other, and none at all would
            // fetch the whole queue into memory.
            channel
                .basic_qos(prefetch, BasicQosOptions { global: false })
                .await?;
            // Acks by hand (`no_ack` false); others may consume the same queue.
            let options = BasicConsumeOptions::default();
            channel
                .basic_consume(queue, tag.into(), options, FieldTable::default())
                .await
        })
    }
}

/// A consumer tag; it need only be unique on its channel.
pub(super) fn tag(generation: u64, count: u32) -> String {
    format!("onceledger-{generation}-{count}")
}

/// Asks the database whether it is there, with a limit.
pub(super) async fn ping(workshop: &Workshop) -> Result<(), StoreError> {
    match tokio::time::timeout(PING_MAX, workshop.store.ping()).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::Away("no answer to a ping".to_owned())),
    }
}

fn text(error: lapin::Error) -> String {
    error.to_string()
}

/// Delays between subscriptions: a fifth of a second, growing to two, with
/// jitter, without a last one.
fn delays() -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(2))
        .without_max_times()
        .with_jitter()
        .build()
}
