//! The running service: which parts it has, and in which order they start and
//! stop.
//!
//! **Start.** HTTP answers first, so that probes have somebody to ask. Then the
//! database is waited for without a last attempt, its schema is brought up to
//! date (or only checked), and only then do the sweeper and the consumers begin:
//! no message is taken before it could be written. The broker is waited for by
//! the consumers themselves. A schema that this program can't work with ends it.
//!
//! **Stop** (SIGTERM, SIGINT), within ten seconds: the consumers cancel, finish
//! what is in hand and acknowledge it; HTTP takes nothing new and finishes its
//! requests; the sweeper and the watcher end; the lanes finish what they were
//! given; the copies counted are written; the store is closed. What does not end
//! in its time is left: nothing of it was acknowledged, so it comes again.
//!
//! What must not live here: settings, rules, statements.

pub(crate) mod books;
mod late;
mod parts;

use std::{future::Future, sync::Arc, time::Duration};

use anyhow::bail;
use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::{net::TcpListener, sync::oneshot};

use self::{
    books::{Schema, Unopened},
    late::LateStore,
    parts::Parts,
};
use crate::{
    amqp,
    clock::Clock,
    config::Config,
    copies::Copies,
    http,
    lane::{Gathering, Lanes},
    ledger::Ledger,
    store::{Store, StoreError},
    sweeper::{self, Sweeper},
    tasks::Tasks,
    telemetry::Metrics,
};

/// How often the database is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(1);

/// A ping that takes longer has failed.
const PING_MAX: Duration = Duration::from_secs(2);

/// Deliveries are held for a database that is away no longer than this.
const DATABASE_AWAY_MAX: Duration = Duration::from_secs(60);

/// No delivery is held longer, for whatever reason. The broker's limit is 30 minutes.
const HOLD_MAX: Duration = Duration::from_secs(20 * 60);

/// How long each part may take to stop; together less than ten seconds.
const CONSUMERS_STOP: Duration = Duration::from_millis(5_000);
const HTTP_STOP: Duration = Duration::from_millis(1_500);
const SWEEPER_STOP: Duration = Duration::from_millis(500);
const LANES_STOP: Duration = Duration::from_millis(1_500);
const COPIES_STOP: Duration = Duration::from_millis(500);
const STORE_STOP: Duration = Duration::from_millis(500);

/// Starts the service.
#[derive(Debug)]
pub struct App;

/// A service that was started. It works from the start, but for HTTP, which
/// works while it is being served.
pub struct Running {
    store: Arc<dyn Store>,
    parts: Arc<Parts>,
    api: http::Api,
    groups: Groups,
    /// Says why the service can't work, should that turn out.
    hopeless: oneshot::Receiver<anyhow::Error>,
}

/// The tasks, by when they stop.
#[derive(Clone, Default)]
struct Groups {
    consumers: Tasks,
    http: Tasks,
    sweeper: Tasks,
    lanes: Tasks,
    copies: Tasks,
}

impl App {
    /// Starts everything but HTTP. The database and the broker need not be there.
    #[must_use]
    pub fn start(config: Config, clock: Clock) -> Running {
        let metrics = Metrics::default();
        let groups = Groups::default();
        let late = Arc::new(LateStore::default());
        let store: Arc<dyn Store> = late.clone();
        let parts = Arc::new(Parts::new(&config, &metrics));
        let lanes = lanes(&config, &store, &clock, &metrics, &groups);
        let readiness = parts.clone();
        let api = http::Api {
            store: store.clone(),
            lanes: lanes.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            limits: http::Limits {
                event_bytes_max: config.event_bytes_max,
                body_bytes_max: config.body_bytes_max,
            },
            readiness: Arc::new(move || readiness.readiness()),
        };
        let (hopeless, why) = oneshot::channel();
        let rest = Rest {
            config,
            late,
            parts: parts.clone(),
            workshop: amqp::Workshop {
                lanes,
                store: store.clone(),
                clock,
                metrics,
                database_away_max: DATABASE_AWAY_MAX,
                hold_max: HOLD_MAX,
            },
            groups: groups.clone(),
        };
        groups.sweeper.spawn("database", rest.run(hopeless));
        Running {
            store,
            parts,
            api,
            groups,
            hopeless: why,
        }
    }
}

fn lanes(
    config: &Config,
    store: &Arc<dyn Store>,
    clock: &Clock,
    metrics: &Metrics,
    groups: &Groups,
) -> Lanes {
    let copies = Copies::default();
    let counting = copies
        .clone()
        .run(store.clone(), clock.clone(), groups.copies.stopping());
    groups.copies.spawn("copies", counting);
    let ledgers = Ledger::for_lanes(config.lanes, store, clock, metrics, &copies);
    let gathering = Gathering {
        batch_max: config.batch_max,
        linger: Duration::from_millis(config.batch_linger_ms),
    };
    Lanes::start(ledgers, gathering, &groups.lanes)
}

/// What starts once the database is there.
struct Rest {
    config: Config,
    late: Arc<LateStore>,
    parts: Arc<Parts>,
    workshop: amqp::Workshop,
    groups: Groups,
}

