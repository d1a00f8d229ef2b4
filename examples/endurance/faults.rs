//! What is broken, and when: a deck of faults, shuffled by the seed, dealt one
//! every ten to twenty seconds. What must not live here: what must hold then.

use std::{sync::Arc, time::Duration};

use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, sleep};

use crate::{
    instance::Instance,
    rng::Rng,
    servers::{Postgres, RabbitMq},
    world::World,
};

/// How long everybody has to be ready again after a fault.
const READY_MAX: Duration = Duration::from_secs(120);
const BETWEEN_SECS: (u64, u64) = (10, 20);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    KillAll,
    Terminate,
    Stall,
    StallLong,
    PostgresFast,
    PostgresImmediate,
    PostgresCrash,
    PostgresAndInstance,
    SessionsEnded,
    RowLocked,
    BrokerStopped,
    BrokerCrash,
    ConnectionsClosed,
    MemoryAlarm,
}

/// How often each is in the deck.
const DECK: [(Fault, usize); 15] = [
    (Fault::Kill, 4),
    (Fault::KillAll, 1),
    (Fault::Terminate, 3),
    (Fault::Stall, 2),
    (Fault::StallLong, 1),
    (Fault::PostgresFast, 1),
    (Fault::PostgresImmediate, 1),
    (Fault::PostgresCrash, 1),
    (Fault::PostgresAndInstance, 1),
    (Fault::SessionsEnded, 2),
    (Fault::RowLocked, 2),
    (Fault::BrokerStopped, 1),
    (Fault::BrokerCrash, 1),
    (Fault::ConnectionsClosed, 2),
    (Fault::MemoryAlarm, 1),
];

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "an instance killed (SIGKILL), started after 0–5 s",
            Self::KillAll => "all instances killed at once, started after 0–30 s",
            Self::Terminate => "an instance told to stop (SIGTERM), started again",
            Self::Stall => "an instance stalled (SIGSTOP) for 3–12 s",
            Self::StallLong => "an instance stalled (SIGSTOP) for 30–60 s",
            Self::PostgresFast => "PostgreSQL restarted (fast)",
            Self::PostgresImmediate => "PostgreSQL restarted (immediate: recovery)",
            Self::PostgresCrash => "PostgreSQL killed (SIGKILL: recovery)",
            Self::PostgresAndInstance => "PostgreSQL and an instance killed at once",
            Self::SessionsEnded => "every database session ended by the server",
            Self::RowLocked => "an account's row locked for 3–8 s",
            Self::BrokerStopped => "RabbitMQ stopped (stop_app) for 2–10 s",
            Self::BrokerCrash => "RabbitMQ killed (SIGKILL), started after 0–5 s",
            Self::ConnectionsClosed => "every AMQP connection closed by the broker",
            Self::MemoryAlarm => "a memory alarm for 5–15 s",
        }
    }
}

/// The servers, and the order of what happens to them.
pub(crate) struct Faults {
    world: Arc<World>,
    pub(crate) postgres: Postgres,
    pub(crate) rabbitmq: RabbitMq,
    rng: Rng,
    deck: Vec<Fault>,
}

impl Faults {
    pub(crate) fn new(world: Arc<World>, postgres: Postgres, rabbitmq: RabbitMq) -> Self {
        let rng = Rng::new(world.seed, 4);
        Self {
            world,
            postgres,
            rabbitmq,
            rng,
            deck: Vec::new(),
        }
    }

    /// Breaks one thing after the other for so long.
    ///
    /// # Errors
    /// A server could not be started again: the run can't go on.
    pub(crate) async fn run(&mut self, minutes: f64) -> anyhow::Result<()> {
        let until = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
        loop {
            let pause = self.seconds(BETWEEN_SECS);
            if Instant::now() + pause >= until {
                sleep(until.saturating_duration_since(Instant::now())).await;
                return Ok(());
            }
            sleep(pause).await;
            let fault = self.deal();
            self.world.say(fault.name());
            self.commit(fault).await?;
            self.recovered(fault).await;
        }
    }

    fn deal(&mut self) -> Fault {
        if self.deck.is_empty() {
            let cards = DECK.iter().flat_map(|(fault, many)| vec![*fault; *many]);
            self.deck = cards.collect();
            self.rng.shuffle(&mut self.deck);
        }
        self.deck.pop().unwrap_or(Fault::Kill)
    }

    fn seconds(&mut self, (low, high): (u64, u64)) -> Duration {
        Duration::from_millis(self.rng.between(low * 1000, high * 1000))
    }

    fn victim(&mut self, world: &Arc<World>) -> usize {
        self.rng.below(world.instances.len() as u64) as usize
    }

