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
        held::{self, Errand, Task},
    },
    domain::Letter,
    ledger::Failure,
    store::StoreError,
    telemetry::LetterLabels,
};

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
                if task.attempts == 0 && self.doubt.is_none() && self.held.len() == 0 {
                    let queue = &*self.consumer.origin.queue;
                    tracing::info!(queue, %failure, "a delivery is held back");
                }
                match failure {
                    Failure::Unavailable(error) => self.doubt(error, now),
                    // The process outlived it, which is all that a slow start asks.
                    _ => self.consumer.appetite.survived(1),
                }
                self.held.put(*task, now);
            }
        }
    }

    pub(super) fn done(&mut self, tag: Tag) {
        if self.acks.done(tag) {
            self.consumer.appetite.survived(1);
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

    pub(super) fn set_aside(
        &mut self,
        batch: Vec<Task>,
        result: Result<(), StoreError>,
    ) -> Option<End> {
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
                doubt.next_probe = now + held::delay(doubt.probes).min(Duration::from_secs(5));
                doubt.probes += 1;
            }
        }
        None
    }
}