impl Rest {
    /// Waits for the database, starts the rest, and watches the database.
    async fn run(self, hopeless: oneshot::Sender<anyhow::Error>) {
        let stop = self.groups.sweeper.stopping();
        match stop.run_until_cancelled(self.open()).await {
            None => return,
            Some(Err(error)) => {
                // Nobody listens only where the service is stopping anyway.
                let _ = hopeless.send(error.into());
                return;
            }
            Some(Ok(store)) => self.late.arrived(store),
        }
        self.parts.database(Ok(()));
        self.start_sweeper();
        match amqp::start(&self.config, &self.workshop, &self.groups.consumers) {
            Ok(status) => self.parts.consuming(status),
            Err(error) => {
                let _ = hopeless.send(error);
                return;
            }
        }
        // A ping that is given up leaves nothing behind.
        let _ = stop.run_until_cancelled(self.watch()).await;
    }

    /// Fails only where waiting does not help.
    async fn open(&self) -> Result<Arc<dyn Store>, Unopened> {
        let schema = if self.config.migrate {
            Schema::Migrate
        } else {
            Schema::Check
        };
        let mut delays = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(2))
            .without_max_times()
            .with_jitter()
            .build();
        loop {
            match books::open(&self.config, schema).await {
                Ok(store) => return Ok(store),
                Err(unopened) if unopened.hopeless => return Err(unopened),
                Err(unopened) => self.parts.database(Err(&unopened.error)),
            }
            tokio::time::sleep(delays.next().unwrap_or(PING_EVERY)).await;
        }
    }

    fn start_sweeper(&self) {
        let parts = self.parts.clone();
        let sweeper = Sweeper::new(
            self.workshop.store.clone(),
            self.workshop.lanes.clone(),
            self.workshop.clock.clone(),
            sweeper::Limits {
                park_limit_secs: self.config.park_limit_secs,
                expiry_grace_secs: self.config.expiry_grace_secs,
            },
            Box::new(move || parts.look_at_queues()),
        );
        let every = Duration::from_secs(self.config.sweep_secs);
        let sweeping = sweeper.run(every, self.groups.sweeper.stopping());
        self.groups.sweeper.spawn("sweeper", sweeping);
    }

    /// Asks every second, and as soon as a call finds the database away.
    async fn watch(&self) {
        let store = &self.workshop.store;
        let pause = async || {
            let _ = tokio::time::timeout(PING_EVERY, self.late.suspected()).await;
        };
        let mut silent = 0;
        loop {
            pause().await;
            let state = loop {
                match tokio::time::timeout(PING_MAX, store.ping()).await {
                    Ok(answer) => break answer,
                    // Once may be a slow moment; a server that went without a word
                    // does not answer the second time either.
                    Err(_) if silent == 0 => silent = 1,
                    Err(_) => break Err(StoreError::Away("no answer to a ping".to_owned())),
                }
            };
            if state.is_ok() {
                silent = 0;
            }
            self.late.stands(state.as_ref().copied());
            self.parts.database(state.as_ref().copied());
        }
    }
}

impl Running {
    /// Serves HTTP until told to stop, then stops everything in order.
    ///
    /// # Errors
    /// Where the service can't work, or a part of it died.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let Self {
            store,
            parts,
            api,
            groups,
            hopeless,
        } = self;
        let serving = http::serve(
            listener,
            http::router(api),
            groups.http.stopping().cancelled_owned(),
        );
        groups.http.spawn("http", async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "HTTP can't be served any more");
            }
        });
        let end = tokio::select! {
            () = shutdown => Ok(()),
            Ok(error) = hopeless => Err(error),
            () = groups.part_died() => bail_died(),
        };
        tracing::info!("stopping");
        groups.stop().await;
        if tokio::time::timeout(STORE_STOP, store.close())
            .await
            .is_err()
        {
            tracing::warn!("the database's connections did not close in time");
        }
        tracing::info!("stopped");
        drop(parts);
        end
    }
}

fn bail_died() -> anyhow::Result<()> {
    bail!("a part of the service died; see the log")
}

impl Groups {
    /// Ends when a task of any group panicked.
    async fn part_died(&self) {
        let parts = [
            self.consumers.stopping(),
            self.http.stopping(),
            self.sweeper.stopping(),
            self.lanes.stopping(),
            self.copies.stopping(),
        ];
        futures_util::future::select_all(parts.map(|part| Box::pin(part.cancelled_owned()))).await;
    }

    /// Stops one after the other: those who take before those who write.
    async fn stop(&self) {
        for (part, group, at_most) in [
            ("consumers", &self.consumers, CONSUMERS_STOP),
            ("http", &self.http, HTTP_STOP),
            ("sweeper", &self.sweeper, SWEEPER_STOP),
            ("lanes", &self.lanes, LANES_STOP),
            ("copies", &self.copies, COPIES_STOP),
        ] {
            if !group.stop(at_most).await {
                tracing::warn!(part, "did not stop in time and is left");
            }
        }
    }
}
