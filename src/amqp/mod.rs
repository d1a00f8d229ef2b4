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
mod dead;
mod delivery;
mod emptiness;
mod held;
mod inspect;
mod reader;
mod session;
mod status;
mod topology;

use std::{sync::Arc, time::Duration};

pub use connection::parse;
pub use status::{ConnectionState, QueueState, Status};

use crate::{
    clock::Clock,
    config::{Config, QueueConfig},
    domain::DEFAULT_TENANT,
    envelope::Origin,
    lane::Lanes,
    store::Store,
    tasks::Tasks,
    telemetry::Metrics,
};
use connection::Supervisor;
use consumer::Consumer;
use dead::Graveyard;
use reader::Reader;
use status::QueueCell;
use topology::Topology;

/// The consuming connection's purpose, as metrics and readiness name it.
const CONSUME: &str = "consume";

/// Most deliveries of the dead-letter queue in hand: as many as one transaction keeps.
const DEAD_PREFETCH: u16 = 100;

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
    /// A delivery that is held this long, for instance because its account stays
    /// locked, is given back by subscribing again: the broker closes a channel that
    /// holds one for 30 minutes
    /// (<https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout>).
    pub hold_max: Duration,
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
    let topology = Arc::new(Topology::new(config));
    let names = config.queues.iter().map(|queue| queue.name.clone());
    let dead = (topology.dead(), topology.is_own());
    let status = Status::new(&[CONSUME], names, Some(dead), &workshop.metrics);
    let supervisor = Supervisor {
        purpose: CONSUME,
        uri,
        topology: Some(topology.clone()),
        status: status.clone(),
    };
    let (link, supervising) = supervisor.start(tasks.stopping());
    tasks.spawn("broker connection", supervising);
    for (reader, prefetch, cell) in readers(config, &status) {
        let consumer = Consumer::new(reader, prefetch, workshop.clone(), topology.clone(), cell);
        tasks.spawn("consumer", consumer.run(link.clone(), tasks.stopping()));
    }
    tasks.spawn(
        "queues seen empty",
        emptiness::watch(status.clone(), link, tasks.stopping()),
    );
    Ok(status)
}

/// Who reads which queue, and how much it takes at once: the configured queues, and
/// the broker's dead-letter queue.
fn readers(config: &Config, status: &Status) -> Vec<(Reader, u16, Arc<QueueCell>)> {
    let origins: Vec<Origin> = config.queues.iter().map(|it| origin(it, config)).collect();
    let mut readers = Vec::new();
    for cell in status.cells() {
        let queue = config.queues.iter().position(|it| it.name == cell.name);
        readers.push(match queue {
            Some(place) => {
                let prefetch = config.queues[place].prefetch.unwrap_or(config.prefetch);
                (
                    Reader::Events(origins[place].clone()),
                    prefetch,
                    cell.clone(),
                )
            }
            None => {
                let tenant = DEFAULT_TENANT.into();
                let graveyard = Graveyard::new(&cell.name, &tenant, origins.clone());
                (Reader::Dead(graveyard), DEAD_PREFETCH, cell.clone())
            }
        });
    }
    readers
}

fn origin(queue: &QueueConfig, config: &Config) -> Origin {
    Origin {
        tenant: queue.tenant.clone(),
        queue: queue.name.clone(),
        source: queue.source.clone(),
        scope: queue.scope.clone(),
        kind: queue.kind,
        body_names_source: false,
        event_bytes_max: config.event_bytes_max,
    }
}
