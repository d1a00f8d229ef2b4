//! One sample of each case, and what they stand on.
//!
//! What must not live here: the order of the rounds, and what is made of samples.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use tokio::time::Instant;

use super::{
    Options, Progress,
    books::{Books, Shape, Standing},
    broker::Broker,
    latency::{Latency, Stopwatch},
    machine::{Cpu, Machine},
    memory,
    report::{Memory, Report},
    seed,
    service::{Counted, Outcomes, Service, Watch},
    site::Site,
    workload::{Accounts, Draft, Workload, Workshop},
};
use crate::{
    clock::Clock,
    config::Config,
    store::{self, Store, StoreOptions},
    tasks::Tasks,
};

/// Connections that the database alone is measured with at most.
const CONNECTIONS: u32 = 32;

/// Entries that are added at once while the books grow.
const GROWTH_STEP: u64 = 250_000;

/// After so long consumers have subscribed.
const SUBSCRIBED: Duration = Duration::from_millis(500);

/// How long consumers may take to stop.
const STOP_MAX: Duration = Duration::from_secs(10);

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
    fn events(self, events: usize) -> usize {
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

/// One or more instances of the service, with accounts of their own: what another
/// one writes is never stale in a cache of these.
struct Team {
    workshop: Workshop,
    services: Vec<Service>,
}

/// Everything that is measured, started.
pub(super) struct Bench {
    config: Config,
    queue: String,
    other_queue: String,
    broker: Option<Broker>,
    books: Books,
    store: Arc<dyn Store>,
    clock: Clock,
    machine: Machine,
    batch: usize,
    /// The accounts of the database alone.
    alone: Workshop,
    standing: Standing,
    /// The same in the two narrow tables.
    minimal: Standing,
    /// Whose events name versions: no others may move these accounts.
    shuffled: Workshop,
    /// As configured.
    main: Team,
    /// With one lane, where that is not how it is configured.
    narrow: Option<Team>,
    /// Two instances.
    pair: Team,
    entries: u64,
}

impl Bench {
    /// Connects, makes the schema, and opens all accounts.
    pub(super) async fn start(
        site: &Site,
        options: &Options,
        run: u64,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let config = &site.config;
        progress.say("making a schema of its own");
        store::migrate(&config.database_url).await?;
        let store = open(config).await?;
        let books = Books::connect(&config.database_url, CONNECTIONS).await?;
        let broker = match &config.amqp_url {
            Some(url) => Some(Broker::connect(url).await?),
            None => None,
        };
        if let Some(broker) = &broker {
            broker.declare(&site.other_queue()).await?;
        }
        let workshop = |prefix: &'static str, part: u64| {
            let accounts = Accounts {
                prefix,
                count: options.accounts,
            };
            Workshop::new(
                run.wrapping_add(part),
                options.seed.wrapping_add(part),
                accounts,
            )
        };
        let narrow = Config {
            lanes: 1,
            ..config.clone()
        };
        let mut bench = Self {
            queue: site.queue(),
            other_queue: site.other_queue(),
            books,
            clock: Clock::system(),
            machine: Machine::new()?,
            batch: config.batch_max,
            alone: workshop("alone", 1),
            standing: Standing::default(),
            minimal: Standing::default(),
            shuffled: workshop("turn", 5),
            main: Team {
                workshop: workshop("acct", 2),
                services: vec![Service::start(config.clone(), store.clone())],
            },
            narrow: (config.lanes != 1).then(|| Team {
                workshop: workshop("narrow", 3),
                services: vec![Service::start(narrow, store.clone())],
            }),
            pair: Team {
                workshop: workshop("pair", 4),
                services: if broker.is_some() {
                    vec![
                        Service::start(config.clone(), store.clone()),
                        Service::start(config.clone(), open(config).await?),
                    ]
                } else {
                    Vec::new()
                },
            },
            config: config.clone(),
            broker,
            store,
            entries: 0,
        };
        bench.open_accounts(progress).await?;
        bench.declare().await?;
        Ok(bench)
    }

    async fn open_accounts(&mut self, progress: &Progress) -> anyhow::Result<()> {
        let opener = &self.main.services[0];
        let mut all = vec![
            (opener, self.alone.accounts()),
            (opener, self.main.workshop.accounts()),
        ];
        if let Some(narrow) = &self.narrow {
            all.push((&narrow.services[0], narrow.workshop.accounts()));
        }
        if let Some(one) = self.pair.services.first() {
            all.push((one, self.pair.workshop.accounts()));
            all.push((opener, self.shuffled.accounts()));
        }
        for (service, accounts) in all {
            progress.say(&format!("opening {} accounts", accounts.count));
            service.open(accounts).await?;
            self.entries += u64::from(accounts.count);
        }
        let alone = self.alone.accounts();
        let rows = self.books.rows(alone).await?;
        self.books.make_minimal(&rows).await?;
        self.minimal = Standing::opened(alone, rows.clone());
        self.standing = Standing::opened(alone, rows);
        Ok(())
    }

    /// Lets the service declare its queue.
    async fn declare(&self) -> anyhow::Result<()> {
        let Some(broker) = &self.broker else {
            return Ok(());
        };
        let consuming = Tasks::new();
        self.main.services[0].consume(&Watch::new(0, None), &consuming)?;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if broker.ready(&self.queue).await.is_ok() {
                break;
            }
        }
        ensure!(
            consuming.stop(STOP_MAX).await,
            "the consumers did not stop in time"
        );
        broker.ready(&self.queue).await.map(drop)
    }

    /// Everything that is measured here, in the order of a round.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        let alone = |shape| {
            let connections = self.books.connections(shape).iter();
            connections.map(move |connections| Kind::Alone {
                shape,
                connections: *connections,
            })
        };
        if self.broker.is_some() {
            kinds.push(Kind::Drain);
        }
        kinds.extend(alone(Shape::PerEvent));
        kinds.extend(alone(Shape::Batch));
        if matches!(self.books, Books::Postgres(_)) {
            kinds.extend(alone(Shape::Minimal));
        }
        if self.narrow.is_some() {
            kinds.push(Kind::Ledger { lanes: 1 });
        }
        kinds.push(Kind::Ledger {
            lanes: self.config.lanes,
        });
        if self.broker.is_some() {
            kinds.push(Kind::Seed);
            kinds.extend(super::workloads().map(Kind::Queue));
            kinds.push(Kind::Two);
        }
        kinds
    }

    /// What it is measured on.
    pub(super) async fn about(&mut self, options: &Options) -> anyhow::Result<Report> {
        let settings = [
            ("prefetch", u64::from(self.config.prefetch)),
            ("batch_max", self.config.batch_max as u64),
            ("batch_linger_ms", self.config.batch_linger_ms),
            ("lanes", self.config.lanes as u64),
        ];
        Ok(Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            arguments: options.arguments.clone(),
            machine: self.machine.about(),
            database: self.books.about().await?,
            broker: self.broker.as_ref().map(Broker::about),
            settings: settings
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            rounds: options.rounds,
            accounts: options.accounts,
            ..Report::default()
        })
    }

    /// Adds entries until the books hold so many; says at how many rows which rate
    /// was reached.
    pub(super) async fn grow(
        &mut self,
        history: u64,
        progress: &Progress,
    ) -> anyhow::Result<Vec<(u64, f64)>> {
        let mut growth = Vec::new();
        while self.entries < history {
            progress.say(&format!(
                "growing the books: {} of {history} entries",
                self.entries
            ));
            let count = GROWTH_STEP.min(history - self.entries);
            let sample = self.ledger(self.config.lanes, count as usize).await?;
            growth.push((self.entries, sample.rate()));
        }
        Ok(growth)
    }

    /// Measures one case once.
    pub(super) async fn sample(&mut self, kind: Kind, events: usize) -> anyhow::Result<Sample> {
        let events = kind.events(events);
        match kind {
            Kind::Drain => self.drained(events).await,
            Kind::Alone { shape, connections } => self.alone(shape, connections, events).await,
            Kind::Seed => self.one_by_one(events).await,
            Kind::Queue(workload) => self.queue(workload, events).await,
            Kind::Two => self.two(events).await,
            Kind::Ledger { lanes } => self.ledger(lanes, events).await,
        }
    }

    async fn drained(&mut self, events: usize) -> anyhow::Result<Sample> {
        let drafts = self.alone.sample(Workload::Spread, events);
        let broker = needed(self.broker.as_ref())?;
        fill(broker, &self.other_queue, &self.alone, &drafts).await?;
        let before = self.machine.spent();
        let took = broker
            .drain(&self.other_queue, events, self.config.prefetch)
            .await?;
        Ok(self.taken(events, took, &before))
    }

    async fn alone(
        &mut self,
        shape: Shape,
        connections: usize,
        events: usize,
    ) -> anyhow::Result<Sample> {
        let drafts = self.alone.sample(Workload::Spread, events);
        let minimal = shape == Shape::Minimal;
        let standing = if minimal {
            &mut self.minimal
        } else {
            &mut self.standing
        };
        let entries = standing.entries(&drafts, &self.alone, self.clock.now());
        let before = self.machine.spent();
        let took = self
            .books
            .write(shape, entries, self.batch, connections)
            .await?;
        if !minimal {
            self.entries += events as u64;
        }
        Ok(self.taken(events, took, &before))
    }

    async fn one_by_one(&mut self, events: usize) -> anyhow::Result<Sample> {
        let drafts = self.alone.sample(Workload::Spread, events);
        let broker = needed(self.broker.as_ref())?;
        fill(broker, &self.other_queue, &self.alone, &drafts).await?;
        let entries = self
            .standing
            .entries(&drafts, &self.alone, self.clock.now());
        let before = self.machine.spent();
        let took = seed::consume(broker, &self.other_queue, &self.books, entries, None).await?;
        self.entries += events as u64;
        Ok(self.taken(events, took, &before))
    }

    async fn queue(&mut self, workload: Workload, events: usize) -> anyhow::Result<Sample> {
        let workshop = match workload {
            Workload::Shuffled => &mut self.shuffled,
            _ => &mut self.main.workshop,
        };
        let drafts = workshop.sample(workload, events);
        let broker = needed(self.broker.as_ref())?;
        fill(broker, &self.queue, workshop, &drafts).await?;
        let service = &self.main.services[0];
        let watch = Watch::new(events, None);
        let counted = service.counted();
        let before = self.machine.spent();
        let took = service.drain(&watch).await?;
        let sample = self.taken(events, took, &before);
        self.entries += watch.outcomes().entries();
        checked(
            sample,
            watch.outcomes(),
            self.main.services[0].counted() - counted,
        )
    }

    async fn two(&mut self, events: usize) -> anyhow::Result<Sample> {
        let drafts = self.pair.workshop.sample(Workload::Spread, events);
        let broker = needed(self.broker.as_ref())?;
        fill(broker, &self.queue, &self.pair.workshop, &drafts).await?;
        let [one, other] = self.pair.services.as_slice() else {
            bail!("there are not two instances");
        };
        let watch = Watch::new(events, None);
        let counted = one.counted() + other.counted();
        let before = self.machine.spent();
        let (first, second) = tokio::try_join!(one.drain(&watch), other.drain(&watch))?;
        let counted = one.counted() + other.counted() - counted;
        let sample = self.taken(events, first.max(second), &before);
        self.entries += watch.outcomes().entries();
        checked(sample, watch.outcomes(), counted)
    }

    async fn ledger(&mut self, lanes: usize, events: usize) -> anyhow::Result<Sample> {
        let team = match &mut self.narrow {
            Some(narrow) if lanes == 1 => narrow,
            _ => &mut self.main,
        };
        let drafts = team.workshop.sample(Workload::Spread, events);
        let bodies: Vec<Vec<u8>> = drafts
            .iter()
            .map(|draft| team.workshop.body(draft))
            .collect();
        let service = &team.services[0];
        let counted = service.counted();
        let before = self.machine.spent();
        let (took, outcomes) = service.feed(&bodies).await?;
        let counted = service.counted() - counted;
        self.entries += outcomes.entries();
        checked(self.taken(events, took, &before), outcomes, counted)
    }

    fn taken(&mut self, events: usize, took: Duration, before: &super::machine::Spent) -> Sample {
        Sample {
            events,
            took,
            cpu: self.machine.since(before),
            counts: BTreeMap::new(),
        }
    }

    /// Events a second that are published and committed at the same time.
    pub(super) async fn throughput(&mut self, events: usize) -> anyhow::Result<f64> {
        let drafts = self.main.workshop.sample(Workload::Spread, events);
        let broker = needed(self.broker.as_ref())?;
        let watch = Watch::new(events, None);
        let consuming = Tasks::new();
        self.main.services[0].consume(&watch, &consuming)?;
        tokio::time::sleep(SUBSCRIBED).await;
        let began = Instant::now();
        fill(broker, &self.queue, &self.main.workshop, &drafts).await?;
        watch.finished().await?;
        let took = began.elapsed();
        ensure!(
            consuming.stop(STOP_MAX).await,
            "the consumers did not stop in time"
        );
        self.entries += events as u64;
        Ok(events as f64 / took.as_secs_f64())
    }

    /// How long events take that come at a steady rate.
    pub(super) async fn latency(
        &mut self,
        rate: f64,
        secs: u64,
        seed: bool,
    ) -> anyhow::Result<Latency> {
        let events = (rate * secs as f64) as usize;
        let (workshop, queue) = if seed {
            (&mut self.alone, &self.other_queue)
        } else {
            (&mut self.main.workshop, &self.queue)
        };
        let drafts = workshop.sample(Workload::Spread, events);
        let first = drafts.first().map_or(0, |draft| draft.number);
        let bodies: Vec<Vec<u8>> = drafts.iter().map(|draft| workshop.body(draft)).collect();
        let stopwatch = Stopwatch::new(first, events)?;
        let broker = needed(self.broker.as_ref())?;
        let mut publisher = broker.publisher(queue).await?;
        let reached = if seed {
            let entries = self
                .standing
                .entries(&drafts, &self.alone, self.clock.now());
            let consuming =
                seed::consume(broker, queue, &self.books, entries, Some(stopwatch.told()));
            let publishing = stopwatch.publish(&mut publisher, &bodies, rate);
            tokio::try_join!(consuming, publishing)?.1
        } else {
            let watch = Watch::new(events, Some(stopwatch.told()));
            let consuming = Tasks::new();
            self.main.services[0].consume(&watch, &consuming)?;
            tokio::time::sleep(SUBSCRIBED).await;
            let reached = stopwatch.publish(&mut publisher, &bodies, rate).await?;
            watch.finished().await?;
            consuming.stop(STOP_MAX).await;
            reached
        };
        self.entries += events as u64;
        Ok(stopwatch.latency(rate, reached))
    }

    /// The memory of a service that works off a backlog.
    pub(super) async fn memory(&mut self, backlog: usize) -> anyhow::Result<Option<Memory>> {
        let Some(broker) = &self.broker else {
            return Ok(None);
        };
        let mut left = backlog;
        while left > 0 {
            let some = left.min(50_000);
            let drafts = self.main.workshop.sample(Workload::Spread, some);
            fill(broker, &self.queue, &self.main.workshop, &drafts).await?;
            left -= some;
        }
        let measured = memory::measure(
            &self.config,
            broker,
            &self.queue,
            &mut self.machine,
            backlog,
        );
        measured.await.map(Some)
    }

    /// What an event takes on the disk, by table and index.
    pub(super) async fn bytes_per_event(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let (rows, sizes) = self.books.sizes().await?;
        let each = |(name, bytes): (String, u64)| (name, bytes as f64 / rows.max(1) as f64);
        Ok(sizes.into_iter().map(each).collect())
    }

    /// Whether the books add up after all that.
    pub(super) async fn verify(&self) -> anyhow::Result<String> {
        let verified = self.store.verify().await?;
        if let Some(offence) = verified.offences.first() {
            bail!(
                "the books do not add up: account {}: {}",
                offence.account_id,
                offence.what
            );
        }
        Ok(format!(
            "{} entries of {} accounts add up",
            verified.entries, verified.accounts
        ))
    }

    /// Stops everything.
    pub(super) async fn end(self) {
        let teams = [Some(self.main), self.narrow, Some(self.pair)];
        for team in teams.into_iter().flatten() {
            for service in team.services {
                service.stop().await;
            }
        }
        self.books.close().await;
        self.store.close().await;
        if let Some(broker) = self.broker {
            broker.close().await;
        }
    }
}

