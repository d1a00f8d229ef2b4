//! Every answer that is not a success: RFC 9457 problem documents with a stable
//! `code`. What must not live here: decisions which answer is due.

use std::collections::BTreeMap;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{domain::Answer, ledger::Failure, store::StoreError};

/// The media type of a problem (RFC 9457 section 3).
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// After how many seconds a client should send the same again.
const RETRY_AFTER_SECS: u64 = 1;

/// A problem: what happened, to what, and what to do, for people in `detail` and
/// for programs in `code`.
///
/// By code there are more members: `account_id`, `account_version`,
/// `account_balance`, `etag`, `source`, `event_id`, `expected_version`, `bytes_max`,
/// `store_code`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(example = json!({
    "type": "about:blank",
    "title": "Not Found",
    "status": 404,
    "detail": "There is no account 4711. Open it with POST /v1/accounts.",
    "code": "account_not_found",
}))]
pub struct Problem {
    /// Always `about:blank`: the `code` tells problems apart.
    #[serde(rename = "type")]
    #[schema(value_type = String, pattern = "^about:blank$")]
    kind: ProblemType,
    /// The status in words.
    #[schema(max_length = 100)]
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What happened and what to do about it, for people.
    #[schema(max_length = 10000)]
    detail: Box<str>,
    /// What happened, for programs; never changes its meaning.
    #[schema(max_length = 64, pattern = "^[a-z_]+$")]
    code: &'static str,
    /// The field, parameter or header that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 255)]
    field: Option<Box<str>>,
    /// The rule that it breaks: `required`, `type`, `range`, `format`, `length`,
    /// `duplicate_key`, `reserved`, `max_bytes`, `unknown` or `conflict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Rule, required = false)]
    rule: Option<&'static str>,
    /// In an array: the place of the element that is wrong, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false, minimum = 0, maximum = 1000000)]
    index: Option<u32>,
    /// More particulars, by code.
    #[serde(flatten)]
    #[schema(ignore)]
    more: BTreeMap<&'static str, Value>,
}

/// The type of every problem.
#[derive(Debug, Clone, Copy, Serialize)]
enum ProblemType {
    /// The code says which it is.
    #[serde(rename = "about:blank")]
    AboutBlank,
}

/// The rules of which one is broken.
#[derive(Debug, Clone, Copy, ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
pub(super) enum Rule {
    /// It must be there.
    Required,
    /// It is of the wrong kind.
    Type,
    /// It is too small or too large.
    Range,
    /// It is not written as it must be.
    Format,
    /// It is too short or too long.
    Length,
    /// It stands twice.
    DuplicateKey,
    /// It belongs to the service itself.
    Reserved,
    /// It has too many bytes.
    MaxBytes,
    /// Nothing of this name is known.
    Unknown,
    /// It contradicts something else in the request.
    Conflict,
}

