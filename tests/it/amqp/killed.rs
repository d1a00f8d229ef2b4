//! The real program, killed for real between its commit and its ack: the network
//! between it and the broker lets deliveries in and no acknowledgement out.

use std::process::{Child, Command, Stdio};

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::Identity,
    ledger::Ledger,
    store::{self, Store, StoreOptions},
    telemetry::Metrics,
};

use super::{
    broker::{self, Broker},
    proxy::Proxy,
    service::{BALANCE, SOON, account, debit, opening, until},
};
use crate::support::databases::{self, TestDatabase};

const EVENTS: usize = 200;
const WARM: i64 = 40;

pub(super) fn serve(database: &TestDatabase, broker: &Broker, url: &str) -> Program {
    let child = Command::new(env!("CARGO_BIN_EXE_onceledger"))
        .args(["serve", "--http-addr", "127.0.0.1:0"])
        .env("DATABASE_URL", &database.url)
        .env("AMQP_URL", url)
        .env("ONCELEDGER_AMQP_PREFIX", &broker.prefix)
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Program(child)
}

/// A running program that does not outlive its test.
pub(super) struct Program(Child);

impl Program {
    /// Whether it is gone.
    pub(super) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// SIGKILL, and gone.
    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_commit_and_before_ack_on_sqlite() {
    killed_after_commit_and_before_ack(databases::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_commit_and_before_ack_on_postgres() {
    killed_after_commit_and_before_ack(databases::postgres().await).await;
}

async fn killed_after_commit_and_before_ack(database: TestDatabase) {
    let (broker, proxy) = (Broker::new().await, Proxy::new().await);
    let queue = broker.name("events");
    let books = store::open(&database.url, &StoreOptions::default())
        .await
        .unwrap();
    let (clock, copies) = (Clock::system(), Copies::default());
    let mut ledger = Ledger::new(books.clone(), clock, Metrics::default(), copies);
    ledger.settle(&[opening("0")]).await.remove(0).unwrap();

    let mut first = serve(&database, &broker, &proxy.url());
    until("the queue is declared", SOON, async || {
        broker.waiting(&queue).await.is_some()
    })
    .await;
    // Past the slow start, which subscribes again with a larger prefetch.
    for n in 1..=WARM {
        broker
            .publish(&queue, [debit(&format!("warm-{n}"), "0", 1)])
            .await;
        until("it consumes", SOON, async || {
            balance(&books).await == BALANCE - n
        })
        .await;
    }

    // From here on nothing that the program says reaches the broker.
    proxy.mute();
    broker
        .publish(&queue, (0..EVENTS).map(|n| debit(&format!("e{n}"), "0", 2)))
        .await;
    until("something is committed", SOON, async || {
        balance(&books).await < BALANCE - WARM
    })
    .await;
    first.kill();
    let committed = (BALANCE - WARM - balance(&books).await) / 2;
    assert!(committed > 0);

    let mut second = serve(&database, &broker, &broker::url());
    let end = BALANCE - WARM - 2 * EVENTS as i64;
    until("all of it took effect", SOON, async || {
        balance(&books).await == end
    })
    .await;
    // What was committed and not acknowledged came again, and was counted.
    until("the copies are counted", SOON, async || {
        copies_of(&books).await >= committed
    })
    .await;
    second.kill();
    assert_eq!(balance(&books).await, end);
    assert_eq!(books.verify().await.unwrap().offences, vec![]);
    books.close().await;
}

async fn balance(books: &std::sync::Arc<dyn Store>) -> i64 {
    books.account(&account("0")).await.unwrap().unwrap().balance
}

async fn copies_of(books: &std::sync::Arc<dyn Store>) -> i64 {
    let mut copies = 0;
    for n in 0..EVENTS {
        let identity = Identity::new("default", "events", format!("e{n}"));
        copies += books
            .event(&identity)
            .await
            .unwrap()
            .map_or(0, |view| view.duplicates);
    }
    copies
}
