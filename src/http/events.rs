//! Sending events: one, many, or as CloudEvents; the same path as a queue's.

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::future::join_all;
use tokio::sync::oneshot;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, body,
    call::Call,
    caller::Caller,
    event_in::{CloudEventIn, Sent},
    headers::{IdempotencyKeyParam, IfMatchParam, PREFERENCE_APPLIED, PreferParam},
    outcome_json::OutcomeJson,
    problem::Problem,
    query::{Nothing, Query},
    responses::BodyProblems,
};
use crate::{
    domain::{Answer, Event, Found, Reason, Submission, Told, Unmet, Verdict, Work},
    ledger::Failure,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(post_events))
}

/// Send one event or an array of them
///
/// One event as JSON or as a CloudEvent (structured, or binary with `ce-` headers)
/// is answered with its outcome; an array of up to 1000, or a batch of CloudEvents,
/// with an array of outcomes in the same order, each of its own whatever its
/// neighbours get. The same event again is a `duplicate` and changes nothing.
///
/// With `Prefer: handling=strict`, what would have to wait is not recorded: one
/// event is answered 409, an element of an array is `rejected` with the reason.
#[utoipa::path(
    post, path = "/v1/events", tag = "events", operation_id = "postEvents",
    params(
        IdempotencyKeyParam,
        IfMatchParam,
        PreferParam,
    ),
    request_body(description = "One event, or an array of up to 1000", content(
        (Sent = "application/json"), (CloudEventIn = "application/cloudevents+json"),
        (Vec<CloudEventIn> = "application/cloudevents-batch+json"))),
    responses(
        (status = 200, description = "What became of it, or of each in turn", body = super::outcome_json::Outcomes,
            headers(("Preference-Applied" = Option<String>, description = "handling=strict, where it was asked for"))),
        (status = 409, description = "With handling=strict: account_not_found or version_gap; nothing was recorded",
            body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "version_conflict: If-Match does not hold; nothing was recorded",
            body = Problem, content_type = "application/problem+json"),
        BodyProblems,
    )
)]
async fn post_events(
    State(api): State<Api>,
    caller: Caller,
    Query(()): Query<Nothing>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let call = Call::new(&api, caller, &parts.headers)?;
    let bytes = body::bytes(body, api.limits.body_bytes_max).await?;
    let answer = if call.is_many(&bytes)? {
        let submissions = call.read_many(&bytes, &parts.headers)?;
        Json(submit_all(&api, submissions).await?).into_response()
    } else {
        let (submission, versions) = call.read_one(&bytes, &parts.headers)?;
        Json(submit(&api, submission, &versions).await?).into_response()
    };
    Ok(match call.strict {
        true => ([(PREFERENCE_APPLIED, "handling=strict")], answer).into_response(),
        false => answer,
    })
}

/// Submits one event on the condition that its account has one of some versions.
async fn submit(
    api: &Api,
    mut submission: Submission,
    versions: &[i64],
) -> Result<OutcomeJson, Problem> {
    let mut tries = versions.len();
    loop {
        let told = told(api.lanes.ask(Work::submit(submission.clone())).await?)?;
        tries = tries.saturating_sub(1);
        // The ledger checks one version; where the account has another that is
        // named, that one is the condition.
        match (told.verdict, told.found) {
            (Verdict::Unmet(Unmet::Version), Some(found))
                if tries > 0 && versions.contains(&found.version) =>
            {
                submission.if_version = Some(found.version);
            }
            _ => return answer(&told),
        }
    }
}

/// Submits events in order and waits for all of them.
async fn submit_all(api: &Api, submissions: Vec<Submission>) -> Result<Vec<OutcomeJson>, Problem> {
    let mut waiting = Vec::with_capacity(submissions.len());
    for submission in submissions {
        let event = submission.event.clone();
        let (reply, answer) = oneshot::channel();
        // Where the caller has gone away, the work is done all the same.
        let reply = Box::new(move |_, result| drop(reply.send(result)));
        api.lanes.send(Work::submit(submission), reply).await;
        waiting.push(async move { (event, answer.await.unwrap_or(Err(Failure::Stopping))) });
    }
    let answers = join_all(waiting).await.into_iter();
    answers
        .map(|(event, answer)| one_of_many(&event, answer))
        .collect()
}

/// The outcome of one element, whatever its neighbours get. Only a failure of the
/// machine fails the call: then the whole may be sent again.
fn one_of_many(event: &Event, answer: Result<Answer, Failure>) -> Result<OutcomeJson, Problem> {
    let told = match answer {
        Err(Failure::Refused { .. }) => {
            return Ok(OutcomeJson::refused(event, Reason::StoreRefused, None));
        }
        answer => told(answer?)?,
    };
    Ok(match told.verdict {
        Verdict::Unmet(Unmet::Strict(reason)) => OutcomeJson::refused(event, reason, told.found),
        _ => OutcomeJson::new(&told),
    })
}

fn told(answer: Answer) -> Result<Told, Problem> {
    match answer {
        Answer::Event(told) => Ok(told),
        other => Err(Problem::unexpected(&other)),
    }
}

/// What the caller is answered.
fn answer(told: &Told) -> Result<OutcomeJson, Problem> {
    match told.verdict {
        Verdict::Unmet(unmet) => Err(unmet_condition(told, unmet)),
        _ => Ok(OutcomeJson::new(told)),
    }
}

/// 409 or 412: a condition of the call does not hold; nothing was recorded.
fn unmet_condition(told: &Told, unmet: Unmet) -> Problem {
    let content = &told.event.content;
    let id = &*content.account_id;
    let now = told.found.map_or_else(
        || format!("There is no account {id}"),
        |found| format!("Account {id} is at version {}", found.version),
    );
    let problem = match unmet {
        Unmet::Version => Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "version_conflict",
            format!("{now}, which If-Match does not name. Nothing was recorded; look again."),
        ),
        Unmet::Strict(reason) => Problem::conflict(
            reason.as_str(),
            match reason {
                Reason::AccountNotFound => format!("{now}. Nothing was recorded; open it first."),
                _ => format!(
                    "{now}, and the event expects version {}. Nothing was recorded; send the versions before it first.",
                    content.expected_version.unwrap_or_default()
                ),
            },
        ),
    };
    problem
        .with("source", &*told.event.identity.source)
        .with("event_id", &*told.event.identity.event_id)
        .with("account_id", id)
        .with_some("expected_version", content.expected_version)
        .with_some(
            "account_version",
            told.found.map(|found: Found| found.version),
        )
        .with_some(
            "account_balance",
            told.found.map(|found: Found| found.balance),
        )
}
