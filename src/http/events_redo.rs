//! Events by an operator's hand: evaluated afresh, or given up.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    call::invalid_event,
    caller::Caller,
    hand::{DryRun, Hand, NoteIn, ReplayIn},
    outcome_json::OutcomeJson,
    path::{EventPath, event_not_found},
    problem::Problem,
    query::{Nothing, Query},
    responses::BodyProblems,
};
use crate::{
    domain::{
        AccountKey, Answer, Ask, Discard, Event, Form, Identity, Record, Replay, Told, Verdict,
        Work,
    },
    envelope::{self, Kept, Origin},
    ledger::foresee,
};

/// How often an event is followed from one account to another.
const MOVES_MAX: usize = 8;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(replay_event))
        .routes(routes!(discard_event))
}

/// Evaluate an event afresh
///
/// An event that was rejected, waits, died or was discarded goes through the same rules
/// again, on the account as it is now, and keeps its identity; the answer is that of
/// `POST /v1/events`. One that has taken effect is a `duplicate`, and not counted as
/// one. Of two who do it at once, one has the effect.
#[utoipa::path(
    post, path = "/v1/events/{source}/{event_id}/replay", tag = "events", operation_id = "replayEvent",
    params(
        ("source" = String, Path, min_length = 1, max_length = 255, description = "Who produced it", example = "http"),
        ("event_id" = String, Path, min_length = 1, max_length = 255, description = "Its id", example = "pay-1001"),
        DryRun,
    ),
    request_body(content = Option<ReplayIn>),
    responses(
        (status = 200, description = "What became of it, or would become of it", body = OutcomeJson),
        (status = 404, description = "event_not_found", body = Problem,
            content_type = "application/problem+json"),
        BodyProblems,
    )
)]
async fn replay_event(
    State(api): State<Api>,
    caller: Caller,
    EventPath(identity): EventPath,
    Query(dry_run): Query<DryRun>,
    request: Request,
) -> Result<Json<OutcomeJson>, Problem> {
    let hand = Hand::read(&api, request, &["version", "body", "note"]).await?;
    let record = stored(&api, &identity).await?;
    let form = match &hand.body {
        None => Form::Stored(hand.version),
        Some(body) => Form::Corrected {
            event: corrected(&api, &record, body)?,
            body: body.as_str().into(),
        },
    };
    let replay = Replay {
        identity,
        form,
        by: hand.by(caller.subject),
    };
    let told = replayed(&api, record.event.account(), replay, dry_run).await?;
    Ok(Json(OutcomeJson::new(&told)))
}

/// Give an event up
///
/// An event that was rejected, waits or died takes no effect any more, and its copies
/// are answered so. A replay evaluates it afresh all the same.
#[utoipa::path(
    post, path = "/v1/events/{source}/{event_id}/discard", tag = "events", operation_id = "discardEvent",
    params(
        ("source" = String, Path, min_length = 1, max_length = 255, description = "Who produced it", example = "http"),
        ("event_id" = String, Path, min_length = 1, max_length = 255, description = "Its id", example = "pay-1001"),
    ),
    request_body(content = Option<NoteIn>),
    responses(
        (status = 200, description = "It is given up", body = OutcomeJson),
        (status = 404, description = "event_not_found", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "already_applied: reverse its entry instead", body = Problem,
            content_type = "application/problem+json"),
        BodyProblems,
    )
)]
async fn discard_event(
    State(api): State<Api>,
    caller: Caller,
    EventPath(identity): EventPath,
    Query(()): Query<Nothing>,
    request: Request,
) -> Result<Json<OutcomeJson>, Problem> {
    let hand = Hand::read(&api, request, &["note"]).await?;
    let record = stored(&api, &identity).await?;
    let discard = Discard {
        identity: identity.clone(),
        by: hand.by(caller.subject),
    };
    let mut account = record.event.account();
    for _ in 0..MOVES_MAX {
        let ask = Ask::Discard(Box::new(discard.clone()));
        match api.lanes.ask(Work { account, ask }).await? {
            Answer::Discarded { told, .. } if told.verdict == Verdict::Duplicate => {
                return Err(already_applied(&told));
            }
            Answer::Discarded { told, .. } => return Ok(Json(OutcomeJson::new(&told))),
            Answer::Elsewhere(Some(other)) => account = other,
            Answer::Elsewhere(None) => {
                return Err(event_not_found(&identity.source, &identity.event_id));
            }
            other => return Err(Problem::unexpected(&other)),
        }
    }
    Err(Problem::from(crate::ledger::Failure::Busy))
}

