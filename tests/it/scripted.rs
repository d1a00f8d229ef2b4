//! The scripts on the real databases: one act at a time, over two instances with
//! warm caches, and as one batch; each on names of its own, in one database.

use std::sync::Arc;

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::Timestamp,
    ledger::Ledger,
    store::{self, Store, StoreOptions},
    telemetry::Metrics,
};

use crate::{
    core::scripts::{as_one_batch, one_by_one},
    support::{
        databases::{self, TestDatabase},
        script,
    },
};

fn ledger(store: &Arc<dyn Store>) -> Ledger {
    let clock = Clock::standing_at(Timestamp(1_000_000));
    Ledger::new(store.clone(), clock, Metrics::default(), Copies::default())
}

async fn play(database: TestDatabase) {
    let store = store::open(&database.url, &StoreOptions::default())
        .await
        .unwrap();
    let second = store::open(&database.url, &StoreOptions::default())
        .await
        .unwrap();
    for (name, lines) in script::all() {
        one_by_one(
            &store,
            &mut [ledger(&store)],
            &lines,
            &format!("-{name}-one"),
        )
        .await;
        let mut two = [ledger(&store), ledger(&second)];
        one_by_one(&store, &mut two, &lines, &format!("-{name}-two")).await;
        as_one_batch(
            &store,
            &mut ledger(&store),
            &lines,
            &format!("-{name}-batch"),
        )
        .await;
    }
    let verified = store.verify().await.unwrap();
    assert_eq!(verified.offences, []);
    assert!(verified.entries > 100, "{verified:?}");
    store.close().await;
    second.close().await;
}

#[tokio::test]
async fn scripts_hold_on_sqlite() {
    play(databases::sqlite().await).await;
}

#[tokio::test]
async fn scripts_hold_on_postgres() {
    play(databases::postgres().await).await;
}
