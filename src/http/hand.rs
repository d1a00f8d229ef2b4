//! The body and the query of what an operator does by hand.

use axum::{
    extract::Request,
    http::{HeaderMap, header},
};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::{
    Api, body,
    object::Object,
    problem::Problem,
    query::{Fields, FromQuery},
    schemas::PositiveIn,
};
use crate::{domain::Operator, envelope::json};

/// Most characters of a note.
const NOTE_MAX: usize = 1_000;

/// Most bytes of a reference, as of any event's.
const REFERENCE_MAX: usize = 255;

/// How an event is to be evaluated afresh; all of it may be left out.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"version": 4, "note": "the account was topped up"}))]
pub(super) struct ReplayIn {
    /// The version at which the event wants to find the account, instead of its own;
    /// null: none. Not together with `body`.
    #[schema(value_type = Option<PositiveIn>)]
    version: Option<i64>,
    /// The corrected message, which is kept beside the original; it names the same
    /// identity or none.
    #[schema(value_type = Option<Object>)]
    body: Option<()>,
    /// Why, for the audit.
    #[schema(max_length = 1000)]
    note: Option<String>,
}

/// Why something is done; may be left out.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"note": "the order was cancelled"}))]
pub(super) struct NoteIn {
    /// Why, for the audit.
    #[schema(max_length = 1000)]
    note: Option<String>,
}

/// What is said of a reversal; all of it may be left out.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"reference": "complaint-12", "note": "goods came back"}))]
pub(super) struct ReversalIn {
    /// The entry's reference, at most 255 bytes.
    #[schema(max_length = 255)]
    reference: Option<String>,
    /// Why, for the audit.
    #[schema(max_length = 1000)]
    note: Option<String>,
}

/// What a request by hand says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hand {
    /// Another expected version, or none any more.
    pub(super) version: Option<Option<i64>>,
    /// A corrected body.
    pub(super) body: Option<String>,
    /// Of a reversal.
    pub(super) reference: Option<String>,
    /// Why.
    note: Option<String>,
}

impl Hand {
    /// Reads the body of a request, which may have these fields or be missing.
    ///
    /// # Errors
    /// 400, 413, 415 or 422.
    pub(super) async fn read(
        api: &Api,
        request: Request,
        fields: &[&str],
    ) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = body::bytes(body, api.limits.body_bytes_max).await?;
        Self::of(&parts.headers, &bytes, fields)
    }

    fn of(headers: &HeaderMap, bytes: &[u8], fields: &[&str]) -> Result<Self, Problem> {
        if bytes.is_empty() && !headers.contains_key(header::CONTENT_TYPE) {
            return Ok(Self::default());
        }
        body::media_type(headers, &["application/json"])?;
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let object = Object::read(bytes, fields)?;
        let version = match object.has("version") {
            true => Some(object.integer("version")?),
            false => None,
        };
        if version.flatten().is_some_and(|version| version < 1) {
            return Err(Problem::invalid(
                "version",
                "range",
                "version must be at least 1, or null for none.",
            ));
        }
        // A body that is a text is what that text says: some can be written no other way.
        let body = object.get("body").map(|body| match json::text(body) {
            Some(text) => text.into_owned(),
            None => body.to_owned(),
        });
        if version.is_some() && body.is_some() {
            return Err(Problem::invalid(
                "version",
                "conflict",
                "A corrected body says its version itself. Leave version or body out.",
            ));
        }
        let owned = |name| -> Result<Option<String>, Problem> {
            Ok(object.text(name)?.map(std::borrow::Cow::into_owned))
        };
        let (note, reference) = (owned("note")?, owned("reference")?);
        if note
            .as_ref()
            .is_some_and(|it| it.chars().count() > NOTE_MAX)
        {
            let detail = format!("note must have at most {NOTE_MAX} characters.");
            return Err(Problem::invalid("note", "length", detail));
        }
        if reference
            .as_ref()
            .is_some_and(|it| it.len() > REFERENCE_MAX)
        {
            let detail = format!("reference must have at most {REFERENCE_MAX} bytes.");
            return Err(Problem::invalid("reference", "length", detail));
        }
        Ok(Self {
            version,
            body,
            reference,
            note,
        })
    }

    /// Who acts, and why.
    pub(super) fn by(&self, subject: String) -> Operator {
        Operator {
            subject,
            note: self.note.clone(),
        }
    }
}

/// The query of a replay.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the names of the parameters; read by `FromQuery`")]
pub(super) struct DryRun {
    /// `true`: tell what would happen, and change nothing.
    #[param(default = false)]
    dry_run: Option<bool>,
}

impl FromQuery for DryRun {
    type Read = bool;

    fn read(mut fields: Fields) -> Result<bool, Problem> {
        match fields.take("dry_run").as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::invalid(
                "dry_run",
                "type",
                "dry_run must be true or false.",
            )),
        }
    }
}
