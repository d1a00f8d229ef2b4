//! The load: what is made up ([`generator`]), how it goes through the broker
//! ([`publisher`]) and over HTTP ([`http`]).

pub(crate) mod generator;
pub(crate) mod http;
pub(crate) mod publisher;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use onceledger::tasks::Tasks;

use crate::world::World;

/// Publishers, each with a connection of its own.
const PUBLISHERS: u64 = 2;
const CALLERS: u64 = 2;

/// How long those who make the load have to end, and then those who publish it:
/// longer than a caller insists.
const END_MAX: Duration = Duration::from_secs(300);

/// The load while it runs.
pub(crate) struct Load {
    world: Arc<World>,
    makers: Tasks,
    publishers: Tasks,
}

impl Load {
    /// Starts all of it.
    pub(crate) fn start(world: &Arc<World>, rate: u64) -> Self {
        let (makers, publishers) = (Tasks::new(), Tasks::new());
        makers.spawn("generator", generator::run(world.clone(), rate));
        makers.spawn("latecomers", http::open_late(world.clone()));
        makers.spawn("impostors", http::impostors(world.clone()));
        for part in 0..CALLERS {
            makers.spawn("caller", http::call(world.clone(), part));
        }
        for _ in 0..PUBLISHERS {
            publishers.spawn("publisher", publisher::run(world.clone()));
        }
        Self {
            world: world.clone(),
            makers,
            publishers,
        }
    }

    /// Ends it: first nothing more is made, then all that was made is confirmed.
    pub(crate) async fn end(self) {
        self.world.ending.store(true, Ordering::SeqCst);
        if !self.makers.stop(END_MAX).await {
            self.world.surprise("a maker of load did not end");
        }
        self.world.all_made.store(true, Ordering::SeqCst);
        if !self.publishers.stop(END_MAX).await {
            self.world.surprise("a publisher did not end");
        }
    }
}
