//! The part of the service that consumes: a database of its own, lanes, and
//! consumers, started and stopped by a test.

use std::{sync::Arc, time::Duration};

use onceledger::{
    amqp::{self, QueueState, Workshop},
    clock::Clock,
    config::{Config, LogFormat, QueueConfig, SecretUrl},
    copies::Copies,
    domain::{AccountKey, Answer, Ask, Currency, Opening, Status, Work},
    lane::{Gathering, Lanes},
    ledger::Ledger,
    store::{self, EventFilter, LetterFilter, LetterView, Store, StoreOptions},
    tasks::Tasks,
    telemetry::{Metrics, QueueLabels},
};

use super::broker::Broker;
use crate::support::{
    databases::{self, TestDatabase},
    flaky::Flaky,
};

/// What a test waits for at most, where it says nothing else.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// How long deliveries are held for a database that is away.
pub(super) const DATABASE_AWAY_MAX: Duration = Duration::from_secs(6);

/// Longer than any test.
const HOLD_MAX: Duration = Duration::from_secs(1_200);

/// What every account starts with.
pub(super) const BALANCE: i64 = 1_000_000_000;

/// A running consumer of one queue.
pub(super) struct Service {
    pub(super) status: amqp::Status,
    pub(super) store: Arc<Flaky>,
    pub(super) metrics: Metrics,
    pub(super) queue: String,
    lanes: Lanes,
    copies: Copies,
    clock: Clock,
    tasks: Tasks,
    database: TestDatabase,
}

impl Service {
    /// Consumes the service's own queue, which it declares.
    pub(super) async fn start(broker: &Broker, url: &str) -> Self {
        Self::consume(broker, url, &broker.name("events"), |_| {}).await
    }

    /// Consumes a queue of that name.
    pub(super) async fn consume(
        broker: &Broker,
        url: &str,
        queue: &str,
        set: impl FnOnce(&mut Config),
    ) -> Self {
        Self::hold(broker, url, queue, HOLD_MAX, set).await
    }

    /// Consumes a queue, and holds no delivery longer than that.
    pub(super) async fn hold(
        broker: &Broker,
        url: &str,
        queue: &str,
        hold_max: Duration,
        set: impl FnOnce(&mut Config),
    ) -> Self {
        let database = databases::sqlite().await;
        let store = store::open(&database.url, &StoreOptions::default())
            .await
            .unwrap();
        let store = Flaky::new(store);
        let (clock, metrics, copies) = (Clock::system(), Metrics::default(), Copies::default());
        let tasks = Tasks::new();
        let shared: Arc<dyn Store> = store.clone();
        let ledger = || {
            Ledger::new(
                shared.clone(),
                clock.clone(),
                metrics.clone(),
                copies.clone(),
            )
        };
        let gathering = Gathering {
            batch_max: 500,
            linger: Duration::ZERO,
        };
        let lanes = Lanes::start(vec![ledger(), ledger()], gathering, &tasks);
        let workshop = Workshop {
            lanes: lanes.clone(),
            store: shared.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            database_away_max: DATABASE_AWAY_MAX,
            hold_max,
        };
        let mut config = config(&broker.prefix, url, queue);
        set(&mut config);
        let status = amqp::start(&config, &workshop, &tasks).unwrap();
        Self {
            status,
            store,
            metrics,
            queue: queue.to_owned(),
            lanes,
            copies,
            clock,
            tasks,
            database,
        }
    }

    /// Opens accounts `0` to `count - 1`.
    pub(super) async fn open_accounts(&self, count: usize) {
        for id in 0..count {
            self.ask(opening(&id.to_string())).await;
        }
    }

    /// Asks past the queue, on the way that everything takes.
    pub(super) async fn ask(&self, work: Work) -> Answer {
        self.lanes.ask(work).await.unwrap()
    }

    /// What the accounts `0` to `count - 1` hold together.
    pub(super) async fn total(&self, count: usize) -> i64 {
        let mut total = 0;
        for id in 0..count {
            total += self.balance(&id.to_string()).await;
        }
        total
    }

    /// What one account holds.
    pub(super) async fn balance(&self, id: &str) -> i64 {
        let found = self.store.account(&account(id)).await.unwrap();
        found.unwrap().balance
    }

    /// All dead letters.
    pub(super) async fn letters(&self) -> Vec<LetterView> {
        let filter = LetterFilter::default();
        self.store
            .letters("default", &filter, None, 500)
            .await
            .unwrap()
    }

