//! Random histories on the model: whatever the order, the repetitions, the
//! batches and the instances, versioned events end in the same state.

use std::sync::Arc;

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{AccountStatus, Ask, Kind, Patch, Status, Timestamp, Work},
    ledger::Ledger,
    store::Store,
    telemetry::Metrics,
};
use proptest::{collection::vec, prelude::*};

use super::asks::{event, key, open};
use crate::support::model::Model;

const ACCOUNTS: i64 = 3;

/// A chain of events for each account, one for every version, in order.
fn chains() -> impl Strategy<Value = Vec<Work>> {
    vec(vec((any::<bool>(), 1..50i64), 0..12), ACCOUNTS as usize).prop_map(|chains| {
        let mut works = Vec::new();
        for (account, chain) in (0..).zip(chains) {
            for (version, (debit, amount)) in (1..).zip(chain) {
                let kind = if debit { Kind::Debit } else { Kind::Credit };
                let id = format!("{account}-{version}");
                works.push(event(account, id, kind, amount, Some(version)));
            }
        }
        works
    })
}

/// Balance, version, and the history as event ids with their versions.
type End = (i64, i64, Vec<(String, Option<i64>)>);

/// The state that an auditor would compare, by account.
fn end(model: &Model) -> Vec<End> {
    let state = model.state();
    (0..ACCOUNTS)
        .map(|n| {
            let account = state.accounts.get(&key(n)).cloned();
            let entries = state
                .history(&key(n))
                .iter()
                .map(|r| (r.event.identity.event_id.to_string(), r.version))
                .collect();
            (
                account.as_ref().map_or(0, |a| a.balance),
                account.map_or(0, |a| a.version),
                entries,
            )
        })
        .collect()
}

/// Plays works in batches, each batch on one of the instances.
async fn play(model: &Arc<Model>, works: &[Work], cuts: &[(usize, usize)], instances: usize) {
    let store: Arc<dyn Store> = model.clone();
    let clock = Clock::standing_at(Timestamp(1_000_000));
    let mut ledgers: Vec<Ledger> = (0..instances)
        .map(|place| {
            let (metrics, copies) = (Metrics::default(), Copies::default());
            let ledger = Ledger::new(store.clone(), clock.clone(), metrics, copies);
            match place % 2 {
                0 => ledger,
                _ => ledger.trusting(),
            }
        })
        .collect();
    let mut rest = works;
    let mut turn = 0;
    while !rest.is_empty() {
        let (size, instance) = cuts[turn % cuts.len()];
        let (batch, behind) = rest.split_at(size.clamp(1, rest.len()));
        for answer in ledgers[instance % instances].settle(batch).await {
            answer.unwrap();
        }
        model.state().check_invariants();
        rest = behind;
        turn += 1;
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Versioned events with enough money: any permutation, repetition, batching
    /// and split over instances, opened at any moment, ends as in order and once.
    #[test]
    fn order_does_not_matter_for_versioned_events(
        chain in chains(),
        seed in vec(any::<prop::sample::Index>(), 120),
        again in vec(any::<prop::sample::Index>(), 0..20),
        cuts in vec((1..30usize, 0..3usize), 1..12),
    ) {
        let opens: Vec<Work> = (0..ACCOUNTS).map(|n| open(n, 100_000)).collect();
        let in_order: Vec<Work> = opens.iter().chain(&chain).cloned().collect();
        let mut shuffled = in_order.clone();
        for index in &again {
            shuffled.push(index.get(&in_order).clone());
        }
        for (n, index) in seed.iter().enumerate().take(shuffled.len()) {
            let other = index.index(shuffled.len());
            shuffled.swap(n, other);
        }
        let (expected, got) = (Arc::new(Model::default()), Arc::new(Model::default()));
        block_on(async {
            play(&expected, &in_order, &[(1, 0)], 1).await;
            play(&got, &shuffled, &cuts, 3).await;
        });
        prop_assert_eq!(end(&expected), end(&got));
        let parked = got.state().records.values().filter(|(_, r)| r.status == Status::Parked).count();
        prop_assert_eq!(parked, 0);
    }

    /// Two instances with warm caches, money short, settings changing between:
    /// never a refusal or an entry that no serial order explains. Since the model
    /// commits serially, the order of commits is that order: every decision must
    /// be the one that a single ledger without a cache makes there.
    #[test]
    fn warm_caches_never_refuse_what_a_serial_order_would_not(
        acts in vec((0..2usize, 0..ACCOUNTS, 0..6u8, 1..80i64, prop::option::weighted(0.4, 1..8i64)), 1..60),
    ) {
        let (two, one) = (Arc::new(Model::default()), Arc::new(Model::default()));
        block_on(async {
            let store: Arc<dyn Store> = two.clone();
            let clock = Clock::standing_at(Timestamp(1_000_000));
            let fresh = |store: &Arc<dyn Store>| {
                Ledger::new(store.clone(), clock.clone(), Metrics::default(), Copies::default())
            };
            let mut warm = [fresh(&store), fresh(&store).trusting()];
            let cold: Arc<dyn Store> = one.clone();
            for (n, (instance, account, act, amount, version)) in acts.iter().enumerate() {
                let work = match act {
                    0 => open(*account, *amount),
                    1 => Work {
                        account: key(*account),
                        ask: Ask::Patch(Box::new(Patch {
                            status: Some(if amount % 2 == 0 { AccountStatus::Frozen } else { AccountStatus::Open }),
                            floor: Some(Some(-*amount)),
                            ..Patch::default()
                        })),
                    },
                    2 | 3 => event(*account, format!("e{}", n % 40), Kind::Debit, *amount, *version),
                    _ => event(*account, format!("e{n}"), Kind::Credit, *amount, *version),
                };
                let told = warm[*instance].settle(std::slice::from_ref(&work)).await;
                let serial = fresh(&cold).settle(std::slice::from_ref(&work)).await;
                assert_eq!(told, serial, "act {n}");
                two.state().check_invariants();
            }
        });
        prop_assert_eq!(end(&one), end(&two));
    }
}
