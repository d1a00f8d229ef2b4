//! Query parameters: every name is known, stands once and is well written, or
//! the request is refused and told which one is wrong.

use std::collections::BTreeMap;

use axum::{extract::FromRequestParts, http::request::Parts};
use utoipa::IntoParams;

use super::{path::shown, percent, problem::Problem};
use crate::domain::{IntegerError, Timestamp, parse_integer};

/// The parameters of a query by name, not looked at closer yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(pub(super) BTreeMap<String, String>);

/// A set of query parameters. Its names are those of its OpenAPI entry, so none
/// can be read that is not described.
pub(super) trait FromQuery: IntoParams {
    /// What the values mean together.
    type Read;

    /// Reads the values; every name in `fields` is one of the set.
    ///
    /// # Errors
    /// 422, where a value is wrong.
    fn read(fields: Fields) -> Result<Self::Read, Problem>;
}

/// A call without query parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nothing;

impl IntoParams for Nothing {
    fn into_params(
        _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
    ) -> Vec<utoipa::openapi::path::Parameter> {
        Vec::new()
    }
}

impl FromQuery for Nothing {
    type Read = ();

    fn read(_: Fields) -> Result<(), Problem> {
        Ok(())
    }
}

/// Takes the query parameters of a request.
pub(super) struct Query<T: FromQuery>(pub(super) T::Read);

impl<T: FromQuery, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let known = T::into_params(|| None);
        let fields = Fields::parse(parts.uri.query().unwrap_or_default())?;
        for name in fields.0.keys() {
            if !known.iter().any(|parameter| parameter.name == *name) {
                let names: Vec<&str> = known.iter().map(|p| p.name.as_str()).collect();
                return Err(Problem::invalid(
                    name,
                    "unknown",
                    format!(
                        "There is no query parameter {name:?} here; known: {}.",
                        if names.is_empty() {
                            "none".to_owned()
                        } else {
                            names.join(", ")
                        }
                    ),
                ));
            }
        }
        T::read(fields).map(Self)
    }
}

impl Fields {
    fn parse(query: &str) -> Result<Self, Problem> {
        let mut fields = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |text: &str| percent::decode(&text.replace('+', " "));
            let Some(name) = text(name) else {
                return Err(badly_encoded(name));
            };
            let Some(value) = text(value) else {
                return Err(badly_encoded(&name));
            };
            if value.contains('\0') {
                return Err(Problem::invalid(
                    &name,
                    "format",
                    format!("{name} contains U+0000, which no text here may."),
                ));
            }
            if fields.contains_key(&name) {
                return Err(Problem::invalid(
                    &name,
                    "duplicate_key",
                    format!("The query parameter {name} stands twice."),
                ));
            }
            fields.insert(name, value);
        }
        Ok(Self(fields))
    }

    /// Takes a parameter out.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes a moment out.
    ///
    /// # Errors
    /// 422, where it is none.
    pub(super) fn take_moment(&mut self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        let moment = Timestamp::parse(&text);
        moment.map(Some).ok_or_else(|| {
            // In a query a plus is a blank.
            let advice = match text.contains(' ') {
                true => " Write the + of its offset as %2B.",
                false => "",
            };
            let detail = format!(
                "{name} must be a time of RFC 3339 with an offset, such as \
                 2026-11-30T08:00:00Z; {} is none.{advice}",
                shown(&text)
            );
            Problem::invalid(name, "format", detail)
        })
    }

    /// Takes an integer out that must not be below a bound.
    ///
    /// # Errors
    /// 422, where it is none or is below.
    pub(super) fn take_integer(&mut self, name: &str, least: i64) -> Result<Option<i64>, Problem> {
        self.take(name)
            .map(|text| integer(name, &text, least))
            .transpose()
    }
}

/// Reads an integer of a path or query that must not be below a bound.
///
/// # Errors
/// 422, where it is none or is below.
pub(super) fn integer(name: &str, text: &str, least: i64) -> Result<i64, Problem> {
    let refuse = |rule| {
        Problem::invalid(
            name,
            rule,
            format!(
                "{name} must be an integer from {least} to {}, written in plain digits.",
                i64::MAX
            ),
        )
    };
    // Quotes belong to JSON, not to a path.
    let plain = if text.contains('"') {
        Err(IntegerError::Type)
    } else {
        parse_integer(text)
    };
    match plain {
        Ok(value) if value >= least => Ok(value),
        Ok(_) | Err(IntegerError::Range) => Err(refuse("range")),
        Err(IntegerError::Type) => Err(refuse("type")),
    }
}

fn badly_encoded(name: &str) -> Problem {
    Problem::invalid(
        name,
        "format",
        "The query is not percent-encoded UTF-8: write each byte as % and two hexadecimal digits.",
    )
}