    /// How the events stand.
    pub(super) async fn store_events(&self) -> Vec<Status> {
        let filter = EventFilter::default();
        let found = self.store.events("default", &filter, None, 500).await;
        let views = found.unwrap().views;
        views.iter().map(|view| view.record.status).collect()
    }

    /// Copies of an event that were seen.
    pub(super) async fn copies_of(&self, event_id: &str) -> i64 {
        self.copies.flush(&*self.store, &self.clock).await;
        let identity = onceledger::domain::Identity::new("default", "orders", event_id);
        let found = self.store.event(&identity).await.unwrap();
        found.unwrap().duplicates
    }

    /// Waits until messages are taken as they come.
    pub(super) async fn consuming(&self) {
        until("consuming", SOON, async || self.status.ready()).await;
    }

    /// Why nothing is taken; `None` while it is.
    pub(super) fn waits_for(&self) -> Option<String> {
        match self.status.queues().remove(0).1 {
            QueueState::Consuming => None,
            QueueState::Waiting(reason) => Some(reason),
        }
    }

    /// Deliveries taken and not acknowledged.
    pub(super) fn in_hand(&self) -> i64 {
        let labels = QueueLabels {
            queue: self.queue.clone(),
        };
        self.metrics.in_hand.get_or_create(&labels).get()
    }

    /// Waits until accounts `0` to `count - 1` hold so much together, and
    /// everything is acknowledged; then they still do.
    pub(super) async fn settled(&self, broker: &Broker, count: usize, total: i64) {
        until("the whole effect", SOON * 3, async || {
            self.total(count).await == total
        })
        .await;
        self.drained(broker).await;
        assert_eq!(self.total(count).await, total);
    }

    /// Waits until the queue is empty and everything of it is acknowledged.
    pub(super) async fn drained(&self, broker: &Broker) {
        let empty = async || broker.waiting(&self.queue).await == Some(0) && self.in_hand() == 0;
        until("everything acknowledged", SOON * 2, empty).await;
    }

    /// Stops it as SIGTERM does, and checks what it leaves.
    pub(super) async fn stop(&self) {
        assert!(
            self.tasks.stop(Duration::from_secs(10)).await,
            "it did not stop within its grace period"
        );
    }

    /// Stops it and checks every invariant of the books.
    pub(super) async fn end(self) {
        self.stop().await;
        let verified = self.store.verify().await.unwrap();
        assert_eq!(verified.offences, vec![]);
        self.store.close().await;
        drop(self.database);
    }
}

/// An account of the default tenant.
pub(super) fn account(id: &str) -> AccountKey {
    AccountKey::new("default", id)
}

/// The opening of an account.
pub(super) fn opening(id: &str) -> Work {
    let opening = Opening {
        currency: Currency::parse("CNY").unwrap(),
        balance: BALANCE,
        floor: Some(0),
        metadata: None,
    };
    Work {
        account: account(id),
        ask: Ask::Open(Box::new(opening)),
    }
}

/// A debit as a producer writes it.
pub(super) fn debit(event_id: &str, account_id: &str, amount: i64) -> String {
    format!(r#"{{"event_id":"{event_id}","account_id":"{account_id}","amount":{amount}}}"#)
}

/// Waits for a condition, with a limit.
pub(super) async fn until(what: &str, limit: Duration, condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(limit, waiting).await;
    assert!(waited.is_ok(), "waited {limit:?} in vain for: {what}");
}

fn config(prefix: &str, url: &str, queue: &str) -> Config {
    Config {
        database_url: SecretUrl::new(""),
        amqp_url: Some(SecretUrl::new(url)),
        http_addr: ([127, 0, 0, 1], 0).into(),
        insecure: false,
        amqp_prefix: prefix.to_owned(),
        queues: vec![QueueConfig {
            name: queue.into(),
            source: "orders".into(),
            scope: None,
            tenant: "default".into(),
            kind: None,
            prefetch: None,
            declare: None,
        }],
        prefetch: 200,
        batch_max: 500,
        batch_linger_ms: 0,
        lanes: 2,
        sweep_secs: 5,
        park_limit_secs: 86_400,
        expiry_grace_secs: 600,
        event_bytes_max: 65_536,
        body_bytes_max: 16_777_216,
        migrate: true,
        log: String::new(),
        log_format: LogFormat::Text,
    }
}
