//! What `/readyz` and the sweeper ask about the broker: a cheap view of every
//! connection and queue, and the one place where their changes are logged.
//!
//! What must not live here: doing anything about it.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::telemetry::{ConnectionLabels, Metrics, QueueLabels};

/// Why nothing is up before the first attempt.
const STARTING: &str = "not connected yet";

/// Why nothing is taken at the end.
const STOPPING: &str = "the service is stopping";

/// How the broker's connections and the consumed queues stand. Cheap to clone
/// and to read. Without a broker there is nothing to be away: it is ready.
#[derive(Clone, Debug, Default)]
pub struct Status {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    connections: Vec<ConnectionCell>,
    queues: Vec<Arc<QueueCell>>,
}

/// How a connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// It stands.
    Up,
    /// It stands, but the broker takes nothing from publishers for now (an
    /// alarm, <https://www.rabbitmq.com/docs/connection-blocked>).
    Blocked(String),
    /// It does not, and why.
    Away(String),
}

/// How a queue's consumer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// Messages are taken as they come.
    Consuming,
    /// Nothing is taken for now, and why.
    Waiting(String),
}

impl Status {
    pub(super) fn new(
        purposes: &[&'static str],
        queues: impl IntoIterator<Item = Arc<str>>,
        dead: Option<(Arc<str>, bool)>,
        metrics: &Metrics,
    ) -> Self {
        let connections = purposes
            .iter()
            .map(|purpose| ConnectionCell::new(purpose, metrics))
            .collect();
        let queues = queues
            .into_iter()
            .map(|name| Arc::new(QueueCell::new(name, true, true, metrics)))
            .chain(
                dead.map(|(name, needed)| Arc::new(QueueCell::new(name, false, needed, metrics))),
            )
            .collect();
        Self {
            inner: Arc::new(Inner {
                connections,
                queues,
            }),
        }
    }

    /// Every connection by its purpose.
    #[must_use]
    pub fn connections(&self) -> Vec<(&'static str, ConnectionState)> {
        let cells = self.inner.connections.iter();
        cells.map(|cell| (cell.purpose, cell.state())).collect()
    }

    /// Every queue that must be consumed, by its name at the broker.
    #[must_use]
    pub fn queues(&self) -> Vec<(Arc<str>, QueueState)> {
        let cells = self.inner.queues.iter().filter(|cell| cell.needed);
        cells
            .map(|cell| (cell.name.clone(), cell.state()))
            .collect()
    }

    /// Whether nothing is away. A blocked connection is there.
    #[must_use]
    pub fn ready(&self) -> bool {
        let connected = |cell: &ConnectionCell| !matches!(cell.state(), ConnectionState::Away(_));
        self.inner.connections.iter().all(connected)
            && self
                .inner
                .queues
                .iter()
                .filter(|cell| cell.needed)
                .all(|cell| cell.state() == QueueState::Consuming)
    }

    /// Whether every queue of events was seen empty, with nothing of it in hand, since the
    /// start or since its consumer was last interrupted. While false, what a
    /// parked event waits for may still be in a queue.
    #[must_use]
    pub fn queues_seen_empty(&self) -> bool {
        self.of_events().all(|cell| cell.seen_empty())
    }

    /// When a consumer of events was last (or first) set to work: the moment from
    /// which an expiry's grace counts. `None`: no queue is consumed.
    #[must_use]
    pub fn last_interrupted(&self) -> Option<Instant> {
        self.of_events().map(|cell| cell.lock().since).max()
    }

    fn of_events(&self) -> impl Iterator<Item = &Arc<QueueCell>> {
        self.inner.queues.iter().filter(|cell| cell.brings_events)
    }

    pub(super) fn cells(&self) -> &[Arc<QueueCell>] {
        &self.inner.queues
    }

    /// Notes a connection's state, and logs it where it changed.
    pub(super) fn set_connection(&self, purpose: &'static str, state: ConnectionState) {
        for cell in &self.inner.connections {
            if cell.purpose == purpose {
                cell.set(state.clone());
            }
        }
    }
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Blocked(_) => "blocked",
            Self::Away(_) => "away",
        })
    }
}

#[derive(Debug)]
struct ConnectionCell {
    purpose: &'static str,
    state: Mutex<ConnectionState>,
    up: Gauge,
}

impl ConnectionCell {
    fn new(purpose: &'static str, metrics: &Metrics) -> Self {
        let labels = ConnectionLabels { purpose };
        Self {
            purpose,
            state: Mutex::new(ConnectionState::Away(STARTING.to_owned())),
            up: metrics.broker_up.get_or_create(&labels).clone(),
        }
    }

    fn state(&self) -> ConnectionState {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clone()
    }

