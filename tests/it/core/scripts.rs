//! The scripts on the pure rules, one act at a time, as one batch, and over two
//! instances with warm caches.

use std::sync::Arc;

use onceledger::{
    clock::Clock, copies::Copies, domain::Timestamp, ledger::Ledger, store::Store,
    telemetry::Metrics,
};

use crate::support::{
    model::Model,
    script::{self, Line},
};

fn ledger(store: &Arc<dyn Store>) -> Ledger {
    let clock = Clock::standing_at(Timestamp(1_000_000));
    Ledger::new(store.clone(), clock, Metrics::default(), Copies::default())
}

/// Plays a script line by line, each act on the next of the ledgers.
pub async fn one_by_one(
    store: &Arc<dyn Store>,
    ledgers: &mut [Ledger],
    lines: &[Line],
    suffix: &str,
) {
    for (n, line) in lines.iter().enumerate() {
        let Some(work) = line.work(suffix) else {
            line.look(&**store, suffix).await.unwrap();
            continue;
        };
        let turn = n % ledgers.len();
        let answers = ledgers[turn].settle(std::slice::from_ref(&work)).await;
        let answer = answers[0]
            .as_ref()
            .unwrap_or_else(|e| panic!("{}: {e}", line.place));
        assert_eq!(Some(script::spell(answer)), line.expected, "{}", line.place);
    }
}

/// Plays all acts of a script as one batch, then the looks that stand at its end.
pub async fn as_one_batch(
    store: &Arc<dyn Store>,
    ledger: &mut Ledger,
    lines: &[Line],
    suffix: &str,
) {
    let works: Vec<_> = lines.iter().filter_map(|line| line.work(suffix)).collect();
    for answer in ledger.settle(&works).await {
        answer.unwrap();
    }
    let last_act = lines
        .iter()
        .rposition(|line| line.work(suffix).is_some())
        .unwrap();
    for look in &lines[last_act + 1..] {
        look.look(&**store, suffix).await.unwrap();
    }
}

#[tokio::test]
async fn scripts_hold_on_the_pure_rules() {
    for (name, lines) in script::all() {
        let model = Arc::new(Model::default());
        let store: Arc<dyn Store> = model.clone();
        one_by_one(&store, &mut [ledger(&store)], &lines, "").await;
        model.state().check_invariants();

        let model = Arc::new(Model::default());
        let store: Arc<dyn Store> = model.clone();
        one_by_one(&store, &mut [ledger(&store), ledger(&store)], &lines, "").await;
        model.state().check_invariants();

        let batch = Arc::new(Model::default());
        let store: Arc<dyn Store> = batch.clone();
        as_one_batch(&store, &mut ledger(&store), &lines, "").await;
        assert_same_end(&name, &model, &batch);
    }
}

/// Two stores must have ended alike, but for what depends on how it was batched.
fn assert_same_end(name: &str, one: &Model, other: &Model) {
    let end = |model: &Model| {
        let state = model.state();
        let accounts: Vec<_> = state
            .accounts
            .iter()
            .filter(|(_, a)| a.version > 0)
            .map(|(k, a)| (k.clone(), a.balance, a.version, a.status, a.floor))
            .collect();
        let mut records: Vec<_> = state
            .records
            .values()
            .map(|(_, r)| {
                let id = &r.event.identity;
                (
                    id.source.clone(),
                    id.event_id.clone(),
                    r.status.as_str(),
                    r.reason,
                    r.version,
                    r.balance_after,
                )
            })
            .collect();
        records.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        let mut letters: Vec<_> = state
            .letters
            .iter()
            .map(|l| (l.digest(), l.reason))
            .collect();
        letters.sort_by_key(|(digest, _)| *digest);
        (accounts, records, letters)
    };
    assert_eq!(end(one), end(other), "{name}");
}
