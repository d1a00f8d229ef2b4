//! The sweeper, step by step, with a clock that stands still.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{
        AccountKey, Ask, Content, Currency, Event, Identity, Kind, Opening, Raw, Status,
        Submission, Timestamp, Work,
    },
    lane::{Gathering, Lanes},
    ledger::{Failure, Ledger},
    store::{Store, StoreError},
    sweeper::{Limits, Queues, Sweeper, Swept},
    tasks::Tasks,
    telemetry::Metrics,
};

use crate::support::model::Model;

const PARK_LIMIT_SECS: u64 = 100;
const GRACE_SECS: u64 = 600;
const START: i64 = 1_000_000_000;

struct Scene {
    model: Arc<Model>,
    lanes: Lanes,
    clock: Clock,
    queues: Arc<Mutex<Queues>>,
    sweeper: Sweeper,
    _tasks: Tasks,
}

fn scene(queues: Queues) -> Scene {
    let model = Arc::new(Model::default());
    let store: Arc<dyn Store> = model.clone();
    let clock = Clock::standing_at(Timestamp(START));
    let tasks = Tasks::new();
    let ledger = Ledger::new(
        store.clone(),
        clock.clone(),
        Metrics::default(),
        Copies::default(),
    );
    let gathering = Gathering {
        batch_max: 10,
        linger: Duration::ZERO,
    };
    let lanes = Lanes::start(vec![ledger], gathering, &tasks);
    let queues = Arc::new(Mutex::new(queues));
    let look = queues.clone();
    let limits = Limits {
        park_limit_secs: PARK_LIMIT_SECS,
        expiry_grace_secs: GRACE_SECS,
    };
    let sweeper = Sweeper::new(
        store,
        lanes.clone(),
        clock.clone(),
        limits,
        Box::new(move || *look.lock().unwrap()),
    );
    Scene {
        model,
        lanes,
        clock,
        queues,
        sweeper,
        _tasks: tasks,
    }
}

impl Scene {
    fn pass_secs(&self, secs: i64) {
        self.clock
            .set(Timestamp(self.clock.now().0 + secs * 1_000_000));
    }

    async fn submit(&self, account: &str, id: &str, version: Option<i64>) {
        let event = Event {
            identity: Identity::new("default", "s", id),
            derived: false,
            content: Content {
                account_id: account.into(),
                kind: Kind::Credit,
                amount: 1,
                currency: None,
                expected_version: version,
            },
            reference: None,
            occurred_at: None,
            metadata: None,
        };
        let work = Work::submit(Submission {
            event: Arc::new(event),
            raw: Arc::new(Raw::default()),
            if_version: None,
            strict: false,
        });
        self.lanes.ask(work).await.unwrap();
    }

    async fn open(&self, account: &str) {
        let ask = Ask::Open(Box::new(Opening {
            currency: Currency::parse("EUR").unwrap(),
            balance: 0,
            floor: None,
            metadata: None,
        }));
        let account = AccountKey::new("default", account);
        self.lanes.ask(Work { account, ask }).await.unwrap();
    }

    fn status(&self, id: &str) -> Status {
        let key = Identity::new("default", "s", id).key();
        self.model.state().records[&key].1.status
    }

    async fn step(&self) -> Swept {
        self.sweeper.step().await.unwrap()
    }
}

fn expired(count: usize) -> Swept {
    Swept {
        released: 0,
        expired: count,
    }
}

#[tokio::test]
async fn what_waited_past_the_limit_dies_and_nothing_younger() {
    let scene = scene(Queues::None);
    scene.submit("a", "old", Some(5)).await;
    scene.pass_secs(60);
    scene.submit("a", "young", Some(6)).await;
    assert_eq!(scene.step().await, Swept::default());
    scene.pass_secs(41);
    assert_eq!(scene.step().await, expired(1));
    assert_eq!(scene.status("old"), Status::Dead);
    assert_eq!(scene.status("young"), Status::Parked);
    assert_eq!(scene.step().await, Swept::default(), "it dies once");
    assert_eq!(scene.model.state().letters.len(), 1);
}

#[tokio::test]
async fn nothing_dies_while_the_queues_may_hold_what_it_waits_for() {
    let consumed = |secs, seen_empty| Queues::Consumed {
        undisturbed: Duration::from_secs(secs),
        seen_empty,
    };
    let cases = [
        (Queues::Away, 0),
        (consumed(0, false), 0),
        (consumed(GRACE_SECS - 1, false), 0),
        (consumed(GRACE_SECS, false), 1),
        (consumed(0, true), 1),
        (Queues::None, 1),
    ];
    for (queues, dead) in cases {
        let scene = scene(Queues::Away);
        scene.submit("a", "e", Some(5)).await;
        scene.pass_secs(1_000);
        *scene.queues.lock().unwrap() = queues;
        assert_eq!(scene.step().await, expired(dead), "{queues:?}");
    }
}

#[tokio::test]
async fn what_is_due_is_released_before_anything_dies() {
    let scene = scene(Queues::None);
    scene.submit("a", "e1", Some(1)).await;
    scene.submit("a", "e2", Some(2)).await;
    // Another instance opened the account and did not see what waits.
    let other = self::scene(Queues::None);
    other.open("a").await;
    let mut state = other.model.state();
    state.records.extend(scene.model.state().records);
    scene.model.put(state);
    scene.pass_secs(1_000);
    let swept = scene.step().await;
    assert_eq!((swept.released, swept.expired), (1, 0));
    assert_eq!(scene.status("e1"), Status::Applied);
    assert_eq!(scene.status("e2"), Status::Applied);
    scene.model.state().check_invariants();
}

#[tokio::test]
async fn a_step_that_could_not_release_lets_nothing_die_and_the_next_goes_on() {
    let scene = scene(Queues::None);
    scene.submit("a", "due", Some(1)).await;
    scene.submit("b", "old", Some(5)).await;
    let other = self::scene(Queues::None);
    other.open("a").await;
    let mut state = other.model.state();
    state.records.extend(scene.model.state().records);
    scene.model.put(state);
    scene.pass_secs(1_000);
    let away = StoreError::Away("pulled out".to_owned());
    scene.model.faults.lock().unwrap().commits = vec![away.clone()];
    assert_eq!(scene.sweeper.step().await, Err(Failure::Unavailable(away)));
    assert_eq!(scene.status("old"), Status::Parked);
    let swept = scene.step().await;
    assert_eq!((swept.released, swept.expired), (1, 1));
}
