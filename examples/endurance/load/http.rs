//! The load over HTTP: events of its own and copies of the queue's, settings that
//! go up and down, reads; accounts that open late; and impostors, for which the
//! service is asked first whether what they imitate is in the books.

use std::{collections::HashMap, sync::Arc, time::Duration};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::generator::OPEN;
use crate::{
    caller::Caller,
    message::{Account, Fate, Format, Group, Kind, Sent},
    rng::Rng,
    world::{World, count},
};

const BETWEEN_CALLS_MS: (u64, u64) = (20, 120);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const ARRAY_MAX: u64 = 20;
/// How far back a copy of the queue's events reaches.
const RECENT: u64 = 5_000;
/// Openers at the start.
const OPENERS: usize = 8;

/// Opens every account that is open from the start.
pub(crate) async fn open_all(world: &Arc<World>) -> anyhow::Result<()> {
    let all = OPEN.iter().flat_map(|(group, count)| {
        (0..*count).map(|index| Account {
            group: *group,
            index,
        })
    });
    let all: Vec<Account> = all.collect();
    let openers = all
        .chunks(all.len().div_ceil(OPENERS))
        .map(|some| async move {
            let mut caller = Caller::new(world, Rng::new(world.seed, 20))?;
            for account in some {
                open(&mut caller, *account).await?;
            }
            anyhow::Ok(())
        });
    futures_util::future::try_join_all(openers).await?;
    Ok(())
}

async fn open(caller: &mut Caller<'_>, account: Account) -> anyhow::Result<()> {
    caller.world.book.lock().accounts.push(account);
    let body = json!({
        "id": account.id(),
        "currency": "CNY",
        "opening_balance": account.opening(),
    });
    let (status, answer) = caller
        .insist(Method::POST, "/v1/accounts", Some(&body))
        .await?;
    if !matches!(status, StatusCode::CREATED | StatusCode::OK) {
        let id = account.id();
        caller
            .world
            .surprise(format!("opening {id}: {status} {answer}"));
    }
    Ok(())
}

/// Opens, some while later, the accounts that events came for; all at the end.
pub(crate) async fn open_late(world: Arc<World>) {
    let result = async {
        let mut caller = Caller::new(&world, Rng::new(world.seed, 2))?;
        loop {
            let ending = world.ending();
            sleep(LOOK_EVERY).await;
            let late = std::mem::take(&mut world.book.lock().late);
            for account in late {
                if ending || caller.rng.permille(50) {
                    open(&mut caller, account).await?;
                } else {
                    world.book.lock().late.push(account);
                }
            }
            if ending {
                return anyhow::Ok(());
            }
        }
    };
    if let Err(error) = result.await {
        world.surprise(format!("{error:#}"));
    }
}

/// Sends, under the identity or for the place of an event that the service says
/// was applied, something else.
pub(crate) async fn impostors(world: Arc<World>) {
    let Ok(mut caller) = Caller::new(&world, Rng::new(world.seed, 3)) else {
        return world.surprise("no HTTP client");
    };
    while !world.ending() {
        sleep(LOOK_EVERY).await;
        let Some((number, first)) = random_event(&mut caller, u64::MAX) else {
            continue;
        };
        if first.fate() != Fate::Applied || !is_applied(&mut caller, number, &first).await {
            continue;
        }
        let chained = first.version > 0 && caller.rng.permille(500);
        let kind = if chained {
            Kind::Conflict(number)
        } else {
            Kind::Reused(number)
        };
        let amount = first.amount + first.amount.signum();
        let impostor = Sent {
            kind,
            amount,
            format: Format::Structured,
            confirmed: false,
            ..first
        };
        let impostor = world.book.note(impostor);
        world.book.publish_in(Duration::ZERO, impostor);
        world.book.publish_in(Duration::from_secs(3), impostor);
        count(&world.figures.copies);
    }
}

async fn is_applied(caller: &mut Caller<'_>, number: u32, sent: &Sent) -> bool {
    match event_of(caller, number, sent).await {
        Some((StatusCode::OK, event)) => event["status"] == "applied",
        _ => false,
    }
}

async fn event_of(
    caller: &mut Caller<'_>,
    number: u32,
    sent: &Sent,
) -> Option<(StatusCode, Value)> {
    let (source, id) = sent.identity(number)?;
    let path = format!("/v1/events/{}/{id}", source.replace('/', "%2F"));
    caller.ask(Method::GET, &path, None).await
}

/// One of the newest things sent, where it is an event of its own.
fn random_event(caller: &mut Caller<'_>, recent: u64) -> Option<(u32, Sent)> {
    let inner = caller.world.book.lock();
    let many = inner.sent.len() as u64;
    let number = many.checked_sub(1 + caller.rng.below(many.min(recent)))?;
    let sent = *inner.sent.get(usize::try_from(number).ok()?)?;
    (sent.kind == Kind::Event).then_some((number as u32, sent))
}

/// Calls one after the other until the load ends.
pub(crate) async fn call(world: Arc<World>, part: u64) {
    let result = async {
        let mut caller = Caller::new(&world, Rng::new(world.seed, 10 + part))?;
        let mut versions = HashMap::new();
        while !world.ending() {
            let (low, high) = BETWEEN_CALLS_MS;
            sleep(Duration::from_millis(caller.rng.between(low, high))).await;
            match caller.rng.below(10) {
                0..4 => post_own(&mut caller).await?,
                4..6 => post_copy(&mut caller).await?,
                6 => patch_floor(&mut caller).await,
                _ => read(&mut caller, &mut versions).await,
            }
        }
        anyhow::Ok(())
    };
    if let Err(error) = result.await {
        world.surprise(format!("{error:#}"));
    }
}

