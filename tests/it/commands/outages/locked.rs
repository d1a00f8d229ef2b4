//! Rows that somebody else holds.

use sqlx::{Connection, PgConnection};

use super::{Service, debit, debited, end, open, until};
use crate::{
    amqp::broker::{self, Broker},
    support::databases::{self, TestDatabase},
};

struct Scene {
    folder: tempfile::TempDir,
    broker: Broker,
    database: TestDatabase,
    service: Service,
    /// Holds the row of account 0.
    holder: PgConnection,
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::new().await;
        let database = databases::empty_postgres().await;
        let amqp = broker::url();
        let service = Service::start(
            folder.path(),
            &["--database-url", &database.url, "--prefetch", "50"],
            &[
                ("AMQP_URL", &amqp),
                ("ONCELEDGER_AMQP_PREFIX", &broker.prefix),
            ],
        );
        service.answers("/readyz", 200).await;
        for account in 0..10 {
            open(&service, &account.to_string()).await;
        }
        let mut holder = PgConnection::connect(&database.url).await.unwrap();
        let lock = "BEGIN; SELECT 1 FROM account WHERE account_id = '0' FOR UPDATE";
        sqlx::raw_sql(lock).execute(&mut holder).await.unwrap();
        Self {
            folder,
            broker,
            database,
            service,
            holder,
        }
    }

    async fn publish(&self, round: &str, count: usize, account: impl Fn(usize) -> usize) {
        let bodies =
            (0..count).map(|n| debit(&format!("{round}{n}"), &account(n).to_string()).to_string());
        self.broker
            .publish(&self.broker.name("events"), bodies)
            .await;
    }

    async fn rest(&self) -> i64 {
        let mut sum = 0;
        for account in 1..10 {
            sum += debited(&self.service, &account.to_string()).await.unwrap();
        }
        sum
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_somebody_holds_waits_alone() {
    let mut scene = Scene::new().await;
    scene.publish("held", 15, |_| 0).await;
    scene.publish("free", 300, |n| n % 9 + 1).await;
    until("the others", async || scene.rest().await == 300).await;
    for account in 1..10 {
        let event = debit(&format!("http{account}"), &account.to_string());
        let (status, body) = scene.service.post("/v1/events", &event).await;
        assert_eq!(status, 200, "{body}");
    }
    assert_eq!(debited(&scene.service, "0").await, Some(0));
    assert_eq!(scene.service.get("/readyz").await.0, 200);
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut scene.holder)
        .await
        .unwrap();
    until("the held ones", async || {
        debited(&scene.service, "0").await == Some(15)
    })
    .await;
    end(scene.service, scene.folder.path(), &scene.database.url);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_stop_while_a_row_is_held_it_ends_in_time_and_loses_nothing() {
    let mut scene = Scene::new().await;
    scene.publish("e", 400, |n| n % 10).await;
    until("a part", async || scene.rest().await > 0).await;
    let before = scene.rest().await;
    // `end` asks for 0 within ten seconds, and for sound books.
    end(scene.service, scene.folder.path(), &scene.database.url);
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut scene.holder)
        .await
        .unwrap();
    let applied: i64 = sqlx::query_scalar("SELECT sum(1000000 - balance)::bigint FROM account")
        .fetch_one(&mut scene.holder)
        .await
        .unwrap();
    assert!(applied >= before);
    let queue = scene.broker.name("events");
    until("each applied or still there", async || {
        applied + i64::from(scene.broker.waiting(&queue).await.unwrap()) >= 400
    })
    .await;
    // Copies of what was in hand may come again; more than that may not.
    let left = i64::from(scene.broker.waiting(&queue).await.unwrap());
    assert!(applied + left <= 450, "{applied} applied, {left} left");
    assert_eq!(
        scene.broker.waiting(&scene.broker.name("dead")).await,
        Some(0)
    );
}
