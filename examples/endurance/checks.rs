//! What must hold at the end, looked up in the rows with statements of its own
//! and compared with the producer's books: nothing here is the product's code.

use std::collections::HashMap;

use futures_util::TryStreamExt;
use sqlx::{Connection, PgConnection, Row};

use crate::{
    book::Expected,
    message::{Fate, Group},
    world::World,
};

/// Examples shown of what is wrong.
const SHOWN_MAX: usize = 5;

/// One thing that was looked at.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) what: String,
    /// Empty where it holds.
    pub(crate) wrong: Vec<String>,
    wrong_in_all: usize,
}

impl Check {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            wrong: Vec::new(),
            wrong_in_all: 0,
        }
    }

    pub(crate) fn holds(&self) -> bool {
        self.wrong_in_all == 0
    }

    pub(crate) fn wrong(&mut self, what: impl Into<String>) {
        self.wrong_in_all += 1;
        if self.wrong.len() < SHOWN_MAX {
            self.wrong.push(what.into());
        }
    }

    /// With how many it is that are wrong.
    pub(crate) fn summary(&self) -> String {
        match self.wrong_in_all {
            0 => format!("holds: {}", self.what),
            many => format!("FAILS ({many}): {}: {}", self.what, self.wrong.join("; ")),
        }
    }
}

/// Compares the books with the rows.
pub(crate) async fn books(world: &World) -> anyhow::Result<Vec<Check>> {
    let mut books = PgConnection::connect(&world.database).await?;
    let checks = vec![
        confirmed(world),
        identities(world, &mut books).await?,
        balances(world, &mut books).await?,
        letters(world, &mut books).await?,
        history(&mut books).await?,
        floors(&mut books).await?,
        doubles(&mut books).await?,
    ];
    books.close().await?;
    Ok(checks)
}

fn confirmed(world: &World) -> Check {
    let inner = world.book.lock();
    let mut check = Check::new(format!(
        "all {} things sent were confirmed",
        inner.sent.len()
    ));
    let missing = inner.unconfirmed();
    if missing > 0 {
        check.wrong(format!("{missing} were not"));
    }
    check
}

/// Every identity sent is recorded once, as what was sent, with the right end;
/// and nothing else is.
async fn identities(world: &World, books: &mut PgConnection) -> anyhow::Result<Check> {
    let mut expected = world.book.lock().identities();
    let what = format!(
        "each of {} identities is recorded with its right end",
        expected.len()
    );
    let mut check = Check::new(what);
    let mut rows = sqlx::query(
        "SELECT source, event_id, status, coalesce(reason, '') AS reason, account_id, type, amount, \
                coalesce(expected_version, 0) AS expected_version, coalesce(version, 0) AS version \
         FROM event WHERE type <> 'opening'",
    )
    .fetch(books);
    while let Some(row) = rows.try_next().await? {
        let key: (String, String) = (row.try_get("source")?, row.try_get("event_id")?);
        let Some(expected) = expected.remove(&key) else {
            check.wrong(format!("{key:?} was never sent"));
            continue;
        };
        if let Some(wrong) = difference(&expected, &row)? {
            check.wrong(format!("{key:?}: {wrong}"));
        }
    }
    for key in expected.keys() {
        check.wrong(format!("{key:?} is not recorded"));
    }
    Ok(check)
}

fn difference(expected: &Expected, row: &sqlx::postgres::PgRow) -> anyhow::Result<Option<String>> {
    let status: String = row.try_get("status")?;
    let reason: String = row.try_get("reason")?;
    let Expected { fate, sent } = expected;
    let end_is_right = match fate {
        Fate::Applied => status == "applied",
        Fate::Rejected(why) => status == "rejected" && reason == *why,
        Fate::AppliedOrRefused => {
            status == "applied" || status == "rejected" && reason == "insufficient_funds"
        }
        Fate::Letter(_) => false,
    };
    let version: i64 = row.try_get("version")?;
    let wanted = i64::from(sent.version);
    let content_is_right = row.try_get::<String, _>("account_id")? == sent.account.id()
        && row.try_get::<String, _>("type")? == sent.type_name()
        && row.try_get::<i64, _>("amount")?.unsigned_abs() == sent.amount.unsigned_abs()
        && row.try_get::<i64, _>("expected_version")? == wanted
        // A versioned event makes the version after the one that it expects.
        && (wanted == 0 || status != "applied" || version == wanted + 1);
    Ok(match (end_is_right, content_is_right) {
        (true, true) => None,
        (false, _) => Some(format!("{status} {reason}, but should be {fate:?}")),
        (_, false) => Some(format!("its row is not what was sent: {sent:?}")),
    })
}

