//! What is wrong in the books is found, also past the ends of 64 bits, where
//! SQLite goes on with floats.

use onceledger::domain::Kind;
use sqlx::{AssertSqlSafe, Executor as _};

use super::{Books, event, open};

async fn found(harm: &str) -> Vec<String> {
    let books = Books::new().await;
    books
        .settle(&[
            open("a", 100, Some(0)),
            event("a", "e1", Kind::Debit, 10, Some(1)),
            event("a", "e2", Kind::Credit, 5, Some(2)),
            event("a", "e3", Kind::Debit, 7, None),
            event("b", "early", Kind::Debit, 7, None),
            open("c", i64::MAX, None),
            event("c", "c1", Kind::Debit, i64::MAX, None),
            event("c", "c2", Kind::Debit, i64::MAX, None),
            event("c", "c3", Kind::Debit, 1, None),
            event("c", "c4", Kind::Debit, 1, None),
        ])
        .await;
    assert_eq!(books.store.verify().await.unwrap().offences, [], "before");
    let mut outsider = books.outsider().await;
    let harm = format!("DROP TRIGGER event_is_final; DROP TRIGGER event_is_final_delete; {harm}");
    outsider.execute(AssertSqlSafe(harm)).await.unwrap();
    let verified = books.store.verify().await.unwrap();
    let offences = verified.offences.into_iter();
    offences
        .map(|it| format!("{}: {}", it.account_id, it.what))
        .collect()
}

async fn check(harm: &str, wanted: &[&str]) {
    let found = found(harm).await;
    for part in wanted {
        let named = found.iter().any(|it| it.contains(part));
        assert!(named, "{harm}\nwants {part:?} in {found:#?}");
    }
    if wanted.is_empty() {
        assert_eq!(found, Vec::<String>::new(), "{harm}");
    }
}

#[tokio::test]
async fn every_kind_of_harm_is_found() {
    check("", &[]).await;
    check(
        "UPDATE account SET balance = balance + 1 WHERE account_id = 'a'",
        &["a: the account's balance is 89"],
    )
    .await;
    check(
        "UPDATE account SET version = 9 WHERE account_id = 'a'",
        &["a: the account is at version 9"],
    )
    .await;
    check(
        "DELETE FROM event WHERE event_id = 'e2'",
        &["a: version 4: the entry before it is 2"],
    )
    .await;
    check(
        "DELETE FROM event WHERE event_id = 'a'",
        &["a: version 2: the entry before it is missing"],
    )
    .await;
    check(
        "DELETE FROM event WHERE event_id = 'e3'",
        &["a: the account is at version 4, its last entry is 3"],
    )
    .await;
    check(
        "UPDATE event SET amount = 11 WHERE event_id = 'e1'",
        &["balance 90 does not follow from 100 and a debit over 11"],
    )
    .await;
    check(
        "UPDATE event SET type = 'opening' WHERE event_id = 'e2'",
        &["version 3: an entry of type opening"],
    )
    .await;
    check(
        "UPDATE event SET decided_at = 5 WHERE event_id = 'e2'",
        &["version 3: applied before the entry before it"],
    )
    .await;
    check(
        "UPDATE event SET floor = 91 WHERE event_id = 'e1'",
        &["balance 90 is below the floor 91"],
    )
    .await;
    check(
        "UPDATE event SET currency = 'USD' WHERE event_id = 'e1'",
        &["currency USD on an account in EUR"],
    )
    .await;
    check(
        "UPDATE event SET expected_version = 7 WHERE event_id = 'e1'",
        &["it expected version 7"],
    )
    .await;
    check(
        "DELETE FROM account WHERE account_id = 'a'",
        &["its account is missing"],
    )
    .await;
    check(
        "UPDATE event SET account_id = 'c' WHERE event_id = 'e1'",
        &["it stands on account a"],
    )
    .await;
    check(
        "UPDATE event SET source = 't' WHERE event_id = 'e1'",
        &["its key is not the one of its identity"],
    )
    .await;
    check(
        "UPDATE event SET key = x'00' WHERE event_id = 'e1'",
        &["its key is not the one of its identity"],
    )
    .await;
    check("UPDATE event SET account = (SELECT id FROM account WHERE account_id = 'b') WHERE event_id = 'e3'", &["b: the account is at version 0, its last entry is 4"]).await;
    check(
        "UPDATE account SET status = 'closed' WHERE account_id = 'a'",
        &["closed with a balance of 88"],
    )
    .await;
}

#[tokio::test]
async fn a_reversal_names_an_opposite_entry() {
    // Its key would be wrong as well; only the reversal is looked for.
    let harm = |event_id: &str, amount: i64| {
        format!(
            "UPDATE event SET source = 'onceledger.reversal', event_id = '{event_id}', amount = {amount} \
             WHERE event_id = 'e2'"
        )
    };
    let names = async |event_id: &str, amount: i64| {
        let found = found(&harm(event_id, amount)).await;
        !found
            .iter()
            .any(|it| it.contains("names no entry that it reverses"))
    };
    assert!(names("a:v2", 10).await);
    for (event_id, amount) in [
        ("a:v2", 5),
        ("a:v1", 10),
        ("a:v3", 10),
        ("a:v02", 10),
        ("c:v2", 10),
        ("x", 10),
    ] {
        assert!(!names(event_id, amount).await, "{event_id} {amount}");
    }
}

#[tokio::test]
async fn sums_past_64_bits_are_found() {
    // c stands at the lowest balance there is; one debit more would go below, and
    // as a float that sum equals the lowest balance.
    check("", &[]).await;
    check(
        "INSERT INTO event SELECT 99, account, 5, 1, balance_after, floor, NULL, NULL, NULL, NULL, \
         first_seen_at, decided_at, 1, x'01', 0, 'debit', 'applied', NULL, tenant, source, 'c5', \
         account_id, NULL, NULL, NULL FROM event WHERE event_id = 'c3'; \
         UPDATE account SET version = 5 WHERE account_id = 'c'",
        &["c: version 5: balance -9223372036854775808 does not follow"],
    )
    .await;
}
