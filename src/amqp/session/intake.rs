//! Deliveries on their way in: read, and brought to the lane of their account.
//!
//! What must not live here: what becomes of them.

use futures_util::FutureExt;
use lapin::message::Delivery;
use tokio::time::Instant;

use super::{End, Report, Session, failed, next};
use crate::{
    amqp::{
        acks::Tag,
        delivery::handed_out_before,
        held::{Errand, Task},
    },
    domain::Work,
    lane::Reply,
    ledger::Failure,
};

/// Most deliveries taken in one go.
const TAKE_MAX: usize = 256;

impl Session<'_> {
    /// Takes what has arrived, without waiting for each.
    pub(super) fn take_all(
        &mut self,
        first: Option<Result<Delivery, lapin::Error>>,
    ) -> Option<End> {
        let now = Instant::now();
        let mut arrived = Some(first);
        let mut taken = 0;
        while let Some(delivery) = arrived.take() {
            match delivery {
                Some(Ok(delivery)) => self.take(&delivery, now),
                Some(Err(error)) => return Some(failed(error)),
                None => return self.stream_ended(),
            }
            taken += 1;
            // What is fetched is taken: nothing may stand between the two.
            if taken < TAKE_MAX && self.may_take() {
                arrived = next(&mut self.subscription.stream).now_or_never();
            }
        }
        None
    }

    pub(super) fn stream_ended(&mut self) -> Option<End> {
        self.subscription.stream = self.next_stream.take();
        if self.subscription.stream.is_some() || self.switching.is_some() {
            return None;
        }
        Some(if self.subscription.channel.status().connected() {
            End::Cancelled
        } else {
            End::Failed("the broker closed the channel".to_owned())
        })
    }

    pub(super) fn take(&mut self, delivery: &Delivery, now: Instant) {
        let before = handed_out_before(delivery);
        self.consumer.appetite.saw(delivery.data.len(), before);
        let lost = self.acks.lost(delivery.delivery_tag);
        if lost > 0 {
            let (queue, tag) = (&*self.consumer.queue, delivery.delivery_tag);
            tracing::warn!(
                queue,
                tag,
                lost,
                "deliveries before this one never arrived; they go back to the queue with the channel"
            );
        }
        let tag = self.acks.taken(delivery.delivery_tag, now);
        let task = Task {
            tag,
            errand: self.consumer.reader.errand(delivery),
            attempts: 0,
        };
        let Some(task) = self.held.join(task) else {
            return;
        };
        match task.errand {
            Errand::Submit(work) => self.send(tag, work, 0),
            _ => self.keep(task, now),
        }
    }

    /// Brings an event to its lane. Where the lane is full, the slot waits, and
    /// nothing else is sent before: the order of an account's events stays.
    pub(super) fn send(&mut self, tag: Tag, work: Work, attempts: usize) {
        let reporter = self.consumer.reporter.clone();
        let reply: Reply = Box::new(move |work, result| {
            let report = match result {
                Ok(_) | Err(Failure::Refused { .. }) => Report::Done(tag),
                Err(failure) => {
                    let errand = Errand::Submit(work);
                    let task = Task {
                        tag,
                        errand,
                        attempts,
                    };
                    Report::Again(Box::new(task), failure)
                }
            };
            // A consumer that is gone acknowledges nothing any more.
            let _ = reporter.send(report);
        });
        self.in_lanes += 1;
        let left = self.consumer.workshop.lanes.offer(work, reply);
        self.sending = left.map(FutureExt::boxed);
    }
}
