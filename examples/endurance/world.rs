//! What the parts of a run share: the instances, the books, the figures, and the
//! list of everything that should not have happened.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::{book::Book, instance::Instance};

/// More than these are only counted.
const SURPRISES_MAX: usize = 100;

/// Shared by every task of the run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) began: Instant,
    pub(crate) seed: u64,
    pub(crate) prefix: String,
    pub(crate) database: String,
    pub(crate) broker: String,
    pub(crate) instances: Vec<Instance>,
    pub(crate) book: Book,
    pub(crate) figures: Figures,
    /// No new load is made any more; what was begun is finished.
    pub(crate) ending: AtomicBool,
    /// Nobody notes anything any more: what waits to be published is the rest.
    pub(crate) all_made: AtomicBool,
    surprises: Mutex<Vec<String>>,
    faults: Mutex<BTreeMap<&'static str, Vec<Duration>>>,
}

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Messages given to the broker, repeats included.
    pub(crate) published: AtomicU64,
    /// Published again since the broker had not confirmed them.
    pub(crate) unconfirmed: AtomicU64,
    /// Published again on purpose.
    pub(crate) copies: AtomicU64,
    /// HTTP requests that were answered.
    pub(crate) answered: AtomicU64,
    /// HTTP requests that met nobody, or a 503, and were made again.
    pub(crate) turned_away: AtomicU64,
    /// Runs of `verify` beside the load.
    pub(crate) verified: AtomicU64,
    /// SIGTERMs that ended as promised.
    pub(crate) stopped: AtomicU64,
    /// Longest of those, in milliseconds.
    pub(crate) longest_stop_ms: AtomicU64,
    /// The most memory that an instance was seen to hold, in MiB.
    pub(crate) largest_mib: AtomicU64,
}

/// One more of it.
pub(crate) fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}

/// How many there were.
pub(crate) fn read(figure: &AtomicU64) -> u64 {
    figure.load(Ordering::Relaxed)
}

impl World {
    pub(crate) fn new(
        seed: u64,
        prefix: String,
        (database, broker): (String, String),
        instances: Vec<Instance>,
    ) -> Self {
        Self {
            began: Instant::now(),
            seed,
            prefix,
            database,
            broker,
            instances,
            book: Book::new(),
            figures: Figures::default(),
            ending: AtomicBool::new(false),
            all_made: AtomicBool::new(false),
            surprises: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    pub(crate) fn ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    pub(crate) fn all_made(&self) -> bool {
        self.all_made.load(Ordering::SeqCst)
    }

    /// Notes what should not have happened; the run then fails.
    pub(crate) fn surprise(&self, what: impl Into<String>) {
        let what = what.into();
        self.say(&format!("WRONG: {what}"));
        let mut surprises = self
            .surprises
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if surprises.len() < SURPRISES_MAX {
            surprises.push(what);
        }
    }

    pub(crate) fn surprises(&self) -> Vec<String> {
        self.surprises
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Notes a fault, and how long after its end every instance was ready again.
    pub(crate) fn fault(&self, kind: &'static str, recovery: Duration) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.entry(kind).or_default().push(recovery);
    }

    pub(crate) fn faults(&self) -> BTreeMap<&'static str, Vec<Duration>> {
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A line for whoever watches, with the time since the start.
    pub(crate) fn say(&self, what: &str) {
        eprintln!("{:>7.1}s  {what}", self.began.elapsed().as_secs_f64());
    }
}
