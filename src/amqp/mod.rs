//! The broker's side: connections that are looked after, what is declared, and
//! the consumers that bring deliveries to the lanes and acknowledge them.
//!
//! In reading order: `consumer` subscribes, for ever; `session` is one
//! subscription from its first delivery to its last ack, over the pure tables
//! `acks`, `held` and `appetite`; `connection` and `topology` make what it
//! stands on; [`Status`] is what others may ask. What must not live here: rules
//! ([`crate::domain`]) and statements ([`crate::store`]).
//!
//! One promise above all: a delivery is acknowledged only after what it says is
//! recorded, and never given back as a way of trying again.

mod acks;
mod appetite;
mod connection;
mod consumer;
mod delivery;
mod emptiness;
mod held;
mod inspect;
mod session;
mod status;
mod topology;

use std::{sync::Arc, time::Duration};

pub use connection::parse;
pub use status::{ConnectionState, QueueState, Status};

use crate::{
    clock::Clock, config::Config, lane::Lanes, store::Store, tasks::Tasks, telemetry::Metrics,
};
use connection::Supervisor;
use consumer::Consumer;
use topology::Topology;

/// The consuming connection's purpose, as metrics and readiness name it.
const CONSUME: &str = "consume";

/// What the consumers work with.
#[derive(Clone)]
pub struct Workshop {
    /// Where events are brought.
    pub lanes: Lanes,
    /// Where messages that are no events are kept, and what is asked whether it
    /// is there.
    pub store: Arc<dyn Store>,
    /// The time of day, for dead letters.
    pub clock: Clock,
    /// Where it is counted.
    pub metrics: Metrics,
    /// A database that is away this long costs every delivery in hand one count
    /// of the delivery limit: the channel is closed once, and not opened before
    /// the database answers.
    pub database_away_max: Duration,
}

/// Starts a consumer for every configured queue, and whatever they stand on.
/// Nothing needs to be there yet: broker and queues are waited for. Each ends
/// only when `tasks` stops, having acknowledged what was recorded; the lanes may
/// stop at the same moment or later.
///
/// # Errors
/// The broker's address can't be read.
pub fn start(config: &Config, workshop: &Workshop, tasks: &Tasks) -> anyhow::Result<Status> {
    let Some(url) = &config.amqp_url else {
        return Ok(Status::default());
    };
    let uri = connection::parse(url)
        .map_err(|reason| anyhow::anyhow!("AMQP_URL can't be read: {reason}"))?;
    tracing::info!(broker = connection::place(&uri), "consuming from a broker");
    let names = config.queues.iter().map(|queue| queue.name.clone());
    let status = Status::new(&[CONSUME], names, &workshop.metrics);
    let topology = Arc::new(Topology::new(config));
    let supervisor = Supervisor {
        purpose: CONSUME,
        uri,
        topology: Some(topology.clone()),
        status: status.clone(),
    };
    let (link, supervising) = supervisor.start(tasks.stopping());
    tasks.spawn("broker connection", supervising);
    for (place, queue) in config.queues.iter().enumerate() {
        let cell = status.queue(place);
        let consumer = Consumer::new(queue, config, workshop.clone(), topology.clone(), cell);
        tasks.spawn("consumer", consumer.run(link.clone(), tasks.stopping()));
    }
    tasks.spawn(
        "queues seen empty",
        emptiness::watch(status.clone(), link, tasks.stopping()),
    );
    Ok(status)
}