impl Problem {
    /// A problem with its status, code and words.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: ProblemType::AboutBlank,
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into().into_boxed_str(),
            code,
            field: None,
            rule: None,
            index: None,
            more: BTreeMap::new(),
        }
    }

    /// 422: a field, parameter or header of the request breaks a rule.
    #[must_use]
    pub fn invalid(field: &str, rule: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail).at(field, rule)
    }

    /// 404 with its code.
    #[must_use]
    pub fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// 409 with its code.
    #[must_use]
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// No such account.
    #[must_use]
    pub fn account_not_found(id: &str) -> Self {
        Self::not_found(
            "account_not_found",
            format!("There is no account {id}. Open it with POST /v1/accounts."),
        )
        .with("account_id", id)
    }

    /// Names the field and the rule.
    #[must_use]
    pub fn at(mut self, field: &str, rule: &'static str) -> Self {
        self.field = Some(shortened(field).into());
        self.rule = Some(rule);
        self
    }

    /// Names the element of an array.
    #[must_use]
    pub fn in_element(mut self, index: usize) -> Self {
        self.index = u32::try_from(index).ok();
        self
    }

    /// Adds a particular.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.more.insert(name, value.into());
        self
    }

    /// Adds a particular where there is one.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// An answer to another ask than was sent: a bug of ours.
    pub(super) fn unexpected(answer: &Answer) -> Self {
        tracing::error!(
            ?answer,
            "the ledger answered another question; this is a bug"
        );
        Self::bug()
    }

    /// A bug of ours, whatever it is.
    pub(super) fn bug() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "The service made a mistake; this is a bug, and its log says more. Events may be sent again safely.",
        )
    }

    fn try_again(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
    }

    fn busy() -> Self {
        Self::try_again(
            "busy",
            "The account is too busy right now, or the service is shutting down. Send the same again: \
             what took effect already is answered as before.",
        )
    }

    fn store_refused(code: &str) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "store_refused",
            format!("The database refuses this content for ever (its code is {code})."),
        )
        .with("store_code", code)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Raced | StoreError::Conflicted(_) | StoreError::Locked => Self::busy(),
            StoreError::Occupied(why) => Self::try_again(
                "busy",
                format!("Not now: {why}. Send the same again later."),
            ),
            StoreError::Refused { code, .. } => Self::store_refused(&code),
            StoreError::Away(_)
            | StoreError::Unwritable(_)
            | StoreError::Schema(_)
            | StoreError::Other(_) => {
                // The database's own words may name hosts and users: they go to the log.
                // That the database went away is said once, by whoever watches it.
                tracing::debug!(%error, "a request found the database unavailable");
                Self::try_again(
                    "database_unavailable",
                    "The database does not answer or takes no writes right now. Send the same again: \
                     what took effect already is answered as before.",
                )
            }
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Busy | Failure::Stopping => Self::busy(),
            Failure::Unavailable(error) => error.into(),
            Failure::Refused { code } => Self::store_refused(&code),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let content_type = HeaderValue::from_static(MEDIA_TYPE);
        let mut response = (status, [(header::CONTENT_TYPE, content_type)], body).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, RETRY_AFTER_SECS.into());
        }
        response
    }
}

/// A field's name comes from the sender: no more of it than 255 bytes.
fn shortened(field: &str) -> &str {
    &field[..field.floor_char_boundary(255)]
}

/// A path that leads nowhere.
pub(super) async fn nowhere(uri: axum::http::Uri) -> Problem {
    Problem::not_found(
        "not_found",
        format!(
            "Nothing is at {}. /openapi.json describes every path.",
            uri.path()
        ),
    )
}

/// A method that its path does not know; axum adds the `Allow` header.
pub(super) async fn wrong_method(method: axum::http::Method, uri: axum::http::Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!(
            "{} does not know {method}; the Allow header lists what it knows.",
            uri.path()
        ),
    )
}

/// A panic in a handler: a bug of ours, told without its particulars.
pub(super) fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    tracing::error!(message, "a request handler panicked; this is a bug");
    Problem::bug().into_response()
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, http::Request, routing::get};
    use tower::ServiceExt;
    use tower_http::catch_panic::CatchPanicLayer;

    use super::*;

    async fn faulty() -> &'static str {
        panic!("a secret of ours")
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_that_keeps_its_particulars() {
        let router = Router::new()
            .route("/", get(faulty))
            .layer(CatchPanicLayer::custom(panicked));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let bytes = axum::body::to_bytes(response.into_body(), 10_000)
            .await
            .unwrap();
        let problem: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(problem["code"], "internal_error");
        assert!(!problem.to_string().contains("secret"));
    }

    #[test]
    fn a_long_name_from_outside_is_cut_between_characters() {
        let problem = Problem::invalid(&"ä".repeat(1_000), "unknown", "x");
        assert_eq!(problem.field.as_deref(), Some("ä".repeat(127).as_str()));
    }
}
