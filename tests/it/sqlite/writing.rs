//! One writer at a time: the others wait, and nobody is lost or told an error.

use std::time::Duration;

use futures_util::future::join_all;
use onceledger::{
    domain::{Answer, Kind, Verdict},
    store::{SqliteStore, StoreOptions},
};
use sqlx::Executor as _;

use super::{Books, event, key, open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_writers_wait_for_an_outsider_of_three_seconds() {
    let books = Books::new().await;
    let opens: Vec<_> = (0..8)
        .map(|n| open(&format!("a{n}"), 1_000, Some(0)))
        .collect();
    books.settle(&opens).await;
    let mut outsider = books.outsider().await;
    outsider.execute("BEGIN IMMEDIATE").await.unwrap();
    let writers = (0..8).map(|n| {
        let mut ledger = books.ledger();
        async move {
            for round in 0..10 {
                let work = event(
                    &format!("a{n}"),
                    &format!("{n}-{round}"),
                    Kind::Debit,
                    1,
                    None,
                );
                let answers = ledger.settle(&[work]).await;
                let Ok(Answer::Event(told)) = &answers[0] else {
                    panic!("{answers:?}");
                };
                assert_eq!(told.verdict, Verdict::Applied);
            }
        }
    });
    let release = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        outsider.execute("COMMIT").await.unwrap();
    };
    tokio::join!(join_all(writers), release);
    for n in 0..8 {
        let account = books
            .store
            .account(&key(&format!("a{n}")))
            .await
            .unwrap()
            .unwrap();
        assert_eq!((account.version, account.balance), (11, 990));
    }
    assert_eq!(books.store.verify().await.unwrap().offences, []);
}

/// Two stores on one file are as two processes: readers of the one see old
/// snapshots while the other writes, and no write starts from such a snapshot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_one_hot_account() {
    let books = Books::new().await;
    books.settle(&[open("hot", 1_000, Some(0))]).await;
    let second = SqliteStore::connect(&books.url, &StoreOptions::default())
        .await
        .unwrap();
    let second = Books {
        store: std::sync::Arc::new(second),
        ..Books::new().await
    };
    let writers = (0..4).map(|n| {
        let mut ledger = if n % 2 == 0 {
            books.ledger()
        } else {
            second.ledger()
        };
        async move {
            let mut applied = 0;
            for round in 0..20 {
                let works: Vec<_> = (0..3)
                    .map(|i| event("hot", &format!("{n}-{round}-{i}"), Kind::Debit, 1, None))
                    .collect();
                for answer in ledger.settle(&works).await {
                    let Ok(Answer::Event(told)) = answer else {
                        panic!("{answer:?}");
                    };
                    assert_eq!(told.verdict, Verdict::Applied);
                    applied += 1;
                }
            }
            applied
        }
    });
    let applied: i64 = join_all(writers).await.into_iter().sum();
    let account = books.store.account(&key("hot")).await.unwrap().unwrap();
    assert_eq!(
        (account.balance, account.version),
        (1_000 - applied, 1 + applied)
    );
    assert_eq!(books.store.verify().await.unwrap().offences, []);
}

#[tokio::test]
async fn a_commit_given_up_half_way_leaves_nothing_behind() {
    let books = Books::new().await;
    books.settle(&[open("a", 1_000, Some(0))]).await;
    for n in 0..200_u64 {
        let mut ledger = books.ledger();
        let works = [event("a", &format!("e{n}"), Kind::Debit, 1, None)];
        let given_up = Duration::from_micros(n * 20);
        let _ = tokio::time::timeout(given_up, ledger.settle(&works)).await;
    }
    // Whatever was or was not committed: the next write is, and the books agree.
    books
        .settle(&[event("a", "last", Kind::Debit, 1, None)])
        .await;
    let mut works = vec![];
    works.extend((0..200).map(|n| event("a", &format!("e{n}"), Kind::Debit, 1, None)));
    books.settle(&works).await;
    let account = books.store.account(&key("a")).await.unwrap().unwrap();
    assert_eq!((account.version, account.balance), (202, 799));
    assert_eq!(books.store.verify().await.unwrap().offences, []);
}