/// One event, or an array.
async fn post_own(caller: &mut Caller<'_>) -> anyhow::Result<()> {
    let many = if caller.rng.permille(500) {
        1
    } else {
        caller.rng.between(2, ARRAY_MAX)
    };
    let mut noted = Vec::new();
    for _ in 0..many {
        let account = open_account(&mut caller.rng);
        let amount = caller.rng.between(1, 400) as i64;
        let amount = if caller.rng.permille(500) {
            -amount
        } else {
            amount
        };
        let (kind, format) = (Kind::Event, Format::Http);
        let sent = Sent {
            kind,
            account,
            amount,
            version: 0,
            format,
            confirmed: false,
        };
        noted.push((caller.world.book.note(sent), sent));
    }
    post(caller, &noted).await?;
    for (number, _) in noted {
        caller.world.book.confirm(number);
    }
    Ok(())
}

/// Mostly a plain account, now and then a tight one.
fn open_account(rng: &mut Rng) -> Account {
    let group = if rng.permille(50) {
        Group::Tight
    } else {
        Group::Plain
    };
    let accounts = OPEN.iter().find(|(open, _)| *open == group);
    let index = rng.below(accounts.map_or(1, |(_, count)| u64::from(*count))) as u32;
    Account { group, index }
}

/// The same event that comes, came or will come from the queue.
async fn post_copy(caller: &mut Caller<'_>) -> anyhow::Result<()> {
    let Some((number, sent)) = random_event(caller, RECENT) else {
        return Ok(());
    };
    if matches!(sent.account.group, Group::Plain | Group::Tight) {
        post(caller, &[(number, sent)]).await?;
        count(&caller.world.figures.copies);
    }
    Ok(())
}

/// Sends the same until there is an answer, and looks at each outcome.
async fn post(caller: &mut Caller<'_>, events: &[(u32, Sent)]) -> anyhow::Result<()> {
    let bodies: Vec<Value> = events
        .iter()
        .map(|(number, sent)| sent.http(*number))
        .collect();
    let body = match &bodies[..] {
        [one] => one.clone(),
        many => Value::from(many),
    };
    let (status, answer) = caller
        .insist(Method::POST, "/v1/events", Some(&body))
        .await?;
    let outcomes = match answer {
        Value::Array(outcomes) => outcomes,
        one => vec![one],
    };
    if status != StatusCode::OK || outcomes.len() != events.len() {
        caller
            .world
            .surprise(format!("{body}: {status} {outcomes:?}"));
        return Ok(());
    }
    for ((_, sent), (body, outcome)) in events.iter().zip(bodies.iter().zip(&outcomes)) {
        let refused = outcome["outcome"] == "rejected" && outcome["reason"] == "insufficient_funds";
        let applied = outcome["outcome"] == "applied" || outcome["outcome"] == "duplicate";
        let right = applied || refused && sent.fate() == Fate::AppliedOrRefused;
        if !right || outcome["event_id"] != body["event_id"] {
            caller
                .world
                .surprise(format!("{body} is answered with {outcome}"));
        }
    }
    Ok(())
}

/// On a plain account the floor is far below whatever can happen.
async fn patch_floor(caller: &mut Caller<'_>) {
    let account = open_account(&mut caller.rng);
    let floor = match account.group {
        Group::Tight => caller.rng.between(0, 1_000) as i64 - 500,
        _ => -(caller.rng.between(0, 1_000_000) as i64),
    };
    let path = format!("/v1/accounts/{}", account.id());
    let answer = caller
        .ask(Method::PATCH, &path, Some(&json!({ "floor": floor })))
        .await;
    if let Some((status, answer)) = answer
        && status != StatusCode::OK
    {
        caller
            .world
            .surprise(format!("PATCH {path}: {status} {answer}"));
    }
}

/// Reads something. What one client was shown never goes back, whichever
/// instance it asks.
async fn read(caller: &mut Caller<'_>, versions: &mut HashMap<Account, i64>) {
    let account = open_account(&mut caller.rng);
    let id = account.id();
    let (path, answer) = match caller.rng.below(4) {
        0 => {
            let path = format!("/v1/accounts/{id}/history?limit=20");
            (path.clone(), caller.ask(Method::GET, &path, None).await)
        }
        1 => {
            let Some((number, sent)) = random_event(caller, RECENT) else {
                return;
            };
            // Not there yet is an answer too.
            let answer = event_of(caller, number, &sent).await;
            let known = answer.filter(|(status, _)| *status != StatusCode::NOT_FOUND);
            (format!("the event {number}"), known)
        }
        2 => {
            let path = "/v1/events?status=parked&limit=10".to_owned();
            (path.clone(), caller.ask(Method::GET, &path, None).await)
        }
        _ => {
            let path = format!("/v1/accounts/{id}");
            (path.clone(), caller.ask(Method::GET, &path, None).await)
        }
    };
    let Some((status, answer)) = answer else {
        return;
    };
    if status != StatusCode::OK {
        caller
            .world
            .surprise(format!("GET {path}: {status} {answer}"));
    }
    if let Some(version) = answer["version"].as_i64()
        && answer["id"] == id
    {
        let before = versions.insert(account, version).unwrap_or(0);
        if version < before {
            caller
                .world
                .surprise(format!("{id} went from version {before} back to {version}"));
        }
    }
}
