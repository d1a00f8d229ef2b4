//! Several processes of the real program on one PostgreSQL and one queue.

use serde_json::{Value, json};

use super::{
    broker::{self, Broker},
    service::{SOON, debit, until},
};
use crate::{
    commands::program::{Service, run},
    support::databases::{self, TestDatabase},
};

/// Processes that share everything.
struct Fleet {
    broker: Broker,
    database: TestDatabase,
    folder: tempfile::TempDir,
    services: Vec<Service>,
}

impl Fleet {
    async fn of(size: usize) -> Self {
        let mut fleet = Self {
            broker: Broker::new().await,
            database: databases::postgres().await,
            folder: tempfile::tempdir().unwrap(),
            services: Vec::new(),
        };
        for _ in 0..size {
            fleet.services.push(fleet.start());
        }
        for service in &fleet.services {
            service.answers("/readyz", 200).await;
        }
        fleet
    }

    fn start(&self) -> Service {
        let url = broker::url();
        let env = [
            ("DATABASE_URL", self.database.url.as_str()),
            ("AMQP_URL", url.as_str()),
            ("ONCELEDGER_AMQP_PREFIX", self.broker.prefix.as_str()),
            // Small bites, so that every process gets some.
            ("ONCELEDGER_PREFETCH", "100"),
            ("ONCELEDGER_BATCH_MAX", "20"),
        ];
        Service::start(self.folder.path(), &[], &env)
    }

    fn queue(&self) -> String {
        self.broker.name("events")
    }

    async fn open(&self, accounts: usize, balance: i64) {
        for n in 0..accounts {
            let account =
                json!({"id": n.to_string(), "currency": "EUR", "opening_balance": balance});
            let (status, body) = self.services[0].post("/v1/accounts", &account).await;
            assert_eq!(status, 201, "{body}");
        }
    }

    /// A figure over all accounts; some process may be gone.
    async fn total(&self, field: &str) -> i64 {
        for service in &self.services {
            let Some((200, body)) = service.try_get("/v1/totals").await else {
                continue;
            };
            let body: Value = serde_json::from_str(&body).unwrap();
            return body["items"][0][field].as_i64().unwrap();
        }
        -1
    }

    /// Waits until the debits come to so much and everything is acknowledged.
    async fn settled(&self, debits: i64) {
        until("the whole effect", SOON * 3, async || {
            self.total("debits").await == debits
        })
        .await;
        until("everything acknowledged", SOON * 2, async || {
            self.broker.waiting(&self.queue()).await == Some(0)
        })
        .await;
        assert_eq!(self.total("debits").await, debits);
    }

    /// Copies that were counted, of all events together.
    async fn copies(&self) -> i64 {
        let mut connection = databases::connect(&self.database.url).await;
        sqlx::query_scalar("SELECT coalesce(sum(copies), 0)::bigint FROM event_seen")
            .fetch_one(&mut connection)
            .await
            .unwrap()
    }

