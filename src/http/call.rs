//! Reading the events of a call: which headers belong to them, whether it is one
//! or many, and what is wrong with them.

use axum::http::{HeaderMap, StatusCode, header};

use super::{
    Api, body,
    caller::Caller,
    headers::{IDEMPOTENCY_KEY, Tags, idempotency_key, wants_strict},
    object::malformed,
    problem::Problem,
};
use crate::{
    domain::{Event, Reason, Submission},
    envelope::{self, Arrival, Header, Malformed, Origin, Reading},
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

/// How the events of a call are read.
pub(super) struct Call {
    origin: Origin,
    /// Refuse what would have to wait.
    pub(super) strict: bool,
    attributes: Vec<(String, Header)>,
    media_type: String,
}

impl Call {
    /// Reads the headers of a call.
    ///
    /// # Errors
    /// 415, where the media type is none of those that events come in.
    pub(super) fn new(api: &Api, caller: Caller, headers: &HeaderMap) -> Result<Self, Problem> {
        Ok(Self {
            media_type: body::media_type(headers, &[JSON, CLOUDEVENT, CLOUDEVENTS])?,
            strict: wants_strict(headers),
            attributes: attributes(headers),
            origin: Origin {
                tenant: caller.tenant,
                queue: HTTP.into(),
                source: HTTP.into(),
                scope: None,
                kind: None,
                body_names_source: true,
                event_bytes_max: api.limits.event_bytes_max,
            },
        })
    }

    /// Whether the body is a list. Where headers or media type say that it is one
    /// CloudEvent, they have the word.
    pub(super) fn is_many(&self, body: &[u8]) -> Result<bool, Problem> {
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

    pub(super) fn read_one(
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
    pub(super) fn read_many(
        &self,
        body: &[u8],
        headers: &HeaderMap,
    ) -> Result<Vec<Submission>, Problem> {
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
        let submissions = elements.into_iter().enumerate().map(|(index, element)| {
            let reading = self.read(element, media_type, None);
            let reading = reading.map_err(|bad| invalid_event(*bad).in_element(index))?;
            Ok(self.submission(reading))
        });
        submissions.collect()
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

/// 400, 413 or 422: what was sent is no event. Nothing was recorded.
pub(super) fn invalid_event(malformed: Malformed) -> Problem {
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
