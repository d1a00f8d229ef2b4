//! What the service tells about itself: metrics here, logs in [`logs`].

pub mod logs;

use std::sync::Arc;

use crate::domain::Letter;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Every figure that `/metrics` shows; handed to whoever counts, never global.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// Events by what became of them.
    pub events: Family<EventLabels, Counter>,
    /// Dead letters by reason and queue.
    pub letters: Family<LetterLabels, Counter>,
    /// Batches committed.
    pub batches: Counter,
    /// Asks decided again since their account was stale or their identity raced.
    pub decided_again: Counter,
    /// Transactions that the database gave up in favour of others.
    pub conflicts: Counter,
    /// 1 while the database answers.
    pub database_up: Gauge,
    /// 1 while the database answers and takes writes.
    pub database_writable: Gauge,
    /// 1 while the broker's connection stands, by its purpose.
    pub broker_up: Family<ConnectionLabels, Gauge>,
    /// 1 while a queue is consumed.
    pub consumer_up: Family<QueueLabels, Gauge>,
    /// Deliveries in hand, not acknowledged yet, by queue.
    pub in_hand: Family<QueueLabels, Gauge>,
}

/// What became of an event, and why.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct EventLabels {
    /// `applied`, `duplicate`, `parked`, `rejected`, `dead`.
    pub outcome: &'static str,
    /// The reason's code, or empty.
    pub reason: &'static str,
}

/// Why a message became a dead letter, and where it came from.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct LetterLabels {
    /// The reason's code.
    pub reason: &'static str,
    /// The queue's name, `http` or `apply`.
    pub queue: String,
}

impl LetterLabels {
    /// The labels under which a letter is counted.
    #[must_use]
    pub fn of(letter: &Letter) -> Self {
        Self {
            reason: letter.reason.as_str(),
            queue: letter.raw.queue.to_string(),
        }
    }
}

/// A connection's purpose.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ConnectionLabels {
    /// `consume` or `publish`.
    pub purpose: &'static str,
}

/// A queue.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct QueueLabels {
    /// Its name at the broker.
    pub queue: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("onceledger");
        let metrics = Self {
            registry: Arc::default(),
            events: Family::default(),
            letters: Family::default(),
            batches: Counter::default(),
            decided_again: Counter::default(),
            conflicts: Counter::default(),
            database_up: Gauge::default(),
            database_writable: Gauge::default(),
            broker_up: Family::default(),
            consumer_up: Family::default(),
            in_hand: Family::default(),
        };
        registry.register(
            "events",
            "Events by what became of them",
            metrics.events.clone(),
        );
        registry.register(
            "dead_letters",
            "Dead letters by reason and queue",
            metrics.letters.clone(),
        );
        registry.register("batches", "Batches committed", metrics.batches.clone());
        registry.register(
            "decided_again",
            "Asks decided again: stale account or raced identity",
            metrics.decided_again.clone(),
        );
        registry.register(
            "store_conflicts",
            "Transactions the database gave up in favour of others",
            metrics.conflicts.clone(),
        );
        registry.register(
            "database_up",
            "1 while the database answers",
            metrics.database_up.clone(),
        );
        registry.register(
            "database_writable",
            "1 while the database answers and takes writes",
            metrics.database_writable.clone(),
        );
        registry.register(
            "broker_up",
            "1 while the broker's connection stands",
            metrics.broker_up.clone(),
        );
        registry.register(
            "consumer_up",
            "1 while the queue is consumed",
            metrics.consumer_up.clone(),
        );
        registry.register(
            "deliveries_in_hand",
            "Deliveries taken and not acknowledged yet",
            metrics.in_hand.clone(),
        );
        Self {
            registry: Arc::new(registry),
            ..metrics
        }
    }
}

impl Metrics {
    /// The text that Prometheus reads (OpenMetrics).
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into a String can't fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
