//! A producer as README wants one: publisher confirms, and what was not confirmed
//! is sent again under the same identity. One task owns one confirm channel.

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use anyhow::{Context, ensure};
use lapin::{
    Channel, Confirmation, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use tokio::time::{sleep, timeout};

use crate::world::{World, count};

/// Longer than the broker needs; in an alarm it confirms nothing, and the same
/// is sent again on a new connection.
const CONFIRM_MAX: Duration = Duration::from_secs(15);
const CONNECT_MAX: Duration = Duration::from_secs(10);
const CLOSE_MAX: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_millis(20);
const AGAIN: Duration = Duration::from_millis(500);

/// Runs until everything is made and confirmed.
pub(crate) async fn run(world: Arc<World>) {
    while !is_done(&world) {
        let Ok((connection, channel)) = connect(&world.broker).await else {
            sleep(AGAIN).await;
            continue;
        };
        let mut works = true;
        while works && !is_done(&world) {
            works = publish_due(&world, &channel).await;
        }
        // On a connection that the broker holds back also this would wait for ever.
        let _ = timeout(CLOSE_MAX, connection.close(200, "done".into())).await;
    }
}

fn is_done(world: &World) -> bool {
    world.all_made() && world.book.waiting() == 0
}

async fn connect(url: &str) -> anyhow::Result<(Connection, Channel)> {
    let connecting = async {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        anyhow::Ok((connection, channel))
    };
    timeout(CONNECT_MAX, connecting)
        .await
        .context("the broker does not answer")?
}

/// Publishes what is due; false: the channel is of no use any more.
async fn publish_due(world: &World, channel: &Channel) -> bool {
    let numbers = world.book.take_due(world.all_made());
    if numbers.is_empty() {
        sleep(IDLE).await;
        return channel.status().connected();
    }
    let mut left = numbers.clone();
    let done = timeout(CONFIRM_MAX, publish(world, channel, &numbers, &mut left)).await;
    if !left.is_empty() {
        sleep(AGAIN).await;
    }
    for number in left {
        count(&world.figures.unconfirmed);
        world.book.publish_in(Duration::ZERO, number);
    }
    matches!(done, Ok(Ok(())))
}

/// Publishes a batch; takes out of `left` what the broker has for good.
async fn publish(
    world: &World,
    channel: &Channel,
    numbers: &[u32],
    left: &mut Vec<u32>,
) -> anyhow::Result<()> {
    let mut confirms = Vec::with_capacity(numbers.len());
    for number in numbers {
        let (sent, first) = world
            .book
            .get(*number)
            .context("a number that was never noted")?;
        let (body, properties) = sent.publication(*number, first);
        let exchange = format!("{}.events", world.prefix);
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let key = sent.account.id();
        let publishing =
            channel.basic_publish(exchange.into(), key.into(), options, &body, properties);
        confirms.push((*number, publishing.await?));
        world.figures.published.fetch_add(1, Ordering::Relaxed);
    }
    let mut confirmed = Vec::with_capacity(confirms.len());
    for (number, confirm) in confirms {
        match confirm.await? {
            Confirmation::Ack(None) => confirmed.push(number),
            // Which of a batch it was that came back is not certain: none counts.
            Confirmation::Ack(Some(_)) => anyhow::bail!("a message was returned"),
            Confirmation::Nack(_) | Confirmation::NotRequested => {}
        }
    }
    ensure!(
        confirmed.len() <= left.len(),
        "more was confirmed than sent"
    );
    left.retain(|number| !confirmed.contains(number));
    for number in confirmed {
        world.book.confirm(number);
    }
    Ok(())
}
