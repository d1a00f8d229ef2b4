//! Which cases there are, and what one sample of a case is.

use std::{collections::BTreeMap, time::Duration};

use super::{books::Shape, machine::Cpu, workload::Workload};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A consumer that only acknowledges.
    Drain,
    /// The database without the service.
    Alone {
        /// How it is asked.
        shape: Shape,
        /// Over how many connections at once.
        connections: usize,
    },
    /// One message, one transaction.
    Seed,
    /// The service, from the queue to the ack.
    Queue(Workload),
    /// Two instances of it on one queue.
    Two,
    /// The service's path without a broker.
    Ledger {
        /// Over how many lanes.
        lanes: usize,
    },
}

/// One measurement.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) events: usize,
    pub(super) took: Duration,
    pub(super) cpu: Cpu,
    pub(super) counts: BTreeMap<&'static str, u64>,
}

impl Sample {
    /// Events a second.
    pub(super) fn rate(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

impl Kind {
    /// Its name for machines.
    pub(super) fn id(self) -> String {
        match self {
            Self::Drain => "broker.drain".to_owned(),
            Self::Alone { shape, connections } => {
                let shape = match shape {
                    Shape::PerEvent => "per_event",
                    Shape::Batch => "batch",
                    Shape::Minimal => "minimal",
                };
                format!("database.{shape}.{connections}")
            }
            Self::Seed => "one_by_one".to_owned(),
            Self::Queue(workload) => format!("queue.{}", workload.name()),
            Self::Two => "queue.two_instances".to_owned(),
            Self::Ledger { lanes } => format!("ledger.{lanes}"),
        }
    }

    /// What it is, for people.
    pub(super) fn what(self) -> String {
        match self {
            Self::Drain => "broker alone: drain and ack".to_owned(),
            Self::Alone { shape, connections } => {
                let shape = match shape {
                    Shape::PerEvent => "a statement an event",
                    Shape::Batch => "raw batches",
                    Shape::Minimal => "raw batches, two narrow tables",
                };
                format!("database alone: {shape}, {connections} at once")
            }
            Self::Seed => "one event a transaction, prefetch 1".to_owned(),
            Self::Queue(workload) => format!("onceledger, queue to ack: {}", workload.name()),
            Self::Two => "onceledger, queue to ack: two instances".to_owned(),
            Self::Ledger { lanes } => format!("onceledger without a broker, {lanes} lanes"),
        }
    }

    /// Slow ones get fewer events.
    pub(super) fn events(self, events: usize) -> usize {
        let share = match self {
            Self::Seed
            | Self::Alone {
                shape: Shape::PerEvent,
                connections: 1,
            } => 20,
            Self::Alone {
                shape: Shape::PerEvent,
                ..
            } => 4,
            _ => 1,
        };
        (events / share).max(100)
    }
}
