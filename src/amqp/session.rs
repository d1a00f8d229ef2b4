//! One subscription, on one channel: deliveries to the lanes, what became of
//! them, acks.
//!
//! Nothing here waits for one thing: whatever takes time stands in a slot, and
//! the loop takes what has come. What must not live here: subscribing again
//! after an end ([`super::consumer`]), and giving a delivery back to the broker
//! as a way of trying again, which nothing here does.

use std::{future, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use lapin::{Channel, message::Delivery, options::BasicAckOptions};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    acks::{Acks, Tag},
    consumer::{self, Consumer},
    delivery::arrival,
    held::{self, Errand, Held, Task},
    status::QueueState,
    topology,
};
use crate::{
    domain::{Letter, Submission, Work},
    envelope::{self, Malformed},
    lane::Reply,
    ledger::Failure,
    store::StoreError,
    telemetry::LetterLabels,
};

/// How long a done delivery waits for others to be acknowledged with it.
const ACK_LINGER: Duration = Duration::from_millis(5);

/// How long an open delivery may hold up the acks of younger ones.
const HOLD_UP_MAX: Duration = Duration::from_millis(100);

/// Acks in multiples of a tenth of the prefetch are enough for the broker.
const ACK_SHARE: usize = 10;

/// Most deliveries taken in one go.
const TAKE_MAX: usize = 256;

/// Most letters kept in one transaction, and how long one waits for others.
const LETTERS_MAX: usize = 100;
const LETTERS_LINGER: Duration = Duration::from_millis(5);

/// A database that is away this long costs every delivery in hand one count of
/// the delivery limit: the channel is closed once and not opened before it answers.
const DATABASE_AWAY_MAX: Duration = Duration::from_secs(60);

/// RabbitMQ closes a channel that holds a delivery for 30 minutes
/// (<https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout>).
const HOLD_MAX: Duration = Duration::from_secs(20 * 60);

/// How long a session that was told to stop waits for what is in the lanes.
const FINISH_MAX: Duration = Duration::from_secs(8);

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
    Again(Task, Failure),
}

/// The database did not answer as it should.
struct Doubt {
    since: Instant,
    error: StoreError,
    probes: usize,
    next_probe: Instant,
}

type Slot<T> = Option<BoxFuture<'static, T>>;

