//! The load: what is made up ([`generator`]), how it goes through the broker
//! ([`publisher`]) and over HTTP ([`http`]).

pub(crate) mod generator;
pub(crate) mod http;
pub(crate) mod publisher;

use std::sync::Arc;

use onceledger::tasks::Tasks;

use crate::world::World;

/// Publishers, each with a connection of its own.
const PUBLISHERS: u64 = 2;
const CALLERS: u64 = 2;

/// Starts all of it; it ends by itself after [`World::ending`].
pub(crate) fn start(world: &Arc<World>, tasks: &Tasks, rate: u64) {
    tasks.spawn("generator", generator::run(world.clone(), rate));
    tasks.spawn("latecomers", http::open_late(world.clone()));
    tasks.spawn("impostors", http::impostors(world.clone()));
    for _ in 0..PUBLISHERS {
        tasks.spawn("publisher", publisher::run(world.clone()));
    }
    for part in 0..CALLERS {
        tasks.spawn("caller", http::call(world.clone(), part));
    }
}
