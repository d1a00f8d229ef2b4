//! Sending events: one, many, or as CloudEvents; the same path as a queue's.

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::future::join_all;
use tokio::sync::oneshot;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, body,
    caller::Caller,
    event_in::Sent,
    headers::{IDEMPOTENCY_KEY, PREFERENCE_APPLIED, Tags, idempotency_key, wants_strict},
    object::malformed,
    outcome_json::OutcomeJson,
    problem::Problem,
    query::{Nothing, Query},
    responses::BodyProblems,
};
use crate::{
    domain::{Answer, Event, Found, Reason, Submission, Told, Unmet, Verdict, Work},
    envelope::{self, Arrival, Header, Malformed, Origin, Reading},
    ledger::Failure,
};

/// Most events of one array.
const EVENTS_MAX: usize = 1_000;

/// Where events over HTTP come from, where they do not say: their default source
/// and the queue of their dead letters.
const HTTP: &str = "http";

const JSON: &str = "application/json";
const CLOUDEVENT: &str = "application/cloudevents+json";
const CLOUDEVENTS: &str = "application/cloudevents-batch+json";

/// No account has this version: a condition that never holds.
const NO_VERSION: i64 = 0;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(post_events))
}

/// Send one event or an array of them
///
/// One event as JSON or as a CloudEvent (structured, or binary with `ce-` headers)
/// is answered with its outcome; an array of up to 1000, or a batch of CloudEvents,
/// with an array of outcomes in the same order, each of its own whatever its
/// neighbours get. The same event again is a `duplicate` and changes nothing.
#[utoipa::path(
    post, path = "/v1/events", tag = "events", operation_id = "postEvents",
    params(
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
            description = "Serves as event id where the body has none; not with an array"),
        ("If-Match" = Option<String>, Header, max_length = 1000,
            description = "Apply only where the account has one of these versions, such as \"4\"; not with an array"),
        ("Prefer" = Option<String>, Header, max_length = 1000,
            description = "handling=strict: refuse with 409 what would have to wait"),
    ),
    request_body(description = "One event, or an array of up to 1000", content(
        (Sent = "application/json"), (Object = "application/cloudevents+json"),
        (Vec<Object> = "application/cloudevents-batch+json"))),
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
    let media_type = body::media_type(&parts.headers, &[JSON, CLOUDEVENT, CLOUDEVENTS])?;
    let bytes = body::bytes(body, api.limits.body_bytes_max).await?;
    let call = Call {
        origin: Origin {
            tenant: caller.tenant,
            queue: HTTP.into(),
            source: HTTP.into(),
            scope: None,
            kind: None,
            body_names_source: true,
            event_bytes_max: api.limits.event_bytes_max,
        },
        strict: wants_strict(&parts.headers),
        attributes: attributes(&parts.headers),
        media_type,
    };
    let answer = if call.is_many(&bytes)? {
        let works = call.read_many(&bytes, &parts.headers)?;
        Json(submit_all(&api, works).await?).into_response()
    } else {
        let (submission, versions) = call.read_one(&bytes, &parts.headers)?;
        Json(submit(&api, submission, &versions).await?).into_response()
    };
    Ok(match call.strict {
        true => ([(PREFERENCE_APPLIED, "handling=strict")], answer).into_response(),
        false => answer,
    })
}

/// How the events of a call are read.
struct Call {
    origin: Origin,
    strict: bool,
    attributes: Vec<(String, Header)>,
    media_type: String,
}

impl Call {
    /// Whether the body is a list. Where headers or media type say that it is one
    /// CloudEvent, they have the word.
    fn is_many(&self, body: &[u8]) -> Result<bool, Problem> {
        let is_array = envelope::is_array(body);
        match self.media_type.as_str() {
            CLOUDEVENTS if !is_array => {
                // What is no JSON at all is told as that.
                envelope::split_array(body).map_err(|error| malformed(&error.to_string()))?;
                Err(Problem::invalid(
                    "body",
                    "type",
                    "A batch of CloudEvents must be a JSON array.",
                ))
            }
            CLOUDEVENTS => Ok(true),
            CLOUDEVENT => Ok(false),
            _ => Ok(is_array && !self.is_binary()),
        }
    }

    /// Whether the headers make the body the data of a CloudEvent.
    fn is_binary(&self) -> bool {
        self.attributes
            .iter()
            .any(|(name, _)| name == "ce-specversion")
    }

    fn read_one(
        &self,
        body: &[u8],
        headers: &HeaderMap,
    ) -> Result<(Submission, Vec<i64>), Problem> {
        let key = idempotency_key(headers)?;
        let tags = Tags::read(headers, &header::IF_MATCH)?;
        let reading = self
            .read(body, &self.media_type, key.as_deref())
            .map_err(|malformed| invalid_event(*malformed))?;
        let event = &reading.event;
        if key.is_some_and(|key| key != *event.identity.event_id) {
            return Err(Problem::invalid(
                "event_id",
                "conflict",
                format!(
                    "Idempotency-Key serves as event id, and the body says {}. Leave one out, or let them agree.",
                    event.identity.event_id
                ),
            ));
        }
        let versions = condition(tags.as_ref(), event)?;
        let submission = Submission {
            if_version: versions.first().copied(),
            ..self.submission(reading)
        };
        Ok((submission, versions))
    }

