//! A JSON object as a request's body: every key once, every key known, integers
//! exact. Over the reader that also reads events.

use std::borrow::Cow;

use axum::http::StatusCode;

use super::{
    path::{is_identity_text, shown},
    problem::Problem,
};
use crate::{
    domain::{IntegerError, parse_integer},
    envelope::json::{self, Blemish, DEPTH_MAX, Top},
};

/// The members of a body.
pub(super) struct Object<'a>(json::Object<'a>);

impl<'a> Object<'a> {
    /// Reads a body that may have these keys.
    ///
    /// # Errors
    /// 400 where it is no JSON, 422 where it is no such object.
    pub(super) fn read(body: &'a [u8], known: &[&str]) -> Result<Self, Problem> {
        let document =
            json::parse(body, DEPTH_MAX).map_err(|error| malformed(&error.to_string()))?;
        match document.blemish {
            Some(Blemish::DuplicateKey(key)) => {
                let detail = format!("The key {} stands twice in one object.", shown(&key));
                return Err(Problem::invalid(&key, "duplicate_key", detail));
            }
            Some(Blemish::Nul(key)) => {
                let field = key.unwrap_or_else(|| "body".to_owned());
                return Err(Problem::invalid(
                    &field,
                    "format",
                    "No text here may contain U+0000.",
                ));
            }
            None => {}
        }
        let Top::Object(object) = document.top else {
            return Err(Problem::invalid(
                "body",
                "type",
                "The body must be a JSON object.",
            ));
        };
        for key in object.keys() {
            if !known.contains(&key) {
                return Err(Problem::invalid(
                    key,
                    "unknown",
                    format!(
                        "{} is no field here; known: {}.",
                        shown(key),
                        known.join(", ")
                    ),
                ));
            }
        }
        Ok(Self(object))
    }

    /// A member as it came; null is `None`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }

    /// Whether a member is there, also as null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.given(name).is_some()
    }

    /// A text.
    ///
    /// # Errors
    /// 422, where it is none.
    pub(super) fn text(&self, name: &str) -> Result<Option<Cow<'_, str>>, Problem> {
        let Some(json) = self.get(name) else {
            return Ok(None);
        };
        match json::text(json) {
            Some(text) => Ok(Some(text)),
            None => Err(Problem::invalid(
                name,
                "type",
                format!("{name} must be a string."),
            )),
        }
    }

    /// A part of an event's identity: a text of 1 to 255 bytes, or an integer, which
    /// is taken as its decimal string.
    ///
    /// # Errors
    /// 422, where it is missing or none.
    pub(super) fn name(&self, name: &str) -> Result<String, Problem> {
        let refuse = |rule, must: &str| Problem::invalid(name, rule, format!("{name} {must}."));
        let Some(json) = self.get(name) else {
            return Err(refuse("required", "is missing"));
        };
        let text = match json::text(json) {
            Some(text) => text.into_owned(),
            None => parse_integer(json)
                .map_err(|_| refuse("type", "must be a string or an integer of 64 bits"))?
                .to_string(),
        };
        match is_identity_text(&text) {
            true => Ok(text),
            false => Err(refuse("length", "must have 1 to 255 bytes")),
        }
    }

    /// An integer of 64 bits, also as a string.
    ///
    /// # Errors
    /// 422, where it is none.
    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(json) = self.get(name) else {
            return Ok(None);
        };
        parse_integer(json).map(Some).map_err(|error| {
            let (rule, must) = match error {
                IntegerError::Type => (
                    "type",
                    "be an integer in minor units: no fraction, no exponent",
                ),
                IntegerError::Range => ("range", "fit 64 bits"),
            };
            Problem::invalid(name, rule, format!("{name} must {must}."))
        })
    }
}

/// 400: no JSON document.
pub(super) fn malformed(why: &str) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "malformed_json",
        format!("The body is no JSON document that can be read: {why}."),
    )
}
