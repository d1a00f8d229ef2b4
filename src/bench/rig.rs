//! What the measurements stand on: connections, accounts, instances of the service.
//!
//! What must not live here: measuring.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;

use super::{
    Options, Progress,
    books::{Books, Shape, Standing},
    broker::Broker,
    groups::Groups,
    kind::Kind,
    machine::Machine,
    report::Report,
    service::{Service, Watch},
    site::Site,
    workload::{Accounts, Workshop},
};
use crate::{
    app::books::{Schema, open},
    clock::Clock,
    config::Config,
    store::Store,
};

/// Connections that the database alone is measured with at most.
const CONNECTIONS: u32 = 32;

/// How long consumers may take to stop.
pub(super) const STOP_MAX: Duration = Duration::from_secs(10);

/// One or more instances of the service, with accounts of their own: what another
/// one writes is never stale in a cache of these.
pub(super) struct Team {
    pub(super) workshop: Workshop,
    pub(super) services: Vec<Service>,
}

/// Everything that is measured, started.
pub(super) struct Bench {
    pub(super) config: Config,
    pub(super) queue: String,
    pub(super) other_queue: String,
    pub(super) broker: Option<Broker>,
    pub(super) books: Books,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) groups: Groups,
    pub(super) machine: Machine,
    pub(super) batch: usize,
    /// The accounts of the database alone.
    pub(super) alone: Workshop,
    pub(super) standing: Standing,
    /// The same in the two narrow tables.
    pub(super) minimal: Standing,
    /// Whose events name versions: no others may move these accounts.
    pub(super) shuffled: Workshop,
    /// As configured.
    pub(super) main: Team,
    /// With one lane, where that is not how it is configured.
    pub(super) narrow: Option<Team>,
    /// Two instances.
    pub(super) pair: Team,
    pub(super) entries: u64,
}

impl Bench {
    /// Connects, makes the schema, and opens all accounts.
    pub(super) async fn start(
        site: &Site,
        options: &Options,
        run: u64,
        groups: &Groups,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let config = &site.config;
        progress.say("making a schema of its own");
        let store = open(config, Schema::Migrate).await?;
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
            groups: groups.clone(),
            clock: Clock::system(),
            machine: Machine::new()?,
            batch: config.batch_max,
            alone: workshop("alone", 1),
            standing: Standing::default(),
            minimal: Standing::default(),
            shuffled: workshop("turn", 5),
            main: Team {
                workshop: workshop("acct", 2),
                services: vec![Service::start(config.clone(), store.clone(), groups)],
            },
            narrow: (config.lanes != 1).then(|| Team {
                workshop: workshop("narrow", 3),
                services: vec![Service::start(narrow, store.clone(), groups)],
            }),
            pair: Team {
                workshop: workshop("pair", 4),
                services: if broker.is_some() {
                    vec![
                        Service::start(config.clone(), store.clone(), groups),
                        Service::start(config.clone(), open(config, Schema::Check).await?, groups),
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
        self.books.make_beside(&rows).await?;
        self.minimal = Standing::opened(alone, rows.clone());
        self.standing = Standing::opened(alone, rows);
        Ok(())
    }

    /// Lets the service declare its queue.
    async fn declare(&self) -> anyhow::Result<()> {
        let Some(broker) = &self.broker else {
            return Ok(());
        };
        let consuming = self.groups.group();
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

    /// Stops everything.
    pub(super) async fn end(self) {
        self.groups.stop().await;
        self.books.close().await;
        self.store.close().await;
        if let Some(broker) = self.broker {
            broker.close().await;
        }
    }
}
