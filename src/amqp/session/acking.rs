//! When and how deliveries are acknowledged, and the change of prefetch.
//!
//! What must not live here: what is done and what is not ([`crate::amqp::acks`]).

use std::time::Duration;

use futures_util::{FutureExt, future::BoxFuture};
use lapin::options::BasicAckOptions;
use tokio::time::Instant;

use super::{End, Session, failed};

/// How long a done delivery waits for others to be acknowledged with it.
const ACK_LINGER: Duration = Duration::from_millis(5);

/// How long an open delivery may hold up the acks of younger ones.
const HOLD_UP_MAX: Duration = Duration::from_millis(100);

/// Acks in multiples of a tenth of the prefetch are enough for the broker.
const ACK_SHARE: usize = 10;

impl Session<'_> {
    pub(super) fn switched(
        &mut self,
        result: Result<lapin::Consumer, lapin::Error>,
    ) -> Option<End> {
        match result {
            Ok(stream) if self.subscription.stream.is_some() => self.next_stream = Some(stream),
            Ok(stream) => self.subscription.stream = Some(stream),
            Err(error) => return Some(failed(error)),
        }
        None
    }

    /// One ack is on its way at a time: what is done meanwhile goes with the next.
    pub(super) fn ack(&mut self, now: Instant) {
        if let Some(up_to) = self.acks.ack_up_to() {
            self.ready_since = None;
            self.acked_at = Some(now);
            self.acking = Some(self.acks_of(vec![up_to], true));
        } else if self.acks.behind() > 0 {
            self.passed_at = now;
            self.acked_at = Some(now);
            let numbers = self.acks.ack_behind();
            self.acking = Some(self.acks_of(numbers, false));
        }
    }

    pub(super) fn acks_of(
        &self,
        numbers: Vec<u64>,
        multiple: bool,
    ) -> BoxFuture<'static, Result<(), lapin::Error>> {
        let channel = self.subscription.channel.clone();
        async move {
            let options = BasicAckOptions { multiple };
            let acks = numbers
                .into_iter()
                .map(|number| channel.basic_ack(number, options));
            // They go out one after the other, and are waited for together.
            futures_util::future::try_join_all(acks).await.map(drop)
        }
        .boxed()
    }

    pub(super) fn ack_due(&mut self, now: Instant) -> Option<Instant> {
        let enough = (usize::from(self.subscription.prefetch) / ACK_SHARE).max(1);
        let front = self.acks.oldest_open().map_or(0, |(number, _)| number);
        if front != self.front.0 || self.acks.behind() == 0 {
            self.front = (front, now);
        }
        if self.acks.ready() > 0 {
            let since = *self.ready_since.get_or_insert(now);
            return Some(if self.acks.ready() >= enough {
                now
            } else {
                since + ACK_LINGER
            });
        }
        let since = if self.acks.behind() >= enough {
            self.front.1
        } else {
            self.front.1.max(self.passed_at)
        };
        (self.acks.behind() > 0).then(|| since + HOLD_UP_MAX)
    }

    /// Subscribes again where another prefetch is wanted.
    pub(super) fn tend_appetite(&mut self) {
        if self.switching.is_some() || self.next_stream.is_some() {
            return;
        }
        let present = self.subscription.prefetch;
        let Some(prefetch) = self.consumer.appetite.change_from(present) else {
            return;
        };
        let queue = self.consumer.queue.clone();
        tracing::debug!(
            queue = &*queue,
            prefetch,
            "subscribing again with another prefetch"
        );
        if let Ok(again) = self.subscription.again(&queue, prefetch) {
            self.subscription.prefetch = prefetch;
            self.switching = Some(again.boxed());
        }
    }
}
