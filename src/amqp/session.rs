//! One subscription, on one channel: deliveries to the lanes, what became of
//! them, acks.
//!
//! Nothing here waits for one thing: whatever takes time stands in a slot, and
//! the loop takes what has come. What must not live here: subscribing again
//! after an end ([`super::consumer`]), and giving a delivery back to the broker
//! as a way of trying again, which nothing here does.

mod acking;
mod finish;
mod intake;
mod outcomes;

use std::{future, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use lapin::{Channel, message::Delivery};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    acks::{Acks, Tag},
    consumer::{self, Consumer},
    held::{Errand, Held, Task},
    status::QueueState,
};
use crate::{domain::Letter, ledger::Failure, store::StoreError};

/// Most letters kept in one transaction, and how long one waits for others.
const LETTERS_MAX: usize = 100;
const LETTERS_LINGER: Duration = Duration::from_millis(5);

/// How long the loop sleeps at most.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A consumer of the broker on a channel of its own.
pub(super) struct Subscription {
    pub(super) generation: u64,
    pub(super) channel: Channel,
    pub(super) stream: Option<lapin::Consumer>,
    pub(super) prefetch: u16,
    /// Consumer tags used on this channel.
    pub(super) tags: u32,
}

/// Why a session ended.
#[derive(Debug)]
pub(super) enum End {
    /// Told to stop; what was recorded is acknowledged.
    Stopped,
    /// The stream ended though channel and connection stand.
    Cancelled,
    /// The channel or the connection failed.
    Failed(String),
    /// The database was away for too long.
    DatabaseAway(StoreError),
    /// The broker's own limit on holding a delivery comes near.
    HeldTooLong,
}

/// What became of a delivery.
pub(super) enum Report {
    /// It is recorded.
    Done(Tag),
    /// It is not.
    Again(Box<Task>, Failure),
}

/// The database did not answer as it should.
struct Doubt {
    since: Instant,
    error: StoreError,
    probes: usize,
    next_probe: Instant,
}

type Slot<T> = Option<BoxFuture<'static, T>>;

/// The letters that were kept of a batch.
type Kept = Result<Vec<Letter>, StoreError>;

/// The state of one subscription.
pub(super) struct Session<'a> {
    consumer: &'a mut Consumer,
    subscription: Subscription,
    acks: Acks,
    held: Held,
    /// It was told that something is held back, and something may be still.
    holding: bool,
    /// Messages that are no events, to be kept.
    letters: Vec<Task>,
    letters_since: Instant,
    /// Jobs in the lanes whose report is still to come.
    in_lanes: usize,
    doubt: Option<Doubt>,
    ready_since: Option<Instant>,
    /// The oldest open delivery, and since when younger ones wait for it.
    front: (u64, Instant),
    /// When younger ones were last acknowledged past it.
    passed_at: Instant,
    /// When an ack was last sent.
    acked_at: Option<Instant>,
    sending: Slot<()>,
    acking: Slot<Result<(), lapin::Error>>,
    setting_aside: Slot<(Vec<Task>, Kept)>,
    probing: Slot<Result<(), StoreError>>,
    switching: Slot<Result<lapin::Consumer, lapin::Error>>,
    /// The stream of the new subscription, while the old one is read to its end.
    next_stream: Option<lapin::Consumer>,
}

impl<'a> Session<'a> {
    pub(super) fn new(consumer: &'a mut Consumer, subscription: Subscription) -> Self {
        let now = Instant::now();
        Self {
            acks: Acks::new(subscription.generation),
            held: Held::default(),
            holding: false,
            letters: Vec::new(),
            letters_since: now,
            in_lanes: 0,
            doubt: None,
            ready_since: None,
            front: (0, now),
            passed_at: now,
            acked_at: None,
            sending: None,
            acking: None,
            setting_aside: None,
            probing: None,
            switching: None,
            next_stream: None,
            consumer,
            subscription,
        }
    }