    /// All of them, or the first that can't be read.
    fn read_many(&self, body: &[u8], headers: &HeaderMap) -> Result<Vec<Work>, Problem> {
        for (name, shown) in [
            (IDEMPOTENCY_KEY, "Idempotency-Key"),
            (header::IF_MATCH, "If-Match"),
        ] {
            if headers.contains_key(name) {
                return Err(Problem::invalid(
                    shown,
                    "conflict",
                    format!("{shown} speaks of one event; leave it out with an array."),
                ));
            }
        }
        let elements =
            envelope::split_array(body).map_err(|error| malformed(&error.to_string()))?;
        if elements.len() > EVENTS_MAX {
            return Err(Problem::invalid(
                "body",
                "length",
                format!(
                    "An array may hold at most {EVENTS_MAX} events; this one holds {}.",
                    elements.len()
                ),
            ));
        }
        let media_type = if self.media_type == CLOUDEVENTS {
            CLOUDEVENT
        } else {
            JSON
        };
        let works = elements.into_iter().enumerate().map(|(index, element)| {
            let reading = self.read(element, media_type, None);
            let reading = reading.map_err(|bad| invalid_event(*bad).in_element(index))?;
            Ok(Work::submit(self.submission(reading)))
        });
        works.collect()
    }

    fn read(
        &self,
        body: &[u8],
        media_type: &str,
        key: Option<&str>,
    ) -> Result<Reading, Box<Malformed>> {
        let arrival = Arrival {
            body,
            content_type: Some(media_type),
            message_id: key,
            message_type: None,
            headers: self.attributes.clone(),
        };
        envelope::read(&arrival, &self.origin)
    }

    fn submission(&self, reading: Reading) -> Submission {
        Submission {
            event: reading.event,
            raw: reading.raw,
            if_version: None,
            strict: self.strict,
        }
    }
}

/// The headers that belong to the event: those of a CloudEvent, and its trace.
/// Others belong to the call and are not kept.
fn attributes(headers: &HeaderMap) -> Vec<(String, Header)> {
    let event_s =
        |name: &str| name.starts_with("ce-") || name == "traceparent" || name == "tracestate";
    headers
        .iter()
        .filter(|(name, _)| event_s(name.as_str()))
        .map(|(name, value)| {
            let value = match std::str::from_utf8(value.as_bytes()) {
                Ok(text) => Header::Text(envelope::decode_http_header(text).into_owned()),
                Err(_) => Header::Unreadable,
            };
            (name.as_str().to_owned(), value)
        })
        .collect()
}

/// The versions of which the account must have one; none: no condition.
fn condition(tags: Option<&Tags>, event: &Event) -> Result<Vec<i64>, Problem> {
    let Some(tags) = tags.and_then(Tags::strong) else {
        return Ok(Vec::new());
    };
    let versions: Vec<i64> = tags.iter().map(|tag| tag.version).collect();
    if versions.is_empty() {
        return Ok(vec![NO_VERSION]);
    }
    let Some(expected) = event.content.expected_version else {
        return Ok(versions);
    };
    if versions.contains(&expected) {
        return Ok(vec![expected]);
    }
    Err(Problem::invalid(
        "version",
        "conflict",
        format!(
            "The body expects version {expected}, and If-Match names another. Let them agree, or leave one out."
        ),
    ))
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
async fn submit_all(api: &Api, works: Vec<Work>) -> Result<Vec<OutcomeJson>, Problem> {
    let mut answers = Vec::with_capacity(works.len());
    for work in works {
        let (reply, answer) = oneshot::channel();
        // Where the caller has gone away, the work is done all the same.
        let reply = Box::new(move |result| drop(reply.send(result)));
        api.lanes.send(work, reply).await;
        answers.push(answer);
    }
    let answers = join_all(answers).await.into_iter();
    // One failure of the machine fails the call, and the whole may be sent again.
    let answers = answers.map(|answer| answer.unwrap_or(Err(Failure::Stopping)));
    let answers: Vec<Answer> = answers.collect::<Result<_, _>>()?;
    let outcomes = answers.into_iter().enumerate();
    outcomes
        .map(|(index, one)| answer(&told(one)?).map_err(|problem| problem.in_element(index)))
        .collect()
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

/// 400, 413 or 422: what was sent is no event. Nothing was recorded.
fn invalid_event(malformed: Malformed) -> Problem {
    let (status, code) = match (malformed.reason, malformed.rule) {
        (Reason::Undecodable, _) => (StatusCode::BAD_REQUEST, "malformed_json"),
        (_, Some("max_bytes")) if malformed.field.is_none() => {
            (StatusCode::PAYLOAD_TOO_LARGE, "too_large")
        }
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_event"),
    };
    let problem = Problem::new(
        status,
        code,
        format!(
            "This is no event that can be applied: {}. Nothing was recorded.",
            malformed.message
        ),
    );
    match malformed.rule {
        Some(rule) => problem.at(malformed.field.as_deref().unwrap_or("body"), rule),
        None => problem,
    }
}
