//! The service's own path, in this process: the same lanes and consumers that
//! `onceledger serve` runs, with somebody who watches what is answered.

use std::{
    ops::{Add, Sub},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    books::{OPENING, SOURCE},
    groups::Groups,
    workload::Accounts,
};
use crate::{
    amqp,
    clock::Clock,
    config::Config,
    copies::Copies,
    domain::{
        AccountKey, Answer, Ask, Currency, DEFAULT_TENANT, Opening, Submission, Verdict, Work,
    },
    envelope::{self, Arrival, Origin},
    lane::{Gathering, Lanes, Reply, Tap},
    ledger::{Failure, Ledger},
    store::Store,
    tasks::Tasks,
    telemetry::Metrics,
};

/// A sample in which nothing is answered for so long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);

const STOP_MAX: Duration = Duration::from_secs(10);

/// The lanes over one store, as a running service has them.
pub(super) struct Service {
    config: Config,
    store: Arc<dyn Store>,
    lanes: Lanes,
    groups: Groups,
    metrics: Metrics,
}

/// What became of the events of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    pub(super) applied: usize,
    pub(super) duplicate: usize,
    pub(super) parked: usize,
    pub(super) rejected: usize,
}

impl Outcomes {
    /// Entries that came of it, those of events included that waited first.
    pub(super) fn entries(self) -> u64 {
        (self.applied + self.parked) as u64
    }
}

/// What the service's metrics say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) batches: u64,
    pub(super) decided_again: u64,
}

impl Add for Counted {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            batches: self.batches + other.batches,
            decided_again: self.decided_again + other.decided_again,
        }
    }
}

impl Sub for Counted {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            batches: self.batches - before.batches,
            decided_again: self.decided_again - before.decided_again,
        }
    }
}

impl Service {
    /// Starts lanes over a store.
    pub(super) fn start(config: Config, store: Arc<dyn Store>, groups: &Groups) -> Self {
        let (metrics, copies) = (Metrics::default(), Copies::default());
        let tasks = groups.group();
        let clock = Clock::system();
        let counting = copies
            .clone()
            .run(store.clone(), clock.clone(), tasks.stopping());
        tasks.spawn("copies", counting);
        let ledgers = Ledger::for_lanes(config.lanes, &store, &clock, &metrics, &copies);
        let gathering = Gathering {
            batch_max: config.batch_max,
            linger: Duration::from_millis(config.batch_linger_ms),
        };
        let lanes = Lanes::start(ledgers, gathering, &tasks);
        Self {
            config,
            store,
            lanes,
            groups: groups.clone(),
            metrics,
        }
    }

    /// Opens accounts.
    pub(super) async fn open(&self, accounts: Accounts) -> anyhow::Result<()> {
        let currency = Currency::parse("EUR").context("EUR is a currency")?;
        let watch = Watch::new(accounts.count as usize, None);
        let lanes = self.lanes.tapped(watch.tap());
        for account in 0..accounts.count {
            let work = Work {
                account: AccountKey::new(DEFAULT_TENANT, accounts.id(account)),
                ask: Ask::Open(Box::new(Opening {
                    currency,
                    balance: OPENING,
                    floor: None,
                    metadata: None,
                })),
            };
            lanes.send(work, Box::new(|_, _| {})).await;
        }
        watch.finished().await.map(drop)
    }

    /// Brings messages to the lanes as a consumer would, without a broker.
    pub(super) async fn feed(&self, bodies: &[Vec<u8>]) -> anyhow::Result<(Duration, Outcomes)> {
        let watch = Watch::new(bodies.len(), None);
        let lanes = self.lanes.tapped(watch.tap());
        let origin = Origin {
            tenant: DEFAULT_TENANT.into(),
            queue: "bench".into(),
            source: SOURCE.into(),
            scope: None,
            kind: None,
            body_names_source: false,
            event_bytes_max: self.config.event_bytes_max,
        };
        for body in bodies {
            let arrival = Arrival {
                body,
                content_type: Some("application/json"),
                ..Arrival::default()
            };
            let Ok(reading) = envelope::read(&arrival, &origin) else {
                bail!("a made-up event can't be read");
            };
            let work = Work::submit(Submission {
                event: reading.event,
                raw: reading.raw,
                if_version: None,
                strict: false,
            });
            lanes.send(work, Box::new(|_, _| {})).await;
        }
        let took = watch.finished().await?;
        Ok((took, watch.outcomes()))
    }

    /// Consumes the service's queue until so many events are answered and
    /// acknowledged.
    pub(super) async fn drain(&self, watch: &Arc<Watch>) -> anyhow::Result<Duration> {
        let consuming = self.groups.group();
        self.consume(watch, &consuming)?;
        let finished = watch.finished().await;
        let acknowledged = self.acknowledged().await;
        let took = watch.since_first();
        ensure!(
            consuming.stop(STOP_MAX).await,
            "the consumers did not stop in time"
        );
        finished?;
        acknowledged?;
        Ok(took)
    }

