//! Writes the events of a file, batch after batch, and waits as long as it takes.
//!
//! What lives here: patience, and the order of a file. What must not: rules.
//!
//! These are no [`crate::lane`]s: a lane answers a batch that met an outage as
//! failed and takes the next one, so a later line of an account could go before
//! an earlier one, and a debit would be refused since its credit was still
//! waiting. Here a batch is settled before the next one is begun.

use std::{cell::RefCell, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::sync::mpsc;

use super::report::Report;
use crate::{
    clock::Clock,
    domain::{Answer, Letter, Work},
    ledger::{Failure, Ledger},
    store::{Store, StoreError},
};

/// Most dead letters kept in one statement.
const LETTERS_MAX: usize = 100;

/// An event with the line it stood in.
pub(super) struct Job {
    pub(super) line: u64,
    pub(super) work: Work,
}

/// Settles what comes, in order, until there is no more.
pub(super) async fn write(
    mut ledger: Ledger,
    mut jobs: mpsc::Receiver<Job>,
    batch_max: usize,
    report: &RefCell<Report>,
) {
    let mut batch = Vec::with_capacity(batch_max);
    while jobs.recv_many(&mut batch, batch_max).await > 0 {
        settle(&mut ledger, std::mem::take(&mut batch), report).await;
    }
}

async fn settle(ledger: &mut Ledger, batch: Vec<Job>, report: &RefCell<Report>) {
    let (mut lines, mut works): (Vec<u64>, Vec<Work>) =
        batch.into_iter().map(|job| (job.line, job.work)).unzip();
    let mut delays = delays();
    while !works.is_empty() {
        let answers = ledger.settle(&works).await;
        let mut waiting = None;
        let mut kept = Vec::with_capacity(works.len());
        for (line, answer) in lines.iter().zip(answers) {
            kept.push(match answer {
                Ok(Answer::Event(told)) => {
                    report.borrow_mut().told(&told);
                    false
                }
                // Only events are asked here.
                Ok(_) => false,
                Err(failure @ Failure::Refused { .. }) => {
                    let why = failure.to_string();
                    report.borrow_mut().dead(*line, "store_refused", &why);
                    false
                }
                Err(failure) => {
                    waiting = Some(failure);
                    true
                }
            });
        }
        keep(&mut lines, &kept);
        keep(&mut works, &kept);
        let Some(failure) = waiting else { break };
        report.borrow_mut().waiting(&failure);
        tokio::time::sleep(delays.next().unwrap_or_default()).await;
    }
    report.borrow_mut().going_on();
}

fn keep<T>(items: &mut Vec<T>, kept: &[bool]) {
    let mut flags = kept.iter();
    items.retain(|_| flags.next().copied().unwrap_or(true));
}

/// Lines that are no events, on their way to the dead letters.
pub(super) struct Aside<'a> {
    store: &'a dyn Store,
    clock: &'a Clock,
    report: &'a RefCell<Report>,
    letters: Vec<(u64, Letter)>,
}

impl<'a> Aside<'a> {
    pub(super) fn new(store: &'a dyn Store, clock: &'a Clock, report: &'a RefCell<Report>) -> Self {
        Self {
            store,
            clock,
            report,
            letters: Vec::new(),
        }
    }

    /// Keeps a letter, now or with the next ones.
    pub(super) async fn put(&mut self, line: u64, letter: Letter) {
        self.letters.push((line, letter));
        if self.letters.len() >= LETTERS_MAX {
            self.flush().await;
        }
    }

    /// Keeps all that was put.
    pub(super) async fn flush(&mut self) {
        let taken = std::mem::take(&mut self.letters);
        let letters: Vec<Letter> = taken.iter().map(|(_, letter)| letter.clone()).collect();
        if letters.is_empty() || self.set_aside(&letters).await.is_ok() {
            return;
        }
        // The database refuses one of them for ever: the others are kept.
        for (line, letter) in taken {
            if let Err(error) = self.set_aside(&[letter]).await {
                self.report.borrow_mut().lost(line, &error.to_string());
            }
        }
    }

    /// Waits as long as it takes; fails only where waiting does not help.
    async fn set_aside(&self, letters: &[Letter]) -> Result<(), StoreError> {
        let mut delays = delays();
        loop {
            match self.store.set_aside(letters, self.clock.now()).await {
                Ok(()) => {
                    self.report.borrow_mut().going_on();
                    return Ok(());
                }
                Err(error @ StoreError::Refused { .. }) => return Err(error),
                Err(error) => {
                    let failure = Failure::Unavailable(error);
                    self.report.borrow_mut().waiting(&failure);
                    tokio::time::sleep(delays.next().unwrap_or_default()).await;
                }
            }
        }
    }
}

/// Delays without end, growing up to a few seconds.
fn delays() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(3))
        .without_max_times()
        .with_jitter()
        .build()
}