/// The state of one subscription.
pub(super) struct Session<'a> {
    consumer: &'a mut Consumer,
    subscription: Subscription,
    acks: Acks,
    held: Held,
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
    sending: Slot<()>,
    acking: Slot<Result<(), lapin::Error>>,
    setting_aside: Slot<(Vec<Task>, Result<(), StoreError>)>,
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
            letters: Vec::new(),
            letters_since: now,
            in_lanes: 0,
            doubt: None,
            ready_since: None,
            front: (0, now),
            passed_at: now,
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

    // ---- deliveries -----------------------------------------------------------

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

    /// Takes what has arrived, without waiting for each.
    fn take_all(&mut self, first: Option<Result<Delivery, lapin::Error>>) -> Option<End> {
        let now = Instant::now();
        let mut arrived = first;
        for _ in 0..TAKE_MAX {
            match arrived {
                Some(Ok(delivery)) => self.take(&delivery, now),
                Some(Err(error)) => return Some(failed(error)),
                None => return self.stream_ended(),
            }
            if !self.may_take() {
                break;
            }
            match next(&mut self.subscription.stream).now_or_never() {
                Some(more) => arrived = more,
                None => break,
            }
        }
        None
    }

    fn stream_ended(&mut self) -> Option<End> {
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

    fn take(&mut self, delivery: &Delivery, now: Instant) {
        self.consumer.appetite.saw(delivery.data.len());
        let tag = self.acks.taken(delivery.delivery_tag, now);
        match envelope::read(&arrival(delivery), &self.consumer.origin) {
            Ok(reading) => {
                let work = Work::submit(Submission {
                    event: reading.event,
                    raw: reading.raw,
                    if_version: None,
                    strict: false,
                });
                self.send(tag, work, 0);
            }
            Err(malformed) => {
                let letter = letter(*malformed, &self.consumer.origin);
                self.keep(
                    Task {
                        tag,
                        errand: Errand::SetAside(Box::new(letter)),
                        attempts: 0,
                    },
                    now,
                );
            }
        }
    }

    /// Brings an event to its lane. Where the lane is full, the slot waits, and
    /// nothing else is sent before: the order of an account's events stays.
    fn send(&mut self, tag: Tag, work: Work, attempts: usize) {
        let reporter = self.consumer.reporter.clone();
        let kept = work.clone();
        let reply: Reply = Box::new(move |result| {
            let report = match result {
                Ok(_) | Err(Failure::Refused { .. }) => Report::Done(tag),
                Err(failure) => {
                    let errand = Errand::Submit(kept);
                    Report::Again(
                        Task {
                            tag,
                            errand,
                            attempts,
                        },
                        failure,
                    )
                }
            };
            // A consumer that is gone acknowledges nothing any more.
            let _ = reporter.send(report);
        });
        let lanes = self.consumer.workshop.lanes.clone();
        let mut sending = async move { lanes.send(work, reply).await }.boxed();
        self.in_lanes += 1;
        if (&mut sending).now_or_never().is_none() {
            self.sending = Some(sending);
        }
    }

    // ---- what became of them --------------------------------------------------

    fn hear_all(&mut self, first: Report) -> Option<End> {
        let now = Instant::now();
        self.hear(first, now);
        while let Ok(report) = self.consumer.reports.try_recv() {
            self.hear(report, now);
        }
        None
    }

    fn hear(&mut self, report: Report, now: Instant) {
        let tag = match &report {
            Report::Done(tag) | Report::Again(Task { tag, .. }, _) => *tag,
        };
        // An answer to a former channel's delivery: the broker has handed the
        // message out again, and its copy is known by its identity.
        if !self.acks.is_open(tag) {
            return;
        }
        self.in_lanes -= 1;
        match report {
            Report::Done(tag) => self.done(tag),
            Report::Again(task, failure) => {
                if task.attempts == 0 && self.doubt.is_none() && self.held.len() == 0 {
                    let queue = &*self.consumer.origin.queue;
                    tracing::info!(queue, %failure, "a delivery is held back");
                }
                match failure {
                    Failure::Unavailable(error) => self.doubt(error, now),
                    // The process outlived it, which is all that a slow start asks.
                    _ => self.consumer.appetite.survived(1),
                }
                self.held.put(task, now);
            }
        }
    }

    fn done(&mut self, tag: Tag) {
        if self.acks.done(tag) {
            self.consumer.appetite.survived(1);
        }
    }

    // ---- letters --------------------------------------------------------------

    fn keep(&mut self, letter: Task, now: Instant) {
        if self.letters.is_empty() {
            self.letters_since = now;
        }
        self.letters.push(letter);
    }

    /// Keeps a batch of letters. One that failed before goes alone, so that a
    /// letter which can't be kept does not take others along.
    fn set_aside_some(&mut self) {
        let count = match self.letters.iter().position(|letter| letter.attempts > 0) {
            Some(0) => 1,
            Some(place) => place.min(LETTERS_MAX),
            None => self.letters.len().min(LETTERS_MAX),
        };
        let batch: Vec<Task> = self.letters.drain(..count).collect();
        let store = self.consumer.workshop.store.clone();
        let at = self.consumer.workshop.clock.now();
        self.setting_aside = Some(
            async move {
                let letters: Vec<Letter> = batch
                    .iter()
                    .filter_map(|task| match &task.errand {
                        Errand::SetAside(letter) => Some((**letter).clone()),
                        Errand::Submit(_) => None,
                    })
                    .collect();
                let result = store.set_aside(&letters, at).await;
                (batch, result)
            }
            .boxed(),
        );
    }

    fn set_aside(&mut self, batch: Vec<Task>, result: Result<(), StoreError>) -> Option<End> {
        let now = Instant::now();
        match result {
            Ok(()) => {
                for task in batch {
                    if let Errand::SetAside(letter) = &task.errand {
                        let labels = LetterLabels::of(letter);
                        let metrics = &self.consumer.workshop.metrics;
                        metrics.letters.get_or_create(&labels).inc();
                    }
                    self.done(task.tag);
                }
            }
            Err(error) => {
                let queue = &*self.consumer.origin.queue;
                let count = batch.len();
                tracing::warn!(queue, count, %error, "dead letters could not be kept yet");
                for task in batch {
                    self.held.put(task, now);
                }
                self.doubt(error, now);
            }
        }
        None
    }

    // ---- the database ---------------------------------------------------------

    fn doubt(&mut self, error: StoreError, now: Instant) {
        self.doubt.get_or_insert(Doubt {
            since: now,
            error,
            probes: 0,
            next_probe: now,
        });
    }

    fn probed(&mut self, result: Result<(), StoreError>) -> Option<End> {
        let now = Instant::now();
        let doubt = self.doubt.as_mut()?;
        match result {
            Ok(()) => self.doubt = None,
            Err(error) => {
                tracing::debug!(%error, "the database still does not answer as it should");
                doubt.next_probe = now + held::delay(doubt.probes).min(Duration::from_secs(5));
                doubt.probes += 1;
            }
        }
        None
    }

    // ---- the broker -----------------------------------------------------------

    fn switched(&mut self, result: Result<lapin::Consumer, lapin::Error>) -> Option<End> {
        match result {
            Ok(stream) if self.subscription.stream.is_some() => self.next_stream = Some(stream),
            Ok(stream) => self.subscription.stream = Some(stream),
            Err(error) => return Some(failed(error)),
        }
        None
    }

    /// One ack is on its way at a time: what is done meanwhile goes with the next.
    fn ack(&mut self, now: Instant) {
        if let Some(up_to) = self.acks.ack_up_to() {
            self.ready_since = None;
            self.acking = Some(self.acks_of(vec![up_to], true));
        } else if self.acks.behind() > 0 {
            self.passed_at = now;
            let numbers = self.acks.ack_behind();
            self.acking = Some(self.acks_of(numbers, false));
        }
    }

    fn acks_of(
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

    fn ack_due(&mut self, now: Instant) -> Option<Instant> {
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

    // ---- the round ------------------------------------------------------------

    /// Starts whatever is due, and answers when something will be due next.
    fn tend(&mut self, now: Instant) -> Result<Instant, End> {
        let mut wake = now + Duration::from_secs(60);
        if let Some(doubt) = &self.doubt {
            if now >= doubt.since + DATABASE_AWAY_MAX {
                return Err(End::DatabaseAway(doubt.error.clone()));
            }
            wake = wake.min(doubt.since + DATABASE_AWAY_MAX);
            if self.probing.is_none() && now >= doubt.next_probe {
                let workshop = self.consumer.workshop.clone();
                self.probing = Some(async move { consumer::ping(&workshop).await }.boxed());
            }
            if self.probing.is_none() {
                wake = wake.min(doubt.next_probe);
            }
        }
        if let Some((_, taken_at)) = self.acks.oldest_open() {
            if now >= taken_at + HOLD_MAX {
                return Err(End::HeldTooLong);
            }
            wake = wake.min(taken_at + HOLD_MAX);
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
                Errand::SetAside(_) => self.keep(task, now),
            }
        }
        let mut wake = now + HOLD_MAX;
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

    /// Subscribes again where another prefetch is wanted.
    fn tend_appetite(&mut self) {
        if self.switching.is_some() || self.next_stream.is_some() {
            return;
        }
        let present = self.subscription.prefetch;
        let Some(prefetch) = self.consumer.appetite.change_from(present) else {
            return;
        };
        let queue = self.consumer.origin.queue.clone();
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

    fn tell(&self) {
        self.consumer.cell.set_in_hand(self.acks.in_hand());
        match self.obstacle() {
            Some(reason) if reason.is_empty() => {}
            Some(reason) => self.consumer.cell.set(QueueState::Waiting(reason)),
            None => self.consumer.cell.set(QueueState::Consuming),
        }
    }

    // ---- the end --------------------------------------------------------------

    /// Told to stop: takes no more, waits for what is in the lanes, acknowledges
    /// it. What is held back or unread goes back to the queue with the channel.
    async fn finish(mut self) -> End {
        let deadline = Instant::now() + FINISH_MAX;
        let queue = self.consumer.origin.queue.clone();
        self.consumer
            .cell
            .set(QueueState::Waiting("the service is stopping".to_owned()));
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
        self.consumer.cell.set_in_hand(0);
        End::Stopped
    }

    fn finished(&self, cancelling: &Slot<()>) -> bool {
        cancelling.is_none()
            && self.in_lanes == 0
            && self.sending.is_none()
            && self.acking.is_none()
            && self.setting_aside.is_none()
            && self.letters.is_empty()
            && self.acks.ready() + self.acks.behind() == 0
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

/// The dead letter of a message that is no event.
fn letter(malformed: Malformed, origin: &envelope::Origin) -> Letter {
    let mut detail = json!({"message": malformed.message});
    if let Some(field) = malformed.field {
        detail["field"] = field.into();
    }
    if let Some(rule) = malformed.rule {
        detail["rule"] = rule.into();
    }
    Letter {
        tenant: origin.tenant.clone(),
        reason: malformed.reason,
        detail,
        source: malformed.source,
        event_id: malformed.event_id,
        account_id: malformed.account_id,
        event: None,
        raw: malformed.raw,
    }
}
