//! The whole path on a real database: two ledgers with warm caches, as two
//! processes have them, that know nothing of each other.

use std::sync::Arc;

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{
        Answer, Ask, Currency, Event, Kind, Opening, Patch, Raw, Submission, Told, Verdict, Work,
    },
    ledger::Ledger,
    store::{Direction, Store},
    telemetry::Metrics,
};
use rstest::rstest;

use super::{Books, On, scene::*};

fn ledger(store: Arc<dyn Store>) -> Ledger {
    Ledger::new(
        store,
        Clock::system(),
        Metrics::default(),
        Copies::default(),
    )
}

async fn two(books: &Books) -> (Ledger, Ledger) {
    (ledger(books.store.clone()), ledger(books.another().await))
}

pub(super) fn submit(event: Event) -> Work {
    Work::submit(Submission {
        event: Arc::new(event),
        raw: Arc::new(Raw::default()),
        if_version: None,
        strict: false,
    })
}

pub(super) fn opens(id: &str, balance: i64) -> Work {
    Work {
        account: key(id),
        ask: Ask::Open(Box::new(Opening {
            currency: Currency::parse("EUR").unwrap(),
            balance,
            floor: Some(0),
            metadata: None,
        })),
    }
}

pub(super) async fn settle(ledger: &mut Ledger, works: Vec<Work>) -> Vec<Told> {
    let answers = ledger.settle(&works).await;
    let told = answers
        .into_iter()
        .filter_map(|answer| match answer.unwrap() {
            Answer::Event(told) => Some(told),
            _ => None,
        });
    told.collect()
}

fn count(told: &[Told], verdict: Verdict) -> usize {
    told.iter().filter(|it| it.verdict == verdict).count()
}

#[rstest]
#[tokio::test]
async fn two_ledgers_spend_one_account_to_the_last_cent(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let (mut one, mut two) = two(&books).await;
    settle(&mut one, vec![opens("a", 150)]).await;
    let spend = |name: &'static str| move |n| submit(debit("a", &format!("{name}-{n}"), 1));
    let rounds = async |ledger: &mut Ledger, name| {
        let mut told = Vec::new();
        for round in 0..20 {
            let works = (round * 5..round * 5 + 5).map(spend(name)).collect();
            told.extend(settle(ledger, works).await);
        }
        told
    };
    let (first, second) = tokio::join!(rounds(&mut one, "one"), rounds(&mut two, "two"));
    let told = [first, second].concat();
    assert_eq!(count(&told, Verdict::Applied), 150);
    let refused = Verdict::Rejected(onceledger::domain::Reason::InsufficientFunds);
    assert_eq!(count(&told, refused), 50);
    let emptied = told
        .iter()
        .filter(|it| it.verdict == refused)
        .all(|it| it.found.is_some_and(|found| found.balance == 0));
    assert!(emptied, "nobody was refused while there was money");
    assert_eq!(state(&*books.store, "a").await, (151, 0));
    sound(&*books.store).await;
}

#[rstest]
#[tokio::test]
async fn the_same_event_on_two_ledgers_takes_effect_once(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let (mut one, mut two) = two(&books).await;
    let accounts = ["a", "b", "c", "d"];
    settle(
        &mut one,
        accounts.iter().map(|id| opens(id, 1_000)).collect(),
    )
    .await;
    let works = |turn: usize| -> Vec<Work> {
        let mut works: Vec<Work> = (0..40)
            .map(|n| submit(debit(accounts[n % 4], &format!("e-{n}"), 1)))
            .collect();
        works.rotate_left(turn);
        works
    };
    let (first, second) = tokio::join!(settle(&mut one, works(0)), settle(&mut two, works(13)));
    let told = [first, second].concat();
    assert_eq!(count(&told, Verdict::Applied), 40);
    assert_eq!(count(&told, Verdict::Duplicate), 40);
    for id in accounts {
        assert_eq!(state(&*books.store, id).await, (11, 990));
    }
    sound(&*books.store).await;
}

#[rstest]
#[tokio::test]
async fn a_shuffled_chain_over_two_ledgers_ends_in_order(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let (mut one, mut two) = two(&books).await;
    // Half of it comes before the account is there.
    let chain: Vec<Work> = (0..60)
        .map(|n| (n * 37) % 60 + 1)
        .map(|v| submit(event("a", &format!("e-{v}"), Kind::Debit, v, Some(v))))
        .collect();
    let play = async |ledger: &mut Ledger, works: &[Work]| {
        for batch in works.chunks(4) {
            settle(ledger, batch.to_vec()).await;
        }
    };
    let (early, late) = chain.split_at(30);
    tokio::join!(play(&mut one, &early[..15]), play(&mut two, &early[15..]));
    tokio::join!(
        async {
            settle(&mut one, vec![opens("a", 10_000)]).await;
            play(&mut one, &late[..15]).await;
        },
        play(&mut two, &late[15..]),
    );
    let history = books
        .store
        .history(&key("a"), None, Direction::Ascending, 100)
        .await
        .unwrap();
    let ids: Vec<String> = history[1..]
        .iter()
        .map(|r| r.event.identity.event_id.to_string())
        .collect();
    let ordered: Vec<String> = (1..=60).map(|v| format!("e-{v}")).collect();
    assert_eq!(ids, ordered);
    assert_eq!(state(&*books.store, "a").await, (61, 10_000 - 60 * 61 / 2));
    assert!(page(&*books.store, "a").await.waiting.is_empty());
    sound(&*books.store).await;
}

#[rstest]
#[tokio::test]
async fn settings_changed_by_one_ledger_bind_the_other(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let (mut one, mut two) = two(&books).await;
    settle(&mut one, vec![opens("a", 100)]).await;
    settle(&mut two, vec![submit(debit("a", "warm", 10))]).await;
    let floor = |floor| Work {
        account: key("a"),
        ask: Ask::Patch(Box::new(Patch {
            floor: Some(Some(floor)),
            subject: "anna".into(),
            ..Patch::default()
        })),
    };
    settle(&mut one, vec![floor(80)]).await;
    let told = settle(&mut two, vec![submit(debit("a", "below", 11))]).await;
    let refused = Verdict::Rejected(onceledger::domain::Reason::InsufficientFunds);
    assert_eq!(
        told[0].verdict, refused,
        "90 - 11 is below the floor that the other one set"
    );
    settle(&mut one, vec![floor(0)]).await;
    let told = settle(&mut two, vec![submit(debit("a", "within", 11))]).await;
    assert_eq!(told[0].verdict, Verdict::Applied);
    sound(&*books.store).await;
}
