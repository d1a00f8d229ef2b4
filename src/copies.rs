//! Copies seen, counted aside: gathered in memory and written every moment, so
//! that a duplicate costs no write of its own.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustc_hash::FxHashMap;
use tokio_util::sync::CancellationToken;

use crate::{clock::Clock, domain::EventKey, store::Store};

/// How often the counts are written.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// Most identities written in one statement.
const FLUSH_MAX: usize = 1_000;

/// The counts that are not written yet. A crash loses them; nothing else
/// depends on them.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    seen: Arc<Mutex<FxHashMap<EventKey, i64>>>,
}

impl Copies {
    /// Counts one copy of each.
    pub fn note(&self, keys: &[EventKey]) {
        if keys.is_empty() {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            *seen.entry(*key).or_default() += 1;
        }
    }

    /// Writes what was counted. What could not be written is kept.
    pub async fn flush(&self, store: &dyn Store, clock: &Clock) {
        let taken = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let mut counts: Vec<(EventKey, i64)> = taken.into_iter().collect();
        // One order for everybody, so that two instances can't deadlock here.
        counts.sort_unstable_by_key(|(key, _)| *key);
        for chunk in counts.chunks(FLUSH_MAX) {
            if let Err(error) = store.count_copies(chunk, clock.now()).await {
                tracing::debug!(%error, "copies seen are kept until they can be written");
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                for (key, count) in chunk {
                    *seen.entry(*key).or_default() += count;
                }
            }
        }
    }

    /// Writes every moment, and once more when told to stop.
    pub async fn run(self, store: Arc<dyn Store>, clock: Clock, stop: CancellationToken) {
        while stop
            .run_until_cancelled(tokio::time::sleep(FLUSH_EVERY))
            .await
            .is_some()
        {
            self.flush(&*store, &clock).await;
        }
        self.flush(&*store, &clock).await;
    }
}