async fn balances(world: &World, books: &mut PgConnection) -> anyhow::Result<Check> {
    let mut expected = world.book.lock().balances();
    let what = format!(
        "{} accounts have their exact balance and version",
        expected.len()
    );
    let mut check = Check::new(what);
    let tight = crate::message::Account {
        group: Group::Tight,
        index: 0,
    }
    .id();
    let tight = tight.trim_end_matches('0').to_owned();
    let rows = sqlx::query("SELECT account_id, balance, version FROM account")
        .fetch_all(books)
        .await?;
    for row in rows {
        let id: String = row.try_get("account_id")?;
        if id.starts_with(&tight) {
            continue;
        }
        let found = (row.try_get("balance")?, row.try_get("version")?);
        match expected.remove(&id) {
            Some(wanted) if wanted == found => {}
            wanted => check.wrong(format!("{id} has {found:?}, should have {wanted:?}")),
        }
    }
    for id in expected.keys() {
        check.wrong(format!("{id} is not there"));
    }
    Ok(check)
}

async fn letters(world: &World, books: &mut PgConnection) -> anyhow::Result<Check> {
    let mut expected = world.book.lock().letters();
    let mut by_reason: HashMap<&str, usize> = HashMap::new();
    for reason in expected.values() {
        *by_reason.entry(*reason).or_default() += 1;
    }
    let mut check = Check::new(format!("the dead letters are exactly {by_reason:?}"));
    let rows = sqlx::query("SELECT reason, body FROM dead_letter")
        .fetch_all(books)
        .await?;
    for row in rows {
        let (reason, body): (String, Vec<u8>) = (row.try_get("reason")?, row.try_get("body")?);
        match expected.remove(&body) {
            Some(wanted) if wanted == reason => {}
            wanted => {
                let body = String::from_utf8_lossy(&body).into_owned();
                check.wrong(format!("{reason}, should be {wanted:?}: {body}"));
            }
        }
    }
    for (body, reason) in &expected {
        let body = String::from_utf8_lossy(body);
        check.wrong(format!("no letter {reason}: {body}"));
    }
    Ok(check)
}

/// Adds up every account from its entries alone.
async fn history(books: &mut PgConnection) -> anyhow::Result<Check> {
    let statement = "\
        WITH entry AS ( \
            SELECT account, version, balance_after, decided_at, \
                   CASE type WHEN 'debit' THEN -amount WHEN 'credit' THEN amount END AS moved, \
                   lag(balance_after) OVER history AS balance_before, \
                   lag(decided_at) OVER history AS decided_before, \
                   row_number() OVER history AS place \
            FROM event WHERE status = 'applied' \
            WINDOW history AS (PARTITION BY account ORDER BY version) \
        ), summed AS ( \
            SELECT account, max(version) AS version, \
                   (sum(moved) + max(balance_after) FILTER (WHERE version = 1))::bigint AS balance, \
                   max(balance_after) FILTER (WHERE version = 1) AS opening, \
                   bool_and(version = place) AS whole, \
                   bool_and(version = 1 OR balance_after = balance_before + moved) AS adds_up, \
                   bool_and(version = 1 OR decided_at >= decided_before) AS in_time \
            FROM entry GROUP BY account \
        ) \
        SELECT account_id FROM account LEFT JOIN summed ON summed.account = account.id \
        WHERE account.version > 0 AND (summed.account IS NULL OR NOT whole OR NOT adds_up OR NOT in_time \
            OR summed.version <> account.version \
            OR coalesce(summed.balance, summed.opening) <> account.balance)";
    let mut check =
        Check::new("every account is the sum of its entries, without a hole, in order of time");
    for id in sqlx::query_scalar::<_, String>(statement)
        .fetch_all(books)
        .await?
    {
        check.wrong(id);
    }
    Ok(check)
}

async fn floors(books: &mut PgConnection) -> anyhow::Result<Check> {
    let statement = "SELECT account_id FROM event \
        WHERE status = 'applied' AND type = 'debit' AND balance_after < floor";
    let mut check = Check::new("no debit went below the floor that stood when it was applied");
    for id in sqlx::query_scalar::<_, String>(statement)
        .fetch_all(books)
        .await?
    {
        check.wrong(id);
    }
    Ok(check)
}

async fn doubles(books: &mut PgConnection) -> anyhow::Result<Check> {
    let statement =
        "SELECT event_id FROM event GROUP BY tenant, source, event_id HAVING count(*) > 1";
    let mut check = Check::new("no identity stands twice");
    for id in sqlx::query_scalar::<_, String>(statement)
        .fetch_all(books)
        .await?
    {
        check.wrong(id);
    }
    Ok(check)
}
