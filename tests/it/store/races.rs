//! Processes that know nothing of each other, on one database, each with a warm cache:
//! whatever is answered is right at some moment of the call.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{
        AccountStatus, Answer, Ask, Event, EventKey, Kind, Patch, PatchRefusal, Reason, Status,
        Timestamp, Told, Verdict, Work,
    },
    ledger::Ledger,
    store::{Direction, EventFilter, LetterFilter, Store},
    telemetry::Metrics,
};
use proptest::prelude::*;
use rstest::rstest;

use super::{
    Books, On,
    ledgers::{opens, settle, submit},
    scene::*,
};

fn ledger(store: Arc<dyn Store>) -> Ledger {
    let (metrics, copies) = (Metrics::default(), Copies::default());
    Ledger::new(store, Clock::system(), metrics, copies)
}

/// Ledgers as so many processes have them.
async fn ledgers<const N: usize>(books: &Books) -> [Ledger; N] {
    let mut all = Vec::new();
    for _ in 0..N {
        all.push(ledger(books.another().await));
    }
    all.try_into().ok().unwrap()
}

/// The same; every other one takes each event for new that it did not see itself.
async fn guessing<const N: usize>(books: &Books) -> [Ledger; N] {
    let mut place = 0;
    ledgers(books).await.map(|ledger: Ledger| {
        place += 1;
        match place % 2 {
            0 => ledger.trusting(),
            _ => ledger,
        }
    })
}

async fn ask(ledger: &mut Ledger, work: Work) -> Answer {
    ledger.settle(&[work]).await.remove(0).unwrap()
}

async fn tell(ledger: &mut Ledger, event: Event) -> Told {
    settle(ledger, vec![submit(event)]).await.remove(0)
}

fn patch(id: &str, patch: Patch) -> Work {
    Work {
        account: key(id),
        ask: Ask::Patch(Box::new(Patch {
            subject: "anna".into(),
            ..patch
        })),
    }
}

fn becomes(id: &str, status: AccountStatus) -> Work {
    let status = Some(status);
    patch(
        id,
        Patch {
            status,
            ..Patch::default()
        },
    )
}

fn credit(account: &str, id: &str, amount: i64) -> Event {
    event(account, id, Kind::Credit, amount, None)
}