    fn set(&self, new: ConnectionState) {
        let old = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, new.clone())
        };
        if old == new {
            return;
        }
        self.up
            .set(i64::from(!matches!(new, ConnectionState::Away(_))));
        let purpose = self.purpose;
        match new {
            // Every attempt may fail in another way; that is no change of state.
            ConnectionState::Away(reason) if matches!(&old, ConnectionState::Away(before) if before != STARTING) =>
            {
                tracing::debug!(purpose, reason, "the broker is still away");
            }
            ConnectionState::Up => tracing::info!(purpose, "connected to the broker"),
            ConnectionState::Blocked(reason) => {
                tracing::warn!(purpose, reason, "the broker holds publishers back");
            }
            ConnectionState::Away(reason) => {
                tracing::warn!(
                    purpose,
                    reason,
                    "the broker is away; trying on without a last attempt"
                );
            }
        }
    }
}

/// One queue's state, written by its consumer.
#[derive(Debug)]
pub(super) struct QueueCell {
    pub(super) name: Arc<str>,
    /// False for the dead-letter queue: nothing that waits is waited for there.
    brings_events: bool,
    /// Whether the service is not ready without it.
    pub(super) needed: bool,
    state: Mutex<Seen>,
    in_hand: AtomicUsize,
    up: Gauge,
    held: Gauge,
}

#[derive(Debug)]
struct Seen {
    state: QueueState,
    /// Counts the interruptions.
    epoch: u64,
    since: Instant,
    empty: bool,
}

impl QueueCell {
    fn new(name: Arc<str>, brings_events: bool, needed: bool, metrics: &Metrics) -> Self {
        let labels = QueueLabels {
            queue: name.to_string(),
        };
        Self {
            name,
            brings_events,
            needed,
            state: Mutex::new(Seen {
                state: QueueState::Waiting("not subscribed yet".to_owned()),
                epoch: 0,
                since: Instant::now(),
                empty: false,
            }),
            in_hand: AtomicUsize::new(0),
            up: metrics.consumer_up.get_or_create(&labels).clone(),
            held: metrics.in_hand.get_or_create(&labels).clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> QueueState {
        self.lock().state.clone()
    }

    /// Notes the state, and logs it where it changed.
    pub(super) fn set(&self, new: QueueState) {
        let old = std::mem::replace(&mut self.lock().state, new.clone());
        if old == new {
            return;
        }
        self.up.set(i64::from(new == QueueState::Consuming));
        let queue = &*self.name;
        match new {
            QueueState::Consuming => tracing::info!(queue, "consuming"),
            QueueState::Waiting(reason) if reason == STOPPING => {
                tracing::info!(queue, "no longer consuming: {reason}");
            }
            QueueState::Waiting(reason) => tracing::warn!(queue, reason, "not consuming"),
        }
    }

    /// Notes that it takes no more since the service stops.
    pub(super) fn stopping(&self) {
        self.set(QueueState::Waiting(STOPPING.to_owned()));
    }

    /// The consumer is set to work (again): what was seen before counts no more.
    pub(super) fn interrupted(&self) {
        let mut seen = self.lock();
        seen.epoch += 1;
        seen.empty = false;
        seen.since = Instant::now();
    }

    pub(super) fn epoch(&self) -> u64 {
        self.lock().epoch
    }

    pub(super) fn seen_empty(&self) -> bool {
        self.lock().empty
    }

    /// The queue was seen empty, if nothing came between since that epoch.
    pub(super) fn saw_empty(&self, epoch: u64) {
        let mut seen = self.lock();
        seen.empty |= seen.epoch == epoch;
    }

    pub(super) fn in_hand(&self) -> usize {
        self.in_hand.load(Ordering::Acquire)
    }

    pub(super) fn set_in_hand(&self, count: usize) {
        self.in_hand.store(count, Ordering::Release);
        self.held.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        Status::new(&["consume"], [Arc::from("q")], None, &Metrics::default())
    }

    #[test]
    fn it_is_ready_once_everything_is_there_and_a_blocked_connection_is() {
        let status = status();
        assert!(!status.ready());
        status.set_connection("consume", ConnectionState::Blocked("memory".into()));
        assert!(!status.ready());
        status.cells()[0].set(QueueState::Consuming);
        assert!(status.ready());
        status.set_connection("consume", ConnectionState::Away("gone".into()));
        assert!(!status.ready());
        assert!(
            Status::default().ready(),
            "without a broker nothing is away"
        );
    }

    #[test]
    fn an_interruption_forgets_that_the_queue_was_empty() {
        let status = status();
        let cell = &status.cells()[0];
        let before = cell.epoch();
        cell.interrupted();
        cell.saw_empty(before);
        assert!(!status.queues_seen_empty(), "seen before the interruption");
        cell.saw_empty(cell.epoch());
        assert!(status.queues_seen_empty());
        cell.interrupted();
        assert!(!status.queues_seen_empty());
    }
}
