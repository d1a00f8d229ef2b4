//! What waits: more of it than one transaction releases, and for longer than it may.

use std::sync::Arc;

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{Answer, Ask, Kind, RELEASE_MAX, Reason, Status, Timestamp, Verdict, Work},
    ledger::Ledger,
    store::{Store, StoreError},
    telemetry::Metrics,
};

use super::asks::{event, key, open};
use crate::support::model::Model;

struct Desk {
    model: Arc<Model>,
    clock: Clock,
    ledger: Ledger,
}

impl Desk {
    fn new() -> Self {
        let model = Arc::new(Model::default());
        let clock = Clock::standing_at(Timestamp(1_000_000));
        let store: Arc<dyn Store> = model.clone();
        let ledger = Ledger::new(store, clock.clone(), Metrics::default(), Copies::default());
        Self {
            model,
            clock,
            ledger,
        }
    }

    async fn ask(&mut self, work: Work) -> Answer {
        self.ledger.settle(&[work]).await.remove(0).unwrap()
    }

    async fn verdict(&mut self, work: Work) -> Verdict {
        match self.ask(work).await {
            Answer::Event(told) => told.verdict,
            other => panic!("{other:?}"),
        }
    }

    fn count(&self, status: Status) -> usize {
        self.model
            .state()
            .records
            .values()
            .filter(|(_, r)| r.status == status)
            .count()
    }

    async fn expire(&mut self, before: i64) -> Vec<bool> {
        let mut died = Vec::new();
        for waiting in self.model.expired(Timestamp(before), 10).await.unwrap() {
            let ask = Ask::Expire {
                key: waiting.key,
                parked_before: Timestamp(before),
                raw: waiting.raw,
            };
            match self
                .ask(Work {
                    account: waiting.account,
                    ask,
                })
                .await
            {
                Answer::Expired(dead) => died.push(dead.is_some()),
                other => panic!("{other:?}"),
            }
        }
        died
    }
}

#[tokio::test]
async fn more_versioned_ones_than_a_transaction_releases_all_apply_before_a_newer_event() {
    let mut desk = Desk::new();
    let many = RELEASE_MAX as i64 * 2 + 17;
    desk.ask(open(0, 1_000_000)).await;
    let chain: Vec<Work> = (2..=many)
        .rev()
        .map(|v| event(0, format!("v{v}"), Kind::Debit, 1, Some(v)))
        .collect();
    for batch in chain.chunks(300) {
        desk.ledger.settle(batch).await;
    }
    assert_eq!(desk.count(Status::Parked), many as usize - 1);
    // The one that fills the gap and, in the same batch, one that wants the end of the chain.
    let last = event(0, "last".into(), Kind::Debit, 5, Some(many + 1));
    let answers = desk
        .ledger
        .settle(&[event(0, "v1".into(), Kind::Debit, 1, Some(1)), last])
        .await;
    for answer in answers {
        let Ok(Answer::Event(told)) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(told.verdict, Verdict::Applied);
    }
    assert_eq!(desk.count(Status::Parked), 0);
    let account = desk.model.state().accounts[&key(0)].clone();
    assert_eq!(
        (account.version, account.balance),
        (many + 2, 1_000_000 - many - 5)
    );
    desk.model.state().check_invariants();
}

#[tokio::test]
async fn more_unversioned_ones_than_a_transaction_releases_all_apply_when_the_account_opens() {
    let mut desk = Desk::new();
    let many = RELEASE_MAX as i64 + 250;
    let works: Vec<Work> = (0..many)
        .map(|n| event(0, format!("u{n}"), Kind::Credit, 1, None))
        .collect();
    for batch in works.chunks(400) {
        desk.ledger.settle(batch).await;
    }
    assert_eq!(desk.count(Status::Parked), many as usize);
    desk.ask(open(0, 0)).await;
    desk.ask(Work {
        account: key(0),
        ask: Ask::Release,
    })
    .await;
    assert_eq!(desk.count(Status::Parked), 0);
    assert_eq!(desk.model.state().accounts[&key(0)].balance, many);
    desk.model.state().check_invariants();
}