/// Has an event evaluated afresh, on whichever account it stands, or tells what would
/// become of it.
pub(super) async fn replayed(
    api: &Api,
    mut account: AccountKey,
    replay: Replay,
    dry_run: bool,
) -> Result<Told, Problem> {
    for _ in 0..MOVES_MAX {
        let ask = Ask::Replay(Box::new(replay.clone()));
        let work = Work { account, ask };
        let answer = if dry_run {
            let foreseen = foresee(&*api.store, api.clock.now(), &work).await?;
            foreseen.ok_or(crate::ledger::Failure::Busy)?
        } else {
            api.lanes.ask(work).await?
        };
        match answer {
            Answer::Replayed(told) => return Ok(told),
            Answer::Elsewhere(Some(other)) => account = other,
            Answer::Elsewhere(None) => {
                let identity = &replay.identity;
                return Err(event_not_found(&identity.source, &identity.event_id));
            }
            other => return Err(Problem::unexpected(&other)),
        }
    }
    Err(Problem::from(crate::ledger::Failure::Busy))
}

/// The event of a path with its message, or 404.
async fn stored(api: &Api, identity: &Identity) -> Result<Record, Problem> {
    match api.store.event(identity).await? {
        Some(view) => Ok(view.record),
        None => Err(event_not_found(&identity.source, &identity.event_id)),
    }
}

/// The event that a corrected body says: read as the message was, or else as plain JSON.
fn corrected(api: &Api, record: &Record, body: &str) -> Result<Arc<Event>, Problem> {
    let identity = &record.event.identity;
    let raw = record.raw.as_deref();
    let origin = Origin {
        tenant: identity.tenant.clone(),
        queue: raw.map_or_else(|| "http".into(), |raw| raw.queue.clone()),
        source: identity.source.clone(),
        scope: None,
        kind: Some(record.event.content.kind),
        // In a queue's body it was passed over, and still is.
        body_names_source: raw.is_none_or(|raw| matches!(&*raw.queue, "http" | "apply")),
        event_bytes_max: api.limits.event_bytes_max,
    };
    let kept = raw.map(Kept::of).unwrap_or_default();
    let plain = Kept::default();
    let read = |kept: &Kept| {
        let mut arrival = kept.arrival(body.as_bytes());
        arrival.message_id = Some(&identity.event_id);
        envelope::read(&arrival, &origin)
    };
    let reading = match read(&kept) {
        Ok(reading) => reading,
        // Whoever corrects a wrapped message may well leave the wrapping out.
        Err(malformed) => read(&plain).map_err(|_| invalid_event(*malformed))?,
    };
    let said = &reading.event.identity;
    if said != identity {
        let detail = format!(
            "The body names event {} of source {}, and this is event {} of source {}. Leave its id out, or send              it as an event of its own.",
            said.event_id, said.source, identity.event_id, identity.source
        );
        return Err(Problem::invalid("body", "conflict", detail));
    }
    let mut event = Event::clone(&reading.event);
    event.derived = record.event.derived;
    Ok(Arc::new(event))
}

/// 409: what has taken effect can't be given up.
fn already_applied(told: &Told) -> Problem {
    let identity = &told.event.identity;
    let account = &*told.event.content.account_id;
    let version = told.version.unwrap_or_default();
    Problem::new(
        StatusCode::CONFLICT,
        "already_applied",
        format!(
            "Event {} of source {} took effect as version {version} of account {account}. What has taken effect can't              be given up; compensate it with POST /v1/accounts/{account}/history/{version}/reversal.",
            identity.event_id, identity.source
        ),
    )
    .with("account_id", account)
    .with("version", version)
}