async fn open(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let lanes = u32::try_from(config.lanes).unwrap_or(u32::MAX);
    let options = StoreOptions {
        ledger_connections: lanes.saturating_add(2),
        ..StoreOptions::default()
    };
    Ok(store::open(&config.database_url, &options).await?)
}

fn needed(broker: Option<&Broker>) -> anyhow::Result<&Broker> {
    broker.context("no broker is configured")
}

/// Fills a queue, and waits until the broker has it all.
async fn fill(
    broker: &Broker,
    queue: &str,
    workshop: &Workshop,
    drafts: &[Draft],
) -> anyhow::Result<()> {
    let mut publisher = broker.publisher(queue).await?;
    for draft in drafts {
        publisher.send(&workshop.body(draft)).await?;
    }
    publisher.finish().await
}

/// A sample counts only where everything took effect that should.
fn checked(mut sample: Sample, outcomes: Outcomes, counted: Counted) -> anyhow::Result<Sample> {
    ensure!(
        outcomes.rejected == 0,
        "{} made-up events were refused",
        outcomes.rejected
    );
    sample.counts = [
        ("applied", outcomes.applied as u64),
        ("duplicates", outcomes.duplicate as u64),
        ("parked", outcomes.parked as u64),
        ("batches", counted.batches),
        ("decided again", counted.decided_again),
    ]
    .into();
    Ok(sample)
}
