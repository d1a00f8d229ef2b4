//! The consumer that this service replaces: one message at a time, one
//! transaction an event, acknowledged after the commit.

use std::time::Duration;

use anyhow::Context;
use futures_util::StreamExt;
use lapin::options::BasicAckOptions;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    books::{Books, Entry},
    broker::Broker,
    service::Told,
};

const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What it reads of a message.
#[derive(Deserialize)]
struct Message<'a> {
    event_id: &'a str,
}

/// Consumes messages whose entries were made before, and says how long it took
/// from the first to the last.
pub(super) async fn consume(
    broker: &Broker,
    queue: &str,
    books: &Books,
    entries: Vec<Entry>,
    told: Option<Told>,
) -> anyhow::Result<Duration> {
    let (channel, mut consumer) = broker.consume(queue, 1).await?;
    let count = entries.len();
    let mut entries: FxHashMap<String, Entry> = entries
        .into_iter()
        .map(|entry| (entry.event_id.clone(), entry))
        .collect();
    let mut began = None;
    for _ in 0..count {
        let next = tokio::time::timeout(SILENCE_MAX, consumer.next()).await;
        let delivery = next
            .context("the broker sends no more")?
            .context("the broker cancelled the consumer")??;
        began.get_or_insert_with(Instant::now);
        let message: Message<'_> = serde_json::from_slice(&delivery.data)?;
        let entry = entries
            .remove(message.event_id)
            .context("a message of somebody else")?;
        books.write_one(&entry).await?;
        if let Some(told) = &told {
            told(&entry.event_id);
        }
        let options = BasicAckOptions::default();
        channel.basic_ack(delivery.delivery_tag, options).await?;
    }
    let took = began.map_or(Duration::ZERO, |began| began.elapsed());
    tokio::time::sleep(Duration::from_millis(200)).await;
    channel.close(200, "done".into()).await?;
    Ok(took)
}
