//! What became of deliveries: recorded, to be tried again, or to be kept as
//! letters; and whether the database is there.
//!
//! What must not live here: acks.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::{Doubt, End, LETTERS_MAX, Report, Session};
use crate::{
    amqp::{
        acks::Tag,
        held::{self, Errand, Grave, Task},
    },
    domain::{EventKey, Letter, Record, Status, Timestamp},
    ledger::Failure,
    store::{Store, StoreError},
    telemetry::LetterLabels,
};

/// The longest pause between two questions whether the database is there. They
/// are answered from what the service's one prober knows.
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(1);

impl Session<'_> {
    pub(super) fn hear_all(&mut self, first: Report) -> Option<End> {
        let now = Instant::now();
        self.hear(first, now);
        while let Ok(report) = self.consumer.reports.try_recv() {
            self.hear(report, now);
        }
        None
    }

    pub(super) fn hear(&mut self, report: Report, now: Instant) {
        let tag = match &report {
            Report::Done(tag) => *tag,
            Report::Again(task, _) => task.tag,
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
                if !std::mem::replace(&mut self.holding, true) {
                    let queue = &*self.consumer.queue;
                    tracing::info!(queue, %failure, "a delivery is held back");
                }
                match failure {
                    Failure::Unavailable(error) => self.doubt(error, now),
                    // The process outlived it, which is all that a slow start asks.
                    _ => self.consumer.appetite.outlived(),
                }
                self.held.put(*task, now);
            }
        }
    }

    pub(super) fn done(&mut self, tag: Tag) {
        if self.acks.done(tag) {
            self.consumer.appetite.settled();
        }
    }

    pub(super) fn keep(&mut self, letter: Task, now: Instant) {
        if self.letters.is_empty() {
            self.letters_since = now;
        }
        self.letters.push(letter);
    }

    /// Keeps a batch of letters. One that failed before goes alone, so that a
    /// letter which can't be kept does not take others along.
    pub(super) fn set_aside_some(&mut self) {
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
                let kept = keep_letters(&*store, &batch, at).await;
                (batch, kept)
            }
            .boxed(),
        );
    }

    pub(super) fn set_aside(
        &mut self,
        batch: Vec<Task>,
        kept: Result<Vec<Letter>, StoreError>,
    ) -> Option<End> {
        let now = Instant::now();
        match kept {
            Ok(letters) => {
                for letter in &letters {
                    // By the queue that brought it: the one that it names may be
                    // anybody's word, and each would be a series of its own.
                    let labels = LetterLabels {
                        reason: letter.reason.as_str(),
                        queue: self.consumer.queue.to_string(),
                    };
                    let metrics = &self.consumer.workshop.metrics;
                    metrics.letters.get_or_create(&labels).inc();
                }
                for task in batch {
                    self.done(task.tag);
                }
            }
            Err(error) => {
                let queue = &*self.consumer.queue;
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

    pub(super) fn doubt(&mut self, error: StoreError, now: Instant) {
        self.doubt.get_or_insert(Doubt {
            since: now,
            error,
            probes: 0,
            next_probe: now,
        });
    }

    pub(super) fn probed(&mut self, result: Result<(), StoreError>) -> Option<End> {
        let now = Instant::now();
        let doubt = self.doubt.as_mut()?;
        match result {
            Ok(()) => self.doubt = None,
            Err(error) => {
                tracing::debug!(%error, "the database still does not answer as it should");
                doubt.next_probe = now + held::delay(doubt.probes).min(PROBE_PAUSE_MAX);
                doubt.probes += 1;
            }
        }
        None
    }
}

/// Keeps what is to be kept of a batch, and answers what that was.
async fn keep_letters(
    store: &dyn Store,
    batch: &[Task],
    at: Timestamp,
) -> Result<Vec<Letter>, StoreError> {
    let events = batch.iter().filter_map(|task| match &task.errand {
        Errand::Bury(grave) => grave.event.as_ref(),
        _ => None,
    });
    let keys: Vec<EventKey> = events.map(|event| event.identity.key()).collect();
    let known = match keys.is_empty() {
        true => Vec::new(),
        false => store.lookup(&keys).await?,
    };
    let letters: Vec<Letter> = batch
        .iter()
        .filter_map(|task| match &task.errand {
            Errand::SetAside(letter) => Some((**letter).clone()),
            Errand::Bury(grave) if is_settled(grave, &known) => None,
            Errand::Bury(grave) => Some(grave.letter.clone()),
            Errand::Submit(_) => None,
        })
        .collect();
    if !letters.is_empty() {
        store.set_aside(&letters, at).await?;
    }
    Ok(letters)
}

/// Whether the books know already what became of a message that the broker gave up.
/// The same id with other content is another matter: that would be lost. An event
/// that is decided a moment after this look finds its letter open, as one does that
/// comes a day later.
fn is_settled(grave: &Grave, known: &[Record]) -> bool {
    grave.event.as_ref().is_some_and(|event| {
        known.iter().any(|record| {
            record.event.identity == event.identity
                && record.status != Status::Pending
                && record.knows(&event.content)
        })
    })
}