    /// Ends all and lets an auditor look.
    fn end(mut self) {
        for service in &mut self.services {
            service.signal("TERM");
            assert_eq!(service.ended(), Some(0), "{}", service.log());
        }
        let args = ["verify", "--database-url", &self.database.url];
        let verified = run(self.folder.path(), &args, &[]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}

/// Events over some accounts, each twice, the copies far behind and in another order.
fn twice(events: usize, accounts: usize) -> Vec<String> {
    let body = |n: usize| debit(&format!("e{n}"), &(n % accounts).to_string(), 1);
    let first = (0..events).map(body);
    let again = (0..events).map(|n| body(n * 7 % events));
    first.chain(again).collect()
}

/// What the broker took (each publish is confirmed) is what the processes counted.
async fn every_copy_is_counted(size: usize) {
    const EVENTS: usize = 3_001;
    let fleet = Fleet::of(size).await;
    fleet.open(10, 1_000_000).await;
    let queue = fleet.queue();
    fleet.broker.publish(&queue, twice(EVENTS, 10)).await;
    fleet.settled(EVENTS as i64).await;
    until("every copy is counted", SOON, async || {
        fleet.copies().await == EVENTS as i64
    })
    .await;
    fleet.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_count_every_copy() {
    every_copy_is_counted(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_count_every_copy() {
    every_copy_is_counted(4).await;
}

/// Killed again and again, each of the four: nothing is lost and nothing happens twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_that_are_killed_lose_nothing() {
    const EVENTS: usize = 4_001;
    let mut fleet = Fleet::of(4).await;
    fleet.open(10, 1_000_000).await;
    let queue = fleet.queue();
    let bodies = twice(EVENTS, 10);
    for (turn, part) in bodies.chunks(bodies.len() / 8 + 1).enumerate() {
        fleet.broker.publish(&queue, part.to_vec()).await;
        let victim = turn % 4;
        fleet.services[victim].kill();
        fleet.services[victim] = fleet.start();
    }
    fleet.settled(EVENTS as i64).await;
    assert_eq!(fleet.total("balances").await, 10_000_000 - EVENTS as i64);
    let (_, letters) = fleet.services[0].get("/v1/dead-letters").await;
    assert!(letters.contains("\"items\":[]"), "{letters}");
    fleet.end();
}

/// A thousand versions of one account in any order over two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_versions_in_any_order_end_in_order() {
    const EVENTS: usize = 1_000;
    let fleet = Fleet::of(2).await;
    // Some come before their account.
    let body = |n: usize| {
        let version = n * 389 % EVENTS + 1;
        json!({"event_id": format!("v{version}"), "account_id": "0", "amount": 1, "version": version})
            .to_string()
    };
    let queue = fleet.queue();
    fleet.broker.publish(&queue, (0..300).map(body)).await;
    fleet.open(1, 10_000).await;
    fleet.broker.publish(&queue, (300..EVENTS).map(body)).await;
    fleet.settled(EVENTS as i64).await;
    let (_, parked) = fleet.services[0].get("/v1/events?status=parked").await;
    assert!(parked.contains("\"items\":[]"), "{parked}");
    let (_, account) = fleet.services[1].get("/v1/accounts/0").await;
    assert!(account.contains("\"version\":1001"), "{account}");
    let (_, entry) = fleet.services[0].get("/v1/accounts/0/history/778").await;
    assert!(entry.contains("\"event_id\":\"v777\""), "{entry}");
    fleet.end();
}

/// One cent more than there is, from every side at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_account_is_overdrawn_from_two_sides() {
    const EVENTS: usize = 600;
    let fleet = Fleet::of(2).await;
    fleet.open(2, 200).await;
    let queue = fleet.queue();
    let body = |n: usize| debit(&format!("q{n}"), &(n % 2).to_string(), 1);
    let events: Vec<Value> = (0..EVENTS)
        .map(|n| json!({"event_id": format!("h{n}"), "account_id": (n % 2).to_string(), "amount": 1}))
        .collect();
    let calls = async |service: &Service, events: &[Value]| {
        for part in events.chunks(50) {
            let (status, body) = service.post("/v1/events", &json!(part)).await;
            assert_eq!(status, 200, "{body}");
        }
    };
    let (one, two) = events.split_at(EVENTS / 2);
    tokio::join!(
        fleet.broker.publish(&queue, (0..EVENTS).map(body)),
        calls(&fleet.services[0], one),
        calls(&fleet.services[1], two),
    );
    fleet.settled(400).await;
    assert_eq!(fleet.total("balances").await, 0);
    let mut connection = databases::connect(&fleet.database.url).await;
    let refused =
        "SELECT count(*) FROM event WHERE reason = 'insufficient_funds' AND found_balance = 0";
    let refused: i64 = sqlx::query_scalar(refused)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(refused, 2 * EVENTS as i64 - 400);
    fleet.end();
}

/// Zero rows, explained each by its own word, in the answer, the books and the metrics;
/// and nothing moved where nothing was applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zero_rows_are_told_apart_through_a_queue() {
    let fleet = Fleet::of(1).await;
    fleet.open(2, 1_000).await;
    let queue = fleet.queue();
    let service = &fleet.services[0];
    let send = async |body: Value| fleet.broker.publish(&queue, [body.to_string()]).await;
    for version in 1..=4 {
        send(json!({"event_id": format!("e{version}"), "account_id": "0", "amount": 1, "version": version})).await;
    }
    fleet.settled(4).await;
    let frozen = json!({"status": "frozen"});
    assert_eq!(service.patch("/v1/accounts/1", &frozen).await.0, 200);
    let cases = [
        (
            json!({"event_id": "e4", "account_id": "0", "amount": 1, "version": 4}),
            "duplicate",
            "",
        ),
        (
            json!({"event_id": "e4", "account_id": "0", "amount": 2, "version": 4}),
            "rejected",
            "event_id_reused",
        ),
        (
            json!({"event_id": "ahead", "account_id": "0", "amount": 1, "version": 9}),
            "parked",
            "version_gap",
        ),
        (
            json!({"event_id": "behind", "account_id": "0", "amount": 1, "version": 2}),
            "rejected",
            "version_conflict",
        ),
        (
            json!({"event_id": "early", "account_id": "none", "amount": 1}),
            "parked",
            "account_not_found",
        ),
        (
            json!({"event_id": "poor", "account_id": "0", "amount": 5_000}),
            "rejected",
            "insufficient_funds",
        ),
        (
            json!({"event_id": "cold", "account_id": "1", "amount": 1}),
            "rejected",
            "account_frozen",
        ),
        (
            json!({"event_id": "usd", "account_id": "0", "amount": 1, "currency": "USD"}),
            "rejected",
            "currency_mismatch",
        ),
    ];
    for (body, outcome, reason) in &cases {
        send(body.clone()).await;
        let figure =
            format!("onceledger_events_total{{outcome=\"{outcome}\",reason=\"{reason}\"}} 1");
        until(&figure, SOON, async || {
            service.get("/metrics").await.1.contains(&figure)
        })
        .await;
    }
    for (event_id, amount) in [("zero", 0), ("negative", -1)] {
        send(json!({"event_id": event_id, "account_id": "0", "amount": amount})).await;
    }
    until("both are letters", SOON, async || {
        let (_, letters) = service.get("/v1/dead-letters?reason=invalid").await;
        letters.matches("\"field\":\"amount\"").count() == 2
    })
    .await;
    for (body, outcome, reason) in &cases[2..] {
        let id = body["event_id"].as_str().unwrap();
        let (_, event) = service.get(&format!("/v1/events/events/{id}")).await;
        assert!(
            event.contains(&format!("\"status\":\"{outcome}\"")),
            "{event}"
        );
        assert!(
            event.contains(&format!("\"reason\":\"{reason}\"")),
            "{event}"
        );
    }
    fleet.settled(4).await;
    assert_eq!(fleet.total("balances").await, 1_996);
    fleet.end();
}

/// Events that the database refuses for ever are found among their neighbours; one that
/// fails otherwise waits for its cure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_rows_are_parted_from_their_neighbours() {
    let fleet = Fleet::of(2).await;
    fleet.open(5, 1_000).await;
    let mut connection = databases::connect(&fleet.database.url).await;
    let trigger = "CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           IF NEW.event_id LIKE 'never-%' THEN RAISE EXCEPTION 'never' USING ERRCODE = '23514'; END IF; \
           IF NEW.event_id LIKE 'later-%' THEN RAISE EXCEPTION 'later' USING ERRCODE = 'XX000'; END IF; \
           RETURN NEW; END $$; \
         CREATE TRIGGER odd BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION odd()";
    sqlx::raw_sql(trigger)
        .execute(&mut connection)
        .await
        .unwrap();
    let body = |n: usize| {
        let id = match n {
            10 | 200 | 333 => format!("never-{n}"),
            50 => format!("later-{n}"),
            _ => format!("e{n}"),
        };
        debit(&id, &(n % 5).to_string(), 1)
    };
    let queue = fleet.queue();
    fleet.broker.publish(&queue, (0..500).map(body)).await;
    until("the neighbours are applied", SOON * 2, async || {
        fleet.total("debits").await == 496
    })
    .await;
    let letters = async || -> Value {
        let (_, letters) = fleet.services[0]
            .get("/v1/dead-letters?reason=store_refused")
            .await;
        serde_json::from_str(&letters).unwrap()
    };
    until("the letters are kept", SOON, async || {
        letters().await["items"].as_array().unwrap().len() == 3
    })
    .await;
    for letter in letters().await["items"].as_array().unwrap() {
        assert_eq!(letter["detail"]["code"], "23514");
        assert!(letter["event_id"].as_str().unwrap().starts_with("never-"));
    }
    sqlx::raw_sql("DROP TRIGGER odd ON event")
        .execute(&mut connection)
        .await
        .unwrap();
    fleet.settled(497).await;
    fleet.end();
}
