//! What stands in a path: account ids, versions, identities, ids of letters.
//! A text that can't be one names nothing (404); a number that is none is 422.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use uuid::Uuid;

use super::{caller::caller, percent, problem::Problem, query::integer};
use crate::domain::{AccountKey, Identity};

/// `{id}` of an account.
#[derive(Clone, Debug)]
pub(super) struct AccountPath(pub(super) AccountKey);

/// `{id}` of an account and `{version}` of one of its entries.
#[derive(Clone, Debug)]
pub(super) struct EntryPath(pub(super) AccountKey, pub(super) i64);

/// `{source}` and `{event_id}` of an event.
#[derive(Clone, Debug)]
pub(super) struct EventPath(pub(super) Identity);

/// `{id}` of a dead letter.
#[derive(Clone, Copy, Debug)]
pub(super) struct LetterPath(pub(super) Uuid);

impl<S: Send + Sync> FromRequestParts<S> for AccountPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let [id] = segments(parts, state).await?;
        account(parts, id).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for EntryPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let [id, version] = segments(parts, state).await?;
        Ok(Self(account(parts, id)?, integer("version", &version, 1)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for EventPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let [source, event_id] = segments(parts, state).await?;
        let tenant: Arc<str> = caller(parts).tenant;
        if !is_identity_text(&source) || !is_identity_text(&event_id) {
            return Err(event_not_found(&source, &event_id));
        }
        Ok(Self(Identity::new(tenant, source, event_id)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for LetterPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let [id] = segments(parts, state).await?;
        Uuid::parse_str(&id)
            .map(Self)
            .map_err(|_| letter_not_found(&id))
    }
}

/// Whether a text can be a source or an event id.
pub(super) fn is_identity_text(text: &str) -> bool {
    (1..=Identity::TEXT_MAX).contains(&text.len()) && !text.contains('\0')
}

pub(super) fn event_not_found(source: &str, event_id: &str) -> Problem {
    Problem::not_found(
        "event_not_found",
        format!(
            "No event {} of source {} is known. What was refused as malformed or with 409, 412 or 422 is not recorded.",
            shown(event_id),
            shown(source)
        ),
    )
}

pub(super) fn letter_not_found(id: &str) -> Problem {
    Problem::not_found(
        "dead_letter_not_found",
        format!("There is no dead letter {}.", shown(id)),
    )
}

/// A text of a request inside a sentence: quoted, and not longer than a line.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(100).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

fn account(parts: &Parts, id: String) -> Result<AccountKey, Problem> {
    if AccountKey::id_is_valid(&id) {
        return Ok(AccountKey::new(caller(parts).tenant, id));
    }
    Err(Problem::not_found(
        "account_not_found",
        format!(
            "There is no account {}: an id is 1 to {} characters of A-Z a-z 0-9 . _ : -",
            shown(&id),
            AccountKey::ID_MAX
        ),
    ))
}

/// The decoded segments of a path that stand for something.
async fn segments<const N: usize, S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
) -> Result<[String; N], Problem> {
    let badly_encoded = || {
        Problem::invalid(
            "path",
            "format",
            "The path is not percent-encoded UTF-8: write each byte as % and two hexadecimal digits.",
        )
    };
    // The router passes a % without two digits on as it is.
    if percent::decode(parts.uri.path()).is_none() {
        return Err(badly_encoded());
    }
    let params = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| badly_encoded())?;
    let values: Vec<String> = params.iter().map(|(_, value)| value.to_owned()).collect();
    values.try_into().map_err(|_| badly_encoded())
}
