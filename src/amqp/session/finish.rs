//! The end of a session that was told to stop.
//!
//! What must not live here: any other end; those acknowledge nothing more.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::{End, Session, Slot, failed, finished};
use crate::amqp::{consumer, topology};

/// How long a session that was told to stop waits for what is in the lanes: a little
/// less than the service gives its consumers, so that it ends by itself.
const FINISH_MAX: Duration = Duration::from_millis(4_500);

/// How long the channel stays open after the last ack. A quorum queue handles
/// acks at low priority, and the news of a channel's end overtakes them: closed
/// at once, up to a prefetch of acknowledged messages was handed out again
/// (measured, RabbitMQ 3.10.8; no answer on the channel tells that they are in).
/// Copies do no harm; they only cost work and a count of the delivery limit.
const ACKS_SETTLE: Duration = Duration::from_millis(500);

impl Session<'_> {
    /// Told to stop: takes no more, waits for what is in the lanes, acknowledges
    /// it. What is held back or unread goes back to the queue with the channel.
    pub(super) async fn finish(mut self) -> End {
        let deadline = Instant::now() + FINISH_MAX;
        let queue = self.consumer.queue.clone();
        self.consumer.cell.stopping();
        let channel = self.subscription.channel.clone();
        let tag = consumer::tag(self.subscription.generation, self.subscription.tags);
        let mut cancelling: Slot<()> = Some(
            async move {
                if let Ok(tag) = topology::short(&tag) {
                    // A channel that failed delivers nothing more either.
                    let _ = channel.basic_cancel(tag, Default::default()).await;
                }
            }
            .boxed(),
        );
        while !self.finished(&cancelling) {
            if self.acking.is_none() {
                self.ack(Instant::now());
            }
            if self.setting_aside.is_none() && !self.letters.is_empty() {
                self.set_aside_some();
            }
            let end = tokio::select! {
                () = tokio::time::sleep_until(deadline) => {
                    let left = self.in_lanes;
                    tracing::warn!(queue = &*queue, left, "stopping before the lanes have answered");
                    break;
                }
                () = finished(&mut cancelling) => None,
                Some(report) = self.consumer.reports.recv() => self.hear_all(report),
                result = finished(&mut self.acking) => result.err().map(failed),
                () = finished(&mut self.sending) => None,
                (letters, result) = finished(&mut self.setting_aside) => self.set_aside(letters, result),
            };
            if end.is_some() {
                // The channel is gone, and all that is unacknowledged went back.
                break;
            }
        }
        if let Some(acked_at) = self.acked_at {
            tokio::time::sleep_until((acked_at + ACKS_SETTLE).min(deadline)).await;
        }
        self.consumer.cell.set_in_hand(0);
        End::Stopped
    }

    pub(super) fn finished(&self, cancelling: &Slot<()>) -> bool {
        cancelling.is_none()
            && self.in_lanes == 0
            && self.sending.is_none()
            && self.acking.is_none()
            && self.setting_aside.is_none()
            && self.letters.is_empty()
            && self.acks.ready() + self.acks.behind() == 0
    }
}
