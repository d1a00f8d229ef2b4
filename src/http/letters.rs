//! Dead letters: what never became an event, or waited too long, with everything
//! needed to explain and repair it.

use axum::{Json, extract::State};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    caller::Caller,
    page::{Page, PageAsk},
    path::{LetterPath, is_identity_text, letter_not_found},
    problem::Problem,
    query::{Fields, FromQuery, Nothing, Query},
    responses::QueryProblems,
    schemas::ReasonJson,
};
use crate::{
    domain::AccountKey,
    store::{LetterFilter, LetterStatus, LetterView},
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_letters))
        .routes(routes!(get_letter))
}

/// A dead letter. Fields that could not be read are left out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": "0193b2c4-6d3e-7f00-8000-000000000001", "reason": "invalid",
    "detail": {"field": "amount", "rule": "required"}, "queue": "onceledger.events", "source": "events",
    "body": "{\"account_id\":\"4711\"}", "body_encoding": "utf8", "body_bytes": 21, "headers": {}, "properties": {},
    "seen": 1, "received_at": "2026-11-30T08:00:00Z", "last_seen_at": "2026-11-30T08:00:00Z", "status": "open",
}))]
pub(super) struct LetterJson {
    /// Its id.
    id: Uuid,
    /// Why it is one.
    #[schema(value_type = ReasonJson)]
    reason: &'static str,
    /// More about the why.
    #[schema(value_type = Object)]
    detail: Value,
    /// The queue's name, `http` or `apply`. What the broker set aside names the queue
    /// that it came from, whoever's that is; what somebody put into the dead-letter
    /// queue names that one.
    #[schema(max_length = 255)]
    queue: String,
    /// Who produced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 1000)]
    source: Option<String>,
    /// The event id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 1000)]
    event_id: Option<String>,
    /// The account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 1000)]
    account_id: Option<String>,
    /// The message as it came, as `body_encoding` says; in lists cut after 4 KiB.
    body: String,
    /// How `body` is written.
    body_encoding: BodyEncoding,
    /// The whole body's length in bytes.
    #[schema(minimum = 0)]
    body_bytes: i64,
    /// There and true where `body` is cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = bool, required = false)]
    body_truncated: bool,
    /// The headers as they came; null: there, but not to be read.
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    /// Content type, message id and type, where the message had them.
    #[schema(value_type = Object)]
    properties: Map<String, Value>,
    /// How often the same was seen.
    #[schema(minimum = 1)]
    seen: i64,
    /// When it was first seen; RFC 3339, UTC.
    #[schema(format = DateTime, max_length = 40)]
    received_at: String,
    /// When it was last seen; RFC 3339, UTC.
    #[schema(format = DateTime, max_length = 40)]
    last_seen_at: String,
    /// How it stands.
    status: LetterStatusJson,
}

/// How a body is written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BodyEncoding {
    /// As it is: it is text.
    Utf8,
    /// In base64 (RFC 4648 section 4): it is no text.
    Base64,
}

/// How a dead letter stands.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LetterStatusJson {
    /// Nobody has dealt with it.
    Open,
    /// Replayed with an effect.
    Replayed,
    /// Given up by a person.
    Discarded,
    /// What it says was applied otherwise.
    Superseded,
}

impl From<LetterStatus> for LetterStatusJson {
    fn from(status: LetterStatus) -> Self {
        match status {
            LetterStatus::Open => Self::Open,
            LetterStatus::Replayed => Self::Replayed,
            LetterStatus::Discarded => Self::Discarded,
            LetterStatus::Superseded => Self::Superseded,
        }
    }
}

impl From<LetterView> for LetterJson {
    fn from(view: LetterView) -> Self {
        let letter = view.letter;
        let owned = |text: Option<std::sync::Arc<str>>| text.map(|text| text.to_string());
        let kept = &letter.raw.body;
        let truncated = usize::try_from(view.body_bytes).is_ok_and(|whole| whole > kept.len());
        let (body, body_encoding) = body(kept, truncated);
        let mut properties: Map<String, Value> =
            serde_json::from_str(&letter.raw.headers).unwrap_or_default();
        let headers = match properties.remove("headers") {
            Some(Value::Object(headers)) => headers,
            _ => Map::new(),
        };
        Self {
            id: view.id,
            reason: letter.reason.as_str(),
            detail: letter.detail,
            queue: letter.raw.queue.to_string(),
            source: owned(letter.source),
            event_id: owned(letter.event_id),
            account_id: owned(letter.account_id),
            body,
            body_encoding,
            body_bytes: view.body_bytes,
            body_truncated: truncated,
            headers,
            properties,
            seen: view.seen,
            received_at: view.received_at.rfc3339(),
            last_seen_at: view.last_seen_at.rfc3339(),
            status: view.status.into(),
        }
    }
}