    /// Works until the subscription ends or it is told to stop.
    pub(super) async fn run(mut self, stop: &CancellationToken) -> End {
        loop {
            let wake = match self.tend(Instant::now()) {
                Ok(wake) => wake,
                Err(end) => return end,
            };
            let may_take = self.may_take();
            let end = tokio::select! {
                biased;
                () = stop.cancelled() => return self.finish().await,
                Some(report) = self.consumer.reports.recv() => self.hear_all(report),
                result = finished(&mut self.acking) => result.err().map(failed),
                () = finished(&mut self.sending) => None,
                (letters, result) = finished(&mut self.setting_aside) => self.set_aside(letters, result),
                result = finished(&mut self.probing) => self.probed(result),
                result = finished(&mut self.switching) => self.switched(result),
                delivery = next(&mut self.subscription.stream), if may_take => self.take_all(delivery),
                () = tokio::time::sleep_until(wake) => None,
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// While the database is away, or half of the prefetch waits for busy
    /// accounts, nothing more is taken.
    fn may_take(&self) -> bool {
        self.sending.is_none() && self.letters.len() < LETTERS_MAX && self.obstacle().is_none()
    }

    /// What keeps the consumer from taking more, for a person.
    fn obstacle(&self) -> Option<String> {
        match &self.doubt {
            // One that was not confirmed by a ping yet is no state to tell.
            Some(doubt) if doubt.probes == 0 => Some(String::new()),
            Some(doubt) => Some(format!("the database is away: {}", doubt.error)),
            None if self.held.len() >= self.held_max() => Some(
                "half of the prefetch waits for accounts that are busy or can't be written"
                    .to_owned(),
            ),
            None => None,
        }
    }

    fn held_max(&self) -> usize {
        usize::from(self.subscription.prefetch).div_ceil(2).max(1)
    }

    /// Starts whatever is due, and answers when something will be due next.
    fn tend(&mut self, now: Instant) -> Result<Instant, End> {
        let mut wake = now + IDLE_MAX;
        if let Some(doubt) = &self.doubt {
            if now >= doubt.since + self.consumer.workshop.database_away_max {
                return Err(End::DatabaseAway(doubt.error.clone()));
            }
            wake = wake.min(doubt.since + self.consumer.workshop.database_away_max);
            if self.probing.is_none() && now >= doubt.next_probe {
                let workshop = self.consumer.workshop.clone();
                self.probing = Some(async move { consumer::ping(&workshop).await }.boxed());
            }
            if self.probing.is_none() {
                wake = wake.min(doubt.next_probe);
            }
        }
        if let Some((_, taken_at)) = self.acks.oldest_open() {
            let until = taken_at + self.consumer.workshop.hold_max;
            if now >= until {
                return Err(End::HeldTooLong);
            }
            wake = wake.min(until);
        }
        if self.acking.is_none()
            && let Some(due) = self.ack_due(now)
        {
            if due <= now {
                self.ack(now);
            } else {
                wake = wake.min(due);
            }
        }
        if self.doubt.is_none() {
            wake = wake.min(self.tend_errands(now));
            self.tend_appetite();
        }
        self.tell();
        Ok(wake)
    }

    fn tend_errands(&mut self, now: Instant) -> Instant {
        while self.sending.is_none()
            && let Some(task) = self.held.take_due(now)
        {
            match task.errand {
                Errand::Submit(work) => self.send(task.tag, work, task.attempts),
                Errand::SetAside(_) | Errand::Bury(_) => self.keep(task, now),
            }
        }
        let mut wake = now + IDLE_MAX;
        if self.sending.is_none()
            && let Some(due) = self.held.next_due()
        {
            wake = due;
        }
        if self.setting_aside.is_none() && !self.letters.is_empty() {
            let due = self.letters_since + LETTERS_LINGER;
            if self.letters.len() >= LETTERS_MAX || due <= now {
                self.set_aside_some();
            } else {
                wake = wake.min(due);
            }
        }
        wake
    }

    fn tell(&mut self) {
        // What is tried again stands in the lanes, and may come back.
        self.holding &= self.held.len() + self.in_lanes > 0;
        self.consumer.cell.set_in_hand(self.acks.in_hand());
        match self.obstacle() {
            Some(reason) if reason.is_empty() => {}
            Some(reason) => self.consumer.cell.set(QueueState::Waiting(reason)),
            None => self.consumer.cell.set(QueueState::Consuming),
        }
    }
}

/// What stands in a slot, once it is there; the slot is free then. For ever, if
/// the slot is free already.
async fn finished<T>(slot: &mut Slot<T>) -> T {
    match slot {
        Some(future) => {
            let out = future.await;
            *slot = None;
            out
        }
        None => future::pending().await,
    }
}

async fn next(stream: &mut Option<lapin::Consumer>) -> Option<Result<Delivery, lapin::Error>> {
    match stream {
        Some(stream) => stream.next().await,
        None => future::pending().await,
    }
}

fn failed(error: lapin::Error) -> End {
    End::Failed(error.to_string())
}