    /// Starts the consumers; they end with `consuming`.
    pub(super) fn consume(&self, watch: &Arc<Watch>, consuming: &Tasks) -> anyhow::Result<()> {
        let workshop = amqp::Workshop {
            lanes: self.lanes.tapped(watch.tap()),
            store: self.store.clone(),
            clock: Clock::system(),
            metrics: self.metrics.clone(),
            database_away_max: Duration::from_secs(60),
            hold_max: Duration::from_secs(600),
        };
        amqp::start(&self.config, &workshop, consuming).map(drop)
    }

    /// Waits until nothing is in hand.
    async fn acknowledged(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let queues = &self.config.queues;
        let in_hand = || {
            let of = |queue: &str| {
                let labels = crate::telemetry::QueueLabels {
                    queue: queue.to_owned(),
                };
                self.metrics.in_hand.get_or_create(&labels).get()
            };
            queues.iter().map(|queue| of(&queue.name)).sum::<i64>()
        };
        while in_hand() > 0 {
            ensure!(
                began.elapsed() < SILENCE_MAX,
                "deliveries are not acknowledged"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// What its own metrics say so far.
    pub(super) fn counted(&self) -> Counted {
        Counted {
            batches: self.metrics.batches.get(),
            decided_again: self.metrics.decided_again.get(),
        }
    }
}

/// Counts the answers of one sample.
pub(super) struct Watch {
    expected: usize,
    answered: AtomicUsize,
    outcomes: [AtomicUsize; 4],
    failure: Mutex<Option<String>>,
    first: OnceLock<Instant>,
    /// When the last one was answered, in nanoseconds after the first came.
    last: AtomicU64,
    done: CancellationToken,
    /// Told of each event that is answered.
    told: Option<Told>,
}

/// What is told of each event that is answered: its id.
pub(super) type Told = Box<dyn Fn(&str) + Send + Sync>;

impl Watch {
    pub(super) fn new(expected: usize, told: Option<Told>) -> Arc<Self> {
        Arc::new(Self {
            expected,
            answered: AtomicUsize::new(0),
            outcomes: Default::default(),
            failure: Mutex::default(),
            first: OnceLock::new(),
            last: AtomicU64::new(0),
            done: CancellationToken::new(),
            told,
        })
    }

    /// What looks at everything on its way to the lanes.
    fn tap(self: &Arc<Self>) -> Tap {
        let watch = self.clone();
        Arc::new(move |reply: Reply| {
            watch.first.get_or_init(Instant::now);
            let watch = watch.clone();
            Box::new(move |work, result| {
                if let (Some(told), Ask::Submit(submission)) = (&watch.told, &work.ask) {
                    told(&submission.event.identity.event_id);
                }
                watch.answered(&result);
                reply(work, result);
            })
        })
    }

    fn answered(&self, result: &Result<Answer, Failure>) {
        let place = match result {
            Ok(Answer::Event(told)) => match told.verdict {
                Verdict::Applied => 0,
                Verdict::Duplicate => 1,
                Verdict::Parked(_) => 2,
                Verdict::Rejected(_) | Verdict::Unmet(_) => 3,
            },
            Ok(_) => 0,
            Err(failure) => {
                let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| failure.to_string());
                // It comes again.
                return;
            }
        };
        self.outcomes[place].fetch_add(1, Ordering::Relaxed);
        let answered = self.answered.fetch_add(1, Ordering::AcqRel) + 1;
        if answered == self.expected {
            let nanos = u64::try_from(self.since_first().as_nanos()).unwrap_or(u64::MAX);
            self.last.store(nanos, Ordering::Release);
            self.done.cancel();
        }
    }

    /// Since the first ask came by.
    fn since_first(&self) -> Duration {
        self.first.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Waits for the last answer, and says how long it came after the first ask.
    pub(super) async fn finished(&self) -> anyhow::Result<Duration> {
        loop {
            let before = self.answered.load(Ordering::Acquire);
            if tokio::time::timeout(SILENCE_MAX, self.done.cancelled())
                .await
                .is_ok()
            {
                return Ok(Duration::from_nanos(self.last.load(Ordering::Acquire)));
            }
            if self.answered.load(Ordering::Acquire) == before {
                let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                bail!(
                    "{before} of {} events were answered, then no more{}",
                    self.expected,
                    failure
                        .as_ref()
                        .map_or_else(String::new, |failure| format!("; a failure was: {failure}"))
                );
            }
        }
    }

    pub(super) fn outcomes(&self) -> Outcomes {
        let of = |place: usize| self.outcomes[place].load(Ordering::Acquire);
        Outcomes {
            applied: of(0),
            duplicate: of(1),
            parked: of(2),
            rejected: of(3),
        }
    }
}