/// A body as text where it is text, else in base64. Where it is cut, a character
/// that the cut went through is left out.
pub(super) fn body(bytes: &[u8], truncated: bool) -> (String, BodyEncoding) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if truncated && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    match text {
        Some(text) => (text.to_owned(), BodyEncoding::Utf8),
        None => (STANDARD.encode(bytes), BodyEncoding::Base64),
    }
}

/// List dead letters, newest first
///
/// Resolved ones too, unless `status` says otherwise.
#[utoipa::path(
    get, path = "/v1/dead-letters", tag = "dead letters", operation_id = "listDeadLetters",
    params(LettersParams),
    responses(
        (status = 200, description = "A page of dead letters, their bodies cut after 4 KiB", body = Page<LetterJson>),
        QueryProblems,
    )
)]
async fn list_letters(
    State(api): State<Api>,
    caller: Caller,
    Query((ask, filter)): Query<LettersParams>,
) -> Result<Json<Page<LetterJson>>, Problem> {
    let rows = api
        .store
        .letters(&caller.tenant, &filter, ask.after()?, ask.rows())
        .await?;
    Ok(Json(ask.page(
        rows,
        |view| view.id.to_string(),
        LetterJson::from,
    )))
}

/// One dead letter, whole
///
/// With its body uncut.
#[utoipa::path(
    get, path = "/v1/dead-letters/{id}", tag = "dead letters", operation_id = "getDeadLetter",
    params(("id" = Uuid, Path, description = "Its id")),
    responses(
        (status = 200, description = "The dead letter", body = LetterJson),
        (status = 404, description = "dead_letter_not_found", body = Problem,
            content_type = "application/problem+json"),
        QueryProblems,
    )
)]
async fn get_letter(
    State(api): State<Api>,
    caller: Caller,
    LetterPath(id): LetterPath,
    Query(()): Query<Nothing>,
) -> Result<Json<LetterJson>, Problem> {
    let view = api.store.letter(&caller.tenant, id).await?;
    let view = view.ok_or_else(|| letter_not_found(&id.to_string()))?;
    Ok(Json(view.into()))
}

/// The query of `GET /v1/dead-letters`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the names and bounds of the parameters; read by `FromQuery`"
)]
struct LettersParams {
    /// Only letters that stand so.
    #[param(inline)]
    status: Option<LetterStatusJson>,
    /// Only letters of this reason.
    #[param(inline)]
    reason: Option<ReasonJson>,
    /// Only letters from this queue (or `http`, `apply`).
    #[param(min_length = 1, max_length = 255)]
    queue: Option<String>,
    /// Only letters of this source.
    #[param(min_length = 1, max_length = 255)]
    source: Option<String>,
    /// Only letters of this event id.
    #[param(min_length = 1, max_length = 255)]
    event_id: Option<String>,
    /// Only letters about this account.
    #[param(pattern = "^[A-Za-z0-9._:-]{1,128}$")]
    account_id: Option<String>,
    /// Most items on the page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before; carries every filter and the limit.
    #[param(max_length = 4096, pattern = "^[A-Za-z0-9_-]+$")]
    cursor: Option<String>,
}

impl FromQuery for LettersParams {
    type Read = (PageAsk, LetterFilter);

    fn read(fields: Fields) -> Result<Self::Read, Problem> {
        let ask = PageAsk::read("dead-letters", fields, &[])?;
        let text = |name| ask.checked(name, |text| is_identity_text(text).then(|| text.to_owned()));
        let filter = LetterFilter {
            status: ask.choice("status")?,
            reason: ask.choice("reason")?,
            queue: text("queue")?,
            source: text("source")?,
            event_id: text("event_id")?,
            account_id: ask.checked("account_id", |id| {
                AccountKey::id_is_valid(id).then(|| id.to_owned())
            })?,
        };
        Ok((ask, filter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_makes_text_look_like_bytes() {
        let check = |bytes: &[u8], truncated, expected: (&str, BodyEncoding)| {
            assert_eq!(body(bytes, truncated), (expected.0.to_owned(), expected.1));
        };
        check("aä".as_bytes(), false, ("aä", BodyEncoding::Utf8));
        check(b"a\xc3", true, ("a", BodyEncoding::Utf8));
        check(b"a\xc3", false, ("YcM=", BodyEncoding::Base64));
        check(b"a\xff b", true, ("Yf8gYg==", BodyEncoding::Base64));
    }
}