    async fn commit(&mut self, fault: Fault) -> anyhow::Result<()> {
        let world = self.world.clone();
        let one = &world.instances[self.victim(&world)];
        let pause = self.seconds((0, 5));
        match fault {
            Fault::Kill => {
                one.kill().await;
                sleep(pause).await;
                one.start().await?;
            }
            Fault::KillAll => {
                for instance in &world.instances {
                    instance.kill().await;
                }
                // Long enough for a queue that is worth the name.
                let pause = self.seconds((0, 30));
                sleep(pause).await;
                for instance in &world.instances {
                    instance.start().await?;
                }
            }
            Fault::Terminate => {
                self.terminate(one).await;
                sleep(pause).await;
                one.start().await?;
            }
            Fault::Stall => self.stall(one, (3, 12)).await,
            Fault::StallLong => self.stall(one, (30, 60)).await,
            Fault::PostgresFast => self.restart_postgres("INT", pause).await?,
            Fault::PostgresImmediate => self.restart_postgres("QUIT", pause).await?,
            Fault::PostgresCrash => self.restart_postgres("KILL", pause).await?,
            Fault::PostgresAndInstance => {
                one.kill().await;
                self.restart_postgres("KILL", pause).await?;
                one.start().await?;
            }
            Fault::SessionsEnded => self.end_sessions().await?,
            Fault::RowLocked => self.lock_row().await?,
            Fault::BrokerStopped => {
                self.rabbitmq.control(&["stop_app"]).await?;
                let pause = self.seconds((2, 10));
                sleep(pause).await;
                self.rabbitmq.control(&["start_app"]).await?;
            }
            Fault::BrokerCrash => {
                self.rabbitmq.end("KILL").await?;
                sleep(pause).await;
                self.rabbitmq.launch().await?;
            }
            Fault::ConnectionsClosed => {
                let reason = "the endurance run";
                self.rabbitmq
                    .control(&["close_all_connections", reason])
                    .await?;
            }
            Fault::MemoryAlarm => {
                let alarm = ["set_vm_memory_high_watermark", "0.000001"];
                self.rabbitmq.control(&alarm).await?;
                let pause = self.seconds((5, 15));
                sleep(pause).await;
                let over = ["set_vm_memory_high_watermark", "0.4"];
                self.rabbitmq.control(&over).await?;
            }
        }
        Ok(())
    }

    async fn stall(&mut self, instance: &Instance, within: (u64, u64)) {
        instance.signal("STOP").await;
        let pause = self.seconds(within);
        sleep(pause).await;
        instance.signal("CONT").await;
    }

    async fn terminate(&self, instance: &Instance) {
        stop(&self.world, instance).await;
    }

    async fn restart_postgres(&mut self, signal: &str, pause: Duration) -> anyhow::Result<()> {
        self.postgres.end(signal).await?;
        sleep(pause).await;
        self.postgres.launch().await
    }

    async fn end_sessions(&self) -> anyhow::Result<()> {
        let mut admin = PgConnection::connect(&self.world.database).await?;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        sqlx::query(end).execute(&mut admin).await?;
        Ok(admin.close().await?)
    }

    async fn lock_row(&mut self) -> anyhow::Result<()> {
        let mut admin = PgConnection::connect(&self.world.database).await?;
        let mut transaction = admin.begin().await?;
        let lock = "SELECT FROM account WHERE account_id = $1 FOR UPDATE";
        let id = format!("chain-{}", self.rng.below(40));
        sqlx::query(lock)
            .bind(id)
            .execute(&mut *transaction)
            .await?;
        let pause = self.seconds((3, 8));
        sleep(pause).await;
        transaction.rollback().await?;
        Ok(admin.close().await?)
    }

    /// Waits until every instance is ready again.
    async fn recovered(&self, fault: Fault) {
        let world = &self.world;
        let waiting = world
            .instances
            .iter()
            .map(|instance| instance.ready(READY_MAX));
        let took = futures_util::future::join_all(waiting).await;
        for (instance, took) in world.instances.iter().zip(&took) {
            if took.is_none() {
                let (who, what) = (&instance.name, fault.name());
                world.surprise(format!("{who} is not ready {READY_MAX:?} after: {what}"));
            }
        }
        let longest = took.into_iter().map(|took| took.unwrap_or(READY_MAX)).max();
        world.fault(fault.name(), longest.unwrap_or_default());
    }
}

/// Stops one instance as an operator would, and notes how.
pub(crate) async fn stop(world: &World, instance: &Instance) {
    use std::sync::atomic::Ordering;
    match instance.terminate().await {
        Ok(took) => {
            crate::world::count(&world.figures.stopped);
            let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            world
                .figures
                .longest_stop_ms
                .fetch_max(took, Ordering::Relaxed);
        }
        Err(error) => world.surprise(format!("{error:#}")),
    }
}
