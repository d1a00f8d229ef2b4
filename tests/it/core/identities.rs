//! Who has an identity, where more than one account wants it.

use std::sync::Arc;

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{Answer, Kind, Reason, Timestamp, Told, Verdict, Work},
    ledger::Ledger,
    store::{self, Store, StoreOptions},
    telemetry::Metrics,
};

use super::asks::{bare, event, key, open};
use crate::support::{databases, model::Model};

async fn verdicts(ledger: &mut Ledger, works: &[Work]) -> Vec<Verdict> {
    let answers = ledger.settle(works).await;
    let verdict = |answer| match answer {
        Ok(Answer::Event(Told { verdict, .. })) => verdict,
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(verdict).collect()
}

/// A refused bare event leaves its place, also to an event of another account
/// that names it; whoever has it then keeps it.
async fn a_free_place_goes_to_whoever_comes(store: Arc<dyn Store>, one_batch: bool) {
    let clock = Clock::standing_at(Timestamp(1_000_000));
    let mut ledger = Ledger::new(store.clone(), clock, Metrics::default(), Copies::default());
    ledger.settle(&[open(0, 10), open(1, 10)]).await;
    let works = [
        bare(0, 50, 1),
        event(1, "a0:v1".into(), Kind::Debit, 1, None),
    ];
    let told = if one_batch {
        verdicts(&mut ledger, &works).await
    } else {
        let mut told = verdicts(&mut ledger, &works[..1]).await;
        told.extend(verdicts(&mut ledger, &works[1..]).await);
        told
    };
    assert_eq!(
        told,
        [
            Verdict::Rejected(Reason::InsufficientFunds),
            Verdict::Applied
        ]
    );
    let told = verdicts(
        &mut ledger,
        &[bare(0, 5, 1), works[1].clone(), works[0].clone()],
    )
    .await;
    let reused = Verdict::Rejected(Reason::EventIdReused);
    assert_eq!(told, [reused, Verdict::Duplicate, reused]);
    let account = store.account(&key(1)).await.unwrap().unwrap();
    assert_eq!((account.version, account.balance), (2, 9));
    assert_eq!(store.verify().await.unwrap().offences, []);
    store.close().await;
}

#[tokio::test]
async fn a_free_place_goes_to_whoever_comes_on_every_store() {
    for one_batch in [true, false] {
        a_free_place_goes_to_whoever_comes(Arc::new(Model::default()), one_batch).await;
        let (sqlite, postgres) = (databases::sqlite().await, databases::postgres().await);
        for database in [&sqlite, &postgres] {
            let store = store::open(&database.url, &StoreOptions::default())
                .await
                .unwrap();
            a_free_place_goes_to_whoever_comes(store, one_batch).await;
        }
    }
}

/// A ledger that takes every event for new meets those that another one decided.
async fn a_wrong_guess_costs_no_second_effect(store: Arc<dyn Store>) {
    let clock = Clock::standing_at(Timestamp(1_000_000));
    let ledger = || {
        Ledger::new(
            store.clone(),
            clock.clone(),
            Metrics::default(),
            Copies::default(),
        )
    };
    let works = [
        event(0, "applied".into(), Kind::Debit, 4, None),
        event(0, "refused".into(), Kind::Debit, 99, None),
        event(0, "waits".into(), Kind::Debit, 1, Some(9)),
        event(5, "no account".into(), Kind::Debit, 1, None),
        bare(1, 2, 1),
    ];
    let mut first = ledger();
    first.settle(&[open(0, 10), open(1, 10)]).await;
    let told = verdicts(&mut first, &works).await;
    let again = [
        Verdict::Duplicate,
        Verdict::Rejected(Reason::InsufficientFunds),
        Verdict::Parked(Reason::VersionGap),
        Verdict::Parked(Reason::AccountNotFound),
        Verdict::Duplicate,
    ];
    assert_eq!(told[0], Verdict::Applied);
    assert_eq!(told[1..4], again[1..4]);
    // One by one, each met by a ledger that was never wrong yet.
    for (work, again) in works.iter().zip(again) {
        let mut guessing = ledger().trusting();
        let work = std::slice::from_ref(work);
        assert_eq!(verdicts(&mut guessing, work).await, [again]);
    }
    // And all at once, with one that is new.
    let mut batch = works.to_vec();
    batch.push(event(1, "new".into(), Kind::Credit, 1, None));
    let told = verdicts(&mut ledger().trusting(), &batch).await;
    assert_eq!(told[..5], again);
    assert_eq!(told[5], Verdict::Applied);
    // Another content under a known id is no new event either.
    let other = event(1, "applied".into(), Kind::Debit, 4, None);
    let told = verdicts(&mut ledger().trusting(), &[other]).await;
    assert_eq!(told, [Verdict::Rejected(Reason::EventIdReused)]);
    for (id, version, balance) in [(0, 2, 6), (1, 3, 9)] {
        let account = store.account(&key(id)).await.unwrap().unwrap();
        assert_eq!((account.version, account.balance), (version, balance));
    }
    assert_eq!(store.verify().await.unwrap().offences, []);
    store.close().await;
}

#[tokio::test]
async fn a_wrong_guess_costs_no_second_effect_on_any_store() {
    a_wrong_guess_costs_no_second_effect(Arc::new(Model::default())).await;
    let (sqlite, postgres) = (databases::sqlite().await, databases::postgres().await);
    for database in [&sqlite, &postgres] {
        let store = store::open(&database.url, &StoreOptions::default())
            .await
            .unwrap();
        a_wrong_guess_costs_no_second_effect(store).await;
    }
}