#[tokio::test]
async fn a_parked_event_dies_after_the_limit_and_the_same_event_is_then_judged_afresh() {
    let mut desk = Desk::new();
    desk.ask(open(0, 100)).await;
    let early = || event(0, "early".into(), Kind::Debit, 1, Some(2));
    let lonely = || event(1, "lonely".into(), Kind::Debit, 1, None);
    assert_eq!(
        desk.verdict(early()).await,
        Verdict::Parked(Reason::VersionGap)
    );
    assert_eq!(
        desk.verdict(lonely()).await,
        Verdict::Parked(Reason::AccountNotFound)
    );
    desk.clock.set(Timestamp(5_000_000));
    assert_eq!(desk.expire(999_999).await, Vec::<bool>::new());
    assert_eq!(desk.expire(1_000_000).await, [true, true]);
    let state = desk.model.state();
    let mut letters: Vec<_> = state.letters.iter().map(|letter| letter.reason).collect();
    letters.sort_by_key(|reason| reason.as_str());
    assert_eq!(
        letters,
        [Reason::AccountNotFoundExpired, Reason::VersionGapExpired]
    );
    assert_eq!(desk.count(Status::Dead), 2);
    // Dead is not gone: it waits again, and applies when its turn comes.
    assert_eq!(
        desk.verdict(early()).await,
        Verdict::Parked(Reason::VersionGap)
    );
    assert_eq!(
        desk.verdict(event(0, "fill".into(), Kind::Debit, 1, Some(1)))
            .await,
        Verdict::Applied
    );
    assert_eq!(desk.verdict(early()).await, Verdict::Duplicate);
    // Other content under a dead identity is still another event.
    let other = event(1, "lonely".into(), Kind::Debit, 2, None);
    assert_eq!(
        desk.verdict(other).await,
        Verdict::Rejected(Reason::EventIdReused)
    );
    desk.ask(open(1, 10)).await;
    assert_eq!(desk.verdict(lonely()).await, Verdict::Applied);
    desk.model.state().check_invariants();
}

#[tokio::test]
async fn what_became_due_meanwhile_does_not_die() {
    let mut desk = Desk::new();
    desk.verdict(event(0, "x".into(), Kind::Debit, 1, Some(1)))
        .await;
    let found = desk
        .model
        .expired(Timestamp(1_000_000), 10)
        .await
        .unwrap()
        .remove(0);
    desk.ask(open(0, 5)).await;
    let ask = Ask::Expire {
        key: found.key,
        parked_before: Timestamp(9_000_000),
        raw: found.raw,
    };
    assert_eq!(
        desk.ask(Work {
            account: key(0),
            ask
        })
        .await,
        Answer::Expired(None)
    );
    assert_eq!(desk.count(Status::Applied), 2);
}

#[tokio::test]
async fn applied_at_never_goes_back_when_the_clock_does() {
    let mut desk = Desk::new();
    desk.ask(open(0, 100)).await;
    desk.clock.set(Timestamp(500));
    desk.verdict(event(0, "x".into(), Kind::Debit, 1, None))
        .await;
    desk.model.state().check_invariants();
    let state = desk.model.state();
    assert_eq!(state.history(&key(0))[1].decided_at, Timestamp(1_000_000));
}

#[tokio::test]
async fn unversioned_ones_follow_the_whole_chain_also_behind_the_first_window() {
    let mut desk = Desk::new();
    let many = RELEASE_MAX as i64 + 5;
    let mut works: Vec<Work> = (1..=many)
        .map(|v| event(0, format!("v{v}"), Kind::Debit, 1, Some(v)))
        .collect();
    works.extend((0..3).map(|n| event(0, format!("u{n}"), Kind::Debit, 1, None)));
    for batch in works.chunks(300) {
        desk.ledger.settle(batch).await;
    }
    desk.ask(open(0, 1_000_000)).await;
    desk.ask(Work {
        account: key(0),
        ask: Ask::Release,
    })
    .await;
    assert_eq!(desk.count(Status::Applied) as i64, many + 3 + 1);
    assert_eq!(desk.model.state().accounts[&key(0)].version, many + 3 + 1);
}

#[tokio::test]
async fn an_identity_decided_on_another_account_of_the_batch_is_answered_after_it() {
    let mut desk = Desk::new();
    desk.ask(open(0, 10)).await;
    desk.ask(open(1, 10)).await;
    // The first is refused by the store for ever, so its identity is free after all.
    let refused = StoreError::Refused {
        code: "22003".into(),
        message: "out of range".into(),
    };
    desk.model.faults.lock().unwrap().failing = Some((7, refused));
    let works = [
        event(0, "x".into(), Kind::Debit, 7, None),
        event(1, "x".into(), Kind::Debit, 3, None),
    ];
    let answers = desk.ledger.settle(&works).await;
    assert!(answers[0].is_err());
    let Ok(Answer::Event(told)) = &answers[1] else {
        panic!("{answers:?}")
    };
    assert_eq!(told.verdict, Verdict::Applied);
    // And where the first stands, the second is a reused id.
    let works = [
        event(0, "y".into(), Kind::Debit, 1, None),
        event(1, "y".into(), Kind::Debit, 1, None),
    ];
    let answers = desk.ledger.settle(&works).await;
    let Ok(Answer::Event(told)) = &answers[1] else {
        panic!("{answers:?}")
    };
    assert_eq!(told.verdict, Verdict::Rejected(Reason::EventIdReused));
}
