//! What is proven about accounts for which nothing is applied, and who wins
//! where two are first.

use std::sync::Arc;

use onceledger::{
    domain::{Account, AccountChange, AccountStatus, Found, Kind, Proof, Reason, Record},
    store::Store,
};
use rstest::rstest;

use super::{On, scene::*};

/// A refusal, decided on the account as it is believed to be.
fn refusal(id: &str, believed: &Account, event_id: &str) -> AccountChange {
    let found = Found {
        version: believed.version,
        balance: believed.balance,
    };
    let record = rejected(debit(id, event_id, 1_000), Reason::InsufficientFunds, found);
    AccountChange {
        inserts: vec![Arc::new(record)],
        ..change(id, Proof::Unchanged(believed.clone()))
    }
}

async fn stale(store: &dyn Store, change: AccountChange) -> bool {
    let committed = store.commit(&plan(vec![change])).await.unwrap();
    !committed.stale.is_empty()
}

#[rstest]
#[tokio::test]
async fn a_refusal_holds_only_on_the_account_as_it_is(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let a = open(store, "a", 100).await;
    assert!(!stale(store, refusal("a", &a, "r-1")).await);
    assert_eq!(
        page(store, "a").await.account.unwrap(),
        a,
        "a fence moves nothing"
    );

    write(store, vec![step("a", &a, &revised(&a))]).await;
    assert!(
        stale(store, refusal("a", &a, "r-2")).await,
        "the revision moved"
    );
    let a = revised(&a);
    assert!(!stale(store, refusal("a", &a, "r-2")).await);
    write(store, vec![spend("a", &a, "e-1", 10)]).await;
    assert!(
        stale(store, refusal("a", &a, "r-3")).await,
        "the version moved"
    );
    assert_eq!(known(store, &debit("a", "r-3", 1_000)).await, None);
    assert_eq!(books.number("SELECT count(*) FROM event_detail").await, 2);
}

#[rstest]
#[tokio::test]
async fn absence_holds_until_the_account_is_opened(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let absent = || AccountChange {
        letters: vec![letter(Reason::EventIdReused, "{}")],
        ..change("a", Proof::Absent)
    };
    assert!(!stale(store, absent()).await);
    write(store, vec![await_account("a", "w-1")]).await;
    assert!(!stale(store, absent()).await, "an awaited account is none");
    let awaited = page(store, "a").await.account.unwrap();
    let opens = AccountChange {
        after: Some(Account {
            row: awaited.row,
            revision: 2,
            ..account(5)
        }),
        inserts: opening("a", 5).inserts,
        ..step("a", &awaited, &awaited)
    };
    write(store, vec![opens]).await;
    assert!(stale(store, absent()).await);
    assert_eq!(books.number("SELECT seen FROM dead_letter").await, 2);
}

/// Parks an event for an account that has no row yet.
fn await_account(id: &str, event_id: &str) -> AccountChange {
    let record = parked(debit(id, event_id, 1), Reason::AccountNotFound);
    AccountChange {
        after: Some(revised(&Account::awaited(NOW))),
        inserts: vec![Arc::new(record)],
        ..change(id, Proof::Insert)
    }
}

#[rstest]
#[tokio::test]
async fn of_two_who_park_for_a_missing_account_one_is_stale(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let (one, two) = (books.store.clone(), books.another().await);
    for round in 0..20 {
        let id = format!("a{round}");
        let (first, second) = (
            plan(vec![await_account(&id, &format!("{round}-1"))]),
            plan(vec![await_account(&id, &format!("{round}-2"))]),
        );
        let (first, second) = tokio::join!(one.commit(&first), two.commit(&second));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_ne!(
            first.stale.is_empty(),
            second.stale.is_empty(),
            "round {round}"
        );
        let page = page(&*books.store, &id).await;
        assert_eq!(page.account.unwrap().status, AccountStatus::Awaited);
        assert_eq!(page.waiting.len(), 1);
    }
    sound(&*books.store).await;
}

#[rstest]
#[tokio::test]
async fn an_awaited_account_is_none_to_the_outside(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    write(store, vec![await_account("a", "w-1")]).await;
    assert_eq!(store.account(&key("a")).await.unwrap(), None);
    let all = store
        .accounts("default", &Default::default(), None, 10)
        .await
        .unwrap();
    assert!(all.is_empty());
    assert_eq!(store.verify().await.unwrap().accounts, 0);

    // It opens by a step like any other, and what waited applies with it.
    let page = page(store, "a").await;
    let (awaited, waiting) = (page.account.unwrap(), page.waiting[0].clone());
    let mut opened = account(100);
    opened.row = awaited.row;
    opened.version = 2;
    opened.balance = 99;
    opened.revision = awaited.revision + 1;
    opened.opened_at = onceledger::domain::Timestamp(NOW.0 + 7);
    opened.metadata = Some("{}".into());
    let done = Record {
        ..applied((*waiting.event).clone(), 2, 99)
    };
    let opens = AccountChange {
        inserts: opening("a", 100).inserts,
        updates: vec![update(&waiting, done)],
        ..step("a", &awaited, &opened)
    };
    write(store, vec![opens]).await;
    assert_eq!(store.account(&key("a")).await.unwrap(), Some(opened));
    sound(store).await;
}

#[rstest]
#[tokio::test]
async fn two_writers_of_one_version_are_one_winner(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let (one, two) = (books.store.clone(), books.another().await);
    let mut account = open(&*one, "a", 100).await;
    for round in 0..20 {
        let (first, second) = (
            plan(vec![spend("a", &account, &format!("{round}-1"), 1)]),
            plan(vec![spend("a", &account, &format!("{round}-2"), 1)]),
        );
        let (first, second) = tokio::join!(one.commit(&first), two.commit(&second));
        let won = [first, second]
            .into_iter()
            .filter(|r| r.as_ref().unwrap().stale.is_empty());
        assert_eq!(won.count(), 1, "round {round}");
        account = page(&*one, "a").await.account.unwrap();
    }
    assert_eq!((account.version, account.balance), (21, 80));
    sound(&*one).await;
}

#[rstest]
#[tokio::test]
async fn a_fence_and_a_step_of_one_account_never_both_hold(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let (one, two) = (books.store.clone(), books.another().await);
    open(&*one, "a", 100).await;
    for round in 0..20 {
        let account = page(&*one, "a").await.account.unwrap();
        let record = rejected(
            event("a", &format!("r-{round}"), Kind::Debit, 1_000, None),
            Reason::InsufficientFunds,
            account.found(),
        );
        let fence = AccountChange {
            inserts: vec![Arc::new(record.clone())],
            ..change("a", Proof::Unchanged(account.clone()))
        };
        let (fence, step) = (
            plan(vec![fence]),
            plan(vec![spend("a", &account, &format!("e-{round}"), 1)]),
        );
        let (fence, step) = tokio::join!(one.commit(&fence), two.commit(&step));
        assert!(
            step.unwrap().stale.is_empty(),
            "a fence alone moves nothing"
        );
        let refused = known(&*one, &record.event).await.is_some();
        assert_eq!(refused, fence.unwrap().stale.is_empty());
    }
}
