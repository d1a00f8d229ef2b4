//! What is known of the parts that the service stands on: for `/readyz`, for the
//! sweeper, and for the log.
//!
//! What must not live here: doing anything about it.

use std::{
    collections::BTreeMap,
    mem::{Discriminant, discriminant},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use prometheus_client::metrics::gauge::Gauge;

use crate::{
    amqp::{ConnectionState, QueueState, Status},
    config::Config,
    http::{BrokerState, Readiness},
    store::StoreError,
    sweeper::Queues,
    telemetry::Metrics,
};

/// The parts and how they stand; read at every probe, so nothing here waits.
pub(super) struct Parts {
    database: AtomicBool,
    /// What was said last about the database: nothing, that it answers, or the
    /// kind of its failure.
    database_told: Mutex<Option<Option<Discriminant<StoreError>>>>,
    database_up: Gauge,
    database_writable: Gauge,
    /// The broker's view, from when the consumers were started.
    broker: OnceLock<Status>,
    /// The queues to be consumed; none without a broker.
    queues: Vec<Arc<str>>,
    broker_configured: bool,
}

impl Parts {
    pub(super) fn new(config: &Config, metrics: &Metrics) -> Self {
        let broker_configured = config.amqp_url.is_some();
        let queues = config.queues.iter().map(|queue| queue.name.clone());
        Self {
            database: AtomicBool::new(false),
            database_told: Mutex::default(),
            database_up: metrics.database_up.clone(),
            database_writable: metrics.database_writable.clone(),
            broker: OnceLock::new(),
            queues: if broker_configured {
                queues.collect()
            } else {
                Vec::new()
            },
            broker_configured,
        }
    }

    /// Notes how the database stands; a change is logged, once.
    pub(super) fn database(&self, state: Result<(), &StoreError>) {
        let up = state.is_ok();
        self.database.store(up, Ordering::Release);
        let answers = up || matches!(state, Err(StoreError::Unwritable(_)));
        self.database_up.set(i64::from(answers));
        self.database_writable.set(i64::from(up));
        let news = Some(state.err().map(discriminant));
        {
            let told = self.database_told.lock();
            let mut told = told.unwrap_or_else(PoisonError::into_inner);
            if std::mem::replace(&mut *told, news) == news {
                return;
            }
        }
        match state {
            Ok(()) => tracing::info!("the database answers"),
            Err(error) => {
                tracing::warn!(%error, "the database can't be worked with; trying on without a last attempt");
            }
        }
    }

    /// The consumers were started.
    pub(super) fn consuming(&self, status: Status) {
        // Started once.
        let _ = self.broker.set(status);
    }

    /// What `/readyz` shows.
    pub(super) fn readiness(&self) -> Readiness {
        let mut queues: BTreeMap<String, bool> = self
            .queues
            .iter()
            .map(|name| (name.to_string(), false))
            .collect();
        let states = self.broker.get().map_or_else(Vec::new, Status::queues);
        queues.extend(
            states
                .into_iter()
                .map(|(name, state)| (name.to_string(), state == QueueState::Consuming)),
        );
        Readiness {
            database: self.database.load(Ordering::Acquire),
            broker: self.broker(),
            queues,
        }
    }

    fn broker(&self) -> BrokerState {
        if !self.broker_configured {
            return BrokerState::NotConfigured;
        }
        let connections = self.broker.get().map_or_else(Vec::new, Status::connections);
        let any = |wanted: fn(&ConnectionState) -> bool| {
            connections.iter().any(|(_, state)| wanted(state))
        };
        if connections.is_empty() || any(|state| matches!(state, ConnectionState::Away(_))) {
            BrokerState::Down
        } else if any(|state| matches!(state, ConnectionState::Blocked(_))) {
            BrokerState::Blocked
        } else {
            BrokerState::Up
        }
    }

    /// What the sweeper asks before anything expires.
    pub(super) fn look_at_queues(&self) -> Queues {
        if !self.broker_configured {
            return Queues::None;
        }
        match self.broker.get() {
            Some(status) if status.ready() => Queues::Consumed {
                undisturbed: status
                    .last_interrupted()
                    .map(|since| since.elapsed())
                    .unwrap_or_default(),
                seen_empty: status.queues_seen_empty(),
            },
            _ => Queues::Away,
        }
    }
}