/// Warms both caches.
async fn warm(one: &mut Ledger, two: &mut Ledger, id: &str, balance: i64) {
    ask(one, opens(id, balance)).await;
    tell(two, credit(id, &format!("{id}-warm"), 1)).await;
    tell(one, credit(id, &format!("{id}-warmer"), 1)).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_takes_effect_after_a_freeze_was_answered(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let [mut one, mut two] = ledgers(&books).await;
    let mut halfway = 0;
    for round in 0..25_usize {
        let id = format!("a{round}");
        warm(&mut one, &mut two, &id, 1_000).await;
        let sent = AtomicUsize::new(0);
        let debits = async {
            let mut applied = 0;
            for n in 0..20 {
                sent.store(n, Ordering::SeqCst);
                let told = tell(&mut two, debit(&id, &format!("{id}-{n}"), 1)).await;
                match told.verdict {
                    Verdict::Applied => applied += 1,
                    Verdict::Rejected(Reason::AccountFrozen) => {}
                    other => panic!("{other:?}"),
                }
            }
            applied
        };
        let freeze = async {
            // Each round a little later.
            while sent.load(Ordering::SeqCst) < round % 10 {
                tokio::task::yield_now().await;
            }
            ask(&mut one, becomes(&id, AccountStatus::Frozen)).await
        };
        let (applied, frozen) = tokio::join!(debits, freeze);
        let Answer::Patched(frozen) = frozen else {
            panic!("{frozen:?}")
        };
        assert_eq!(
            state(&*books.store, &id).await,
            (frozen.version, frozen.balance)
        );
        assert_eq!(frozen.version, 3 + applied);
        halfway += usize::from((1..20).contains(&applied));
    }
    assert!(halfway > 0, "no freeze ever met a debit");
    sound(&*books.store).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_debit_passes_a_floor_that_was_raised_before_it(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let [mut one, mut two] = ledgers(&books).await;
    for round in 0..25 {
        let id = format!("a{round}");
        warm(&mut one, &mut two, &id, 98).await;
        let debits = async {
            for n in 0..10 {
                tell(&mut two, debit(&id, &format!("{id}-{n}"), 10)).await;
            }
        };
        let floor = Patch {
            floor: Some(Some(55)),
            ..Patch::default()
        };
        let ((), raised) = tokio::join!(debits, ask(&mut one, patch(&id, floor)));
        let Answer::Patched(raised) = raised else {
            panic!("{raised:?}")
        };
        let history = books
            .store
            .history(&key(&id), Some(raised.version), Direction::Ascending, 100)
            .await
            .unwrap();
        for entry in history {
            assert_eq!(entry.floor, Some(55), "decided under the new floor");
            assert!(entry.balance_after >= Some(55), "{entry:?}");
        }
    }
    sound(&*books.store).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_is_closed_empty_or_not_at_all(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let [mut one, mut two] = ledgers(&books).await;
    for round in 0..40 {
        let id = format!("a{round}");
        warm(&mut one, &mut two, &id, 0).await;
        tell(&mut two, debit(&id, &format!("{id}-out"), 2)).await;
        let money = credit(&id, &format!("{id}-in"), 5);
        let close = becomes(&id, AccountStatus::Closed);
        let (told, closed) = match round % 2 {
            0 => tokio::join!(tell(&mut two, money), ask(&mut one, close)),
            _ => {
                let (closed, told) = tokio::join!(ask(&mut one, close), tell(&mut two, money));
                (told, closed)
            }
        };
        match (told.verdict, closed) {
            (Verdict::Applied, Answer::PatchRefused(PatchRefusal::NotEmpty(_)))
            | (Verdict::Rejected(Reason::AccountClosed), Answer::Patched(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    sound(&*books.store).await;
}

/// Whoever opens an account sees what waits for it, and whoever comes too early for
/// that sees the account: no sweeper is needed.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_waits_for_an_account_that_was_opened_meanwhile(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let [mut one, mut two, mut three] = ledgers(&books).await;
    let mut early = 0;
    for round in 0..40 {
        let id = format!("a{round}");
        let chain = (1..=3).map(|v| event(&id, &format!("{id}-v{v}"), Kind::Debit, 1, Some(v)));
        let chain: Vec<Work> = chain.rev().map(submit).collect();
        let free = submit(debit(&id, &format!("{id}-free"), 1));
        let (_, first, second) = tokio::join!(
            ask(&mut one, opens(&id, 100)),
            settle(&mut two, chain),
            settle(&mut three, vec![free]),
        );
        let waited = |told: &Told| told.verdict == Verdict::Parked(Reason::AccountNotFound);
        early += first
            .iter()
            .chain(&second)
            .filter(|told| waited(told))
            .count();
        let (version, balance) = state(&*books.store, &id).await;
        let waiting = page(&*books.store, &id).await.waiting;
        // The one without a version may take a place of the chain: then one of it
        // conflicts, which is told, and nothing waits.
        assert!(waiting.is_empty(), "{waiting:?}");
        assert!((4..=5).contains(&version), "{version}");
        assert_eq!(balance, 100 - (version - 1));
    }
    assert!(early > 0, "nothing ever came too early");
    assert_eq!(books.store.due(10).await.unwrap(), []);
    sound(&*books.store).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_dies_or_applies_and_never_both(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let [mut one, mut two] = ledgers(&books).await;
    let (mut died, mut applied) = (0, 0);
    for round in 0..48_u64 {
        let id = format!("a{round}");
        ask(&mut one, opens(&id, 100)).await;
        let late = event(&id, &format!("{id}-late"), Kind::Debit, 1, Some(2));
        tell(&mut two, late.clone()).await;
        let everything = Timestamp(i64::MAX);
        let waiting = books.store.expired(everything, 10).await.unwrap().remove(0);
        let expire = Work {
            account: waiting.account,
            ask: Ask::Expire {
                key: waiting.key,
                parked_before: everything,
                raw: waiting.raw,
            },
        };
        let first = event(&id, &format!("{id}-first"), Kind::Debit, 1, Some(1));
        // Who comes first changes from round to round.
        let late_by = |turn: u64| tokio::time::sleep(Duration::from_millis(turn % 4 * 6));
        let (expired, told) = tokio::join!(
            async {
                late_by(round).await;
                ask(&mut one, expire).await
            },
            async {
                late_by(round / 4).await;
                tell(&mut two, first).await
            },
        );
        assert_eq!(told.verdict, Verdict::Applied);
        let record = known(&*books.store, &late).await.unwrap();
        match (record.status, expired) {
            (Status::Dead, Answer::Expired(Some(Reason::VersionGapExpired))) => {
                died += 1;
                assert_eq!(state(&*books.store, &id).await, (2, 99));
            }
            (Status::Applied, Answer::Expired(None)) => {
                applied += 1;
                assert_eq!(state(&*books.store, &id).await, (3, 98));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(died > 0 && applied > 0, "{died} died, {applied} applied");
    // Their bodies are empty here, so that all are one letter.
    let filter = LetterFilter::default();
    let letters = books
        .store
        .letters("default", &filter, None, 100)
        .await
        .unwrap();
    assert_eq!(letters.iter().map(|letter| letter.seen).sum::<i64>(), died);
    sound(&*books.store).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_with_one_id_one_is_first_and_the_other_is_told(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let [mut one, mut two] = guessing(&books).await;
    warm(&mut one, &mut two, "a", 10_000).await;
    warm(&mut one, &mut two, "b", 10_000).await;
    for round in 0..40 {
        let id = format!("e{round}");
        // Also on another account, which no fence of the first one covers.
        let account = if round % 2 == 0 { "a" } else { "b" };
        let (first, second) = tokio::join!(
            tell(&mut one, debit("a", &id, 5)),
            tell(&mut two, debit(account, &id, 7)),
        );
        let reused = Verdict::Rejected(Reason::EventIdReused);
        let verdicts = [first.verdict, second.verdict];
        assert!(
            verdicts == [Verdict::Applied, reused] || verdicts == [reused, Verdict::Applied],
            "{verdicts:?}"
        );
    }
    let reused = LetterFilter {
        reason: Some(Reason::EventIdReused),
        ..LetterFilter::default()
    };
    let letters = books
        .store
        .letters("default", &reused, None, 100)
        .await
        .unwrap();
    // Their bodies are empty here, so that all are one letter.
    assert_eq!(letters.iter().map(|letter| letter.seen).sum::<i64>(), 40);
    sound(&*books.store).await;
}

/// What one process sends.
#[derive(Clone, Debug)]
enum Move {
    Debit(i64),
    Credit(i64),
    Again(usize),
    Expecting(i64),
}

fn moves() -> impl Strategy<Value = Vec<Vec<Move>>> {
    let one = prop_oneof![
        4 => (1..60_i64).prop_map(Move::Debit),
        2 => (1..30_i64).prop_map(Move::Credit),
        1 => (0..12_usize).prop_map(Move::Again),
        1 => (0..4_i64).prop_map(Move::Expecting),
    ];
    proptest::collection::vec(proptest::collection::vec(one, 4..14), 4)
}

/// Every answer of four processes on one account is true of a version that the account
/// had between the call and its answer.
async fn answers_are_true(on: On, scripts: Vec<Vec<Move>>) {
    let books = on.books().await;
    ask(&mut ledger(books.store.clone()), opens("a", 100)).await;
    let all: [Ledger; 4] = guessing(&books).await;
    let playing = all
        .into_iter()
        .zip(scripts)
        .enumerate()
        .map(|(who, (mut ledger, script))| {
            let store = books.store.clone();
            async move {
                let mut answers = Vec::new();
                for (n, step) in script.into_iter().enumerate() {
                    let before = state(&*store, "a").await.0;
                    let id = format!("{who}-{n}");
                    let event = match step {
                        Move::Debit(amount) => debit("a", &id, amount),
                        Move::Credit(amount) => credit("a", &id, amount),
                        // Perhaps another one's, who sends it at this moment.
                        Move::Again(n) => debit("a", &format!("shared-{n}"), 3),
                        Move::Expecting(ahead) => {
                            event("a", &id, Kind::Debit, 2, Some((before + ahead - 1).max(1)))
                        }
                    };
                    let told = tell(&mut ledger, event).await;
                    answers.push((before, state(&*store, "a").await.0, told));
                }
                answers
            }
        });
    let answers = futures_util::future::join_all(playing).await;
    let history = books
        .store
        .history(&key("a"), None, Direction::Ascending, 500)
        .await
        .unwrap();
    let balance = |version: i64| history[version as usize - 1].balance_after.unwrap();
    let answers: Vec<(i64, i64, Told)> = answers.into_iter().flatten().collect();
    // When each identity was sent for the first time.
    let mut first: HashMap<EventKey, i64> = HashMap::new();
    for (before, _, told) in &answers {
        let since = first.entry(told.event.identity.key()).or_insert(*before);
        *since = (*since).min(*before);
    }
    for (before, after, told) in answers {
        let content = &told.event.content;
        match (told.verdict, told.found) {
            (Verdict::Applied | Verdict::Duplicate, _) => {
                let entry = &history[told.version.unwrap() as usize - 1];
                assert_eq!(entry.event.identity, told.event.identity);
                assert_eq!(entry.balance_after, told.balance);
            }
            (Verdict::Rejected(reason), Some(found)) => {
                // A copy of what was refused before gets the answer of then.
                let since = first[&told.event.identity.key()];
                assert!(
                    (since..=after).contains(&found.version),
                    "{before} {found:?} {after} {told:?}"
                );
                assert_eq!(found.balance, balance(found.version));
                match reason {
                    Reason::InsufficientFunds => assert!(found.balance < content.amount),
                    Reason::VersionConflict => {
                        assert!(content.expected_version.unwrap() < found.version);
                    }
                    other => panic!("{other:?}"),
                }
            }
            (Verdict::Parked(Reason::VersionGap), Some(found)) => {
                assert!(
                    (before..=after).contains(&found.version),
                    "{before} {found:?} {after} {told:?}"
                );
                assert!(content.expected_version.unwrap() > found.version);
            }
            other => panic!("{other:?}"),
        }
    }
    // Whatever still waits is not due.
    let parked = EventFilter {
        status: Some(Status::Parked),
        ..EventFilter::default()
    };
    let version = state(&*books.store, "a").await.0;
    for view in books
        .store
        .events("default", &parked, None, 500)
        .await
        .unwrap()
        .views
    {
        assert!(view.record.event.content.expected_version > Some(version));
    }
    sound(&*books.store).await;
}

#[rstest]
#[case::postgres(On::Postgres, 12)]
#[case::sqlite(On::Sqlite, 6)]
fn every_answer_is_true_of_a_moment_of_its_call(#[case] on: On, #[case] cases: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let config = ProptestConfig {
        cases,
        max_shrink_iters: 20,
        ..ProptestConfig::default()
    };
    proptest!(config, |(scripts in moves())| {
        runtime.block_on(answers_are_true(on, scripts));
    });
}
