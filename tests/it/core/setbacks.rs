//! The path of a batch when its store misbehaves: nothing is lost, nothing is
//! applied twice, and neighbours go through.

use std::{sync::Arc, time::Duration};

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{Answer, Kind, Reason, Timestamp, Verdict, Work},
    ledger::{Failure, Ledger},
    store::{Store, StoreError},
    telemetry::Metrics,
};

use super::asks::{event, key, open};
use crate::support::model::Model;

fn desk() -> (Arc<Model>, Ledger) {
    let model = Arc::new(Model::default());
    let store: Arc<dyn Store> = model.clone();
    let clock = Clock::standing_at(Timestamp(1));
    (
        model,
        Ledger::new(store, clock, Metrics::default(), Copies::default()),
    )
}

fn debits(count: i64, accounts: i64) -> Vec<Work> {
    (0..count)
        .map(|n| event(n % accounts, format!("e{n}"), Kind::Debit, 1, None))
        .collect()
}

fn applied(answer: &Result<Answer, Failure>) -> bool {
    matches!(answer, Ok(Answer::Event(told)) if told.verdict == Verdict::Applied)
}

#[tokio::test]
async fn races_and_deadlocks_are_decided_again_until_they_pass() {
    let (model, mut ledger) = desk();
    ledger.settle(&[open(0, 10), open(1, 10)]).await;
    model.faults.lock().unwrap().commits = vec![
        StoreError::Raced,
        StoreError::Conflicted("40P01".into()),
        StoreError::Raced,
    ];
    assert!(ledger.settle(&debits(6, 2)).await.iter().all(applied));
    model.state().check_invariants();
}

#[tokio::test]
async fn what_never_passes_is_busy_and_leaves_nothing_behind() {
    let (model, mut ledger) = desk();
    ledger.settle(&[open(0, 10)]).await;
    model.faults.lock().unwrap().commits = vec![StoreError::Raced; 100];
    assert_eq!(ledger.settle(&debits(1, 1)).await, [Err(Failure::Busy)]);
    model.faults.lock().unwrap().commits.clear();
    assert_eq!(model.state().records.len(), 1);
    assert!(ledger.settle(&debits(1, 1)).await.iter().all(applied));
}

#[tokio::test]
async fn a_database_that_is_away_answers_at_once_and_the_same_again_applies_once() {
    let (model, mut ledger) = desk();
    ledger.settle(&[open(0, 10)]).await;
    let away = StoreError::Away("connection refused".into());
    model.faults.lock().unwrap().commits = vec![away.clone()];
    assert_eq!(
        ledger.settle(&debits(1, 1)).await,
        [Err(Failure::Unavailable(away))]
    );
    assert!(ledger.settle(&debits(1, 1)).await.iter().all(applied));
    assert_eq!(model.state().accounts[&key(0)].balance, 9);
}

#[tokio::test]
async fn an_event_that_the_database_refuses_is_found_among_its_neighbours() {
    let (model, mut ledger) = desk();
    ledger.settle(&[open(0, 1_000), open(1, 1_000)]).await;
    model.faults.lock().unwrap().failing = Some((
        13,
        StoreError::Refused {
            code: "22003".into(),
            message: "out of range".into(),
        },
    ));
    let mut works = debits(40, 2);
    works.insert(17, event(0, "bad".into(), Kind::Debit, 13, None));
    let answers = ledger.settle(&works).await;
    let refused = Err(Failure::Refused {
        code: "22003".into(),
    });
    for (place, answer) in answers.iter().enumerate() {
        assert!(
            if place == 17 {
                *answer == refused
            } else {
                applied(answer)
            },
            "{place}"
        );
    }
    let state = model.state();
    assert_eq!(state.letters.len(), 1);
    assert_eq!(state.letters[0].reason, Reason::StoreRefused);
    assert_eq!(state.letters[0].detail["code"], "22003");
    state.check_invariants();
}

#[tokio::test]
async fn an_event_that_fails_in_an_unknown_way_does_not_take_its_neighbours_along() {
    let (model, mut ledger) = desk();
    ledger.settle(&[open(0, 1_000), open(1, 1_000)]).await;
    let unknown = StoreError::Other("who knows".into());
    model.faults.lock().unwrap().failing = Some((13, unknown.clone()));
    let mut works = debits(10, 2);
    works.insert(3, event(0, "odd".into(), Kind::Debit, 13, None));
    let answers = ledger.settle(&works).await;
    let failed = Err(Failure::Unavailable(unknown));
    for (place, answer) in answers.iter().enumerate() {
        assert!(
            if place == 3 {
                *answer == failed
            } else {
                applied(answer)
            },
            "{place}"
        );
    }
    // It is not given up: nothing of it was recorded, and it applies once it can.
    assert_eq!(model.state().letters.len(), 0);
    model.faults.lock().unwrap().failing = None;
    assert!(ledger.settle(&works[3..4]).await.iter().all(applied));
    model.state().check_invariants();
}

#[tokio::test]
async fn a_locked_account_does_not_stop_its_neighbours() {
    let (model, mut ledger) = desk();
    ledger
        .settle(&[open(0, 100), open(1, 100), open(2, 100)])
        .await;
    model.faults.lock().unwrap().locked = vec![key(1)];
    let answers = ledger.settle(&debits(9, 3)).await;
    for (place, answer) in answers.iter().enumerate() {
        let busy = place % 3 == 1;
        assert!(
            if busy {
                *answer == Err(Failure::Busy)
            } else {
                applied(answer)
            },
            "{place}"
        );
    }
    // Nobody waits for it again and again: its neighbours are not asked to.
    let commits = model.commits();
    let more: Vec<Work> = (0..9)
        .map(|n| event(n % 3, format!("more-{n}"), Kind::Debit, 1, None))
        .collect();
    assert_eq!(
        ledger
            .settle(&more)
            .await
            .iter()
            .filter(|a| applied(a))
            .count(),
        6
    );
    assert_eq!(model.commits(), commits + 1);
    model.faults.lock().unwrap().locked.clear();
    // The ledger finds out by itself that the account is free again.
    let freed = async {
        while !ledger.settle(&more[1..2]).await.iter().all(applied) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed)
        .await
        .unwrap();
    let again = ledger.settle(&debits(9, 3)).await;
    assert_eq!(again.iter().filter(|answer| applied(answer)).count(), 3);
    model.state().check_invariants();
}
