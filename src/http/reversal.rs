//! Compensation: an entry that takes back another one.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, accounts,
    caller::Caller,
    events_redo::replayed,
    hand::{Hand, ReversalIn},
    history,
    outcome_json::OutcomeJson,
    path::EntryPath,
    problem::Problem,
    query::{Nothing, Query},
    responses::BodyProblems,
};
use crate::domain::{Content, Event, Form, Identity, Kind, Record, Replay, SOURCE_REVERSAL};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(reverse_entry))
}

/// Reverse an entry
///
/// Writes the opposite entry of the whole amount, by the rules that hold for any other:
/// one that would break the floor is `rejected`, and is evaluated afresh when it is asked
/// for again. Each entry is reversed once; asked for again that is a `duplicate`.
#[utoipa::path(
    post, path = "/v1/accounts/{id}/history/{version}/reversal", tag = "accounts", operation_id = "reverseEntry",
    params(
        ("id" = String, Path, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:-]+$",
            description = "The account's id", example = "4711"),
        ("version" = i64, Path, minimum = 1, description = "The version that the entry produced", example = 2),
    ),
    request_body(content = Option<ReversalIn>),
    responses(
        (status = 200, description = "What became of the reversal", body = OutcomeJson),
        (status = 404, description = "account_not_found or version_not_found", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "not_reversible: the opening, or itself a reversal", body = Problem,
            content_type = "application/problem+json"),
        BodyProblems,
    )
)]
async fn reverse_entry(
    State(api): State<Api>,
    caller: Caller,
    EntryPath(key, version): EntryPath,
    Query(()): Query<Nothing>,
    request: Request,
) -> Result<Json<OutcomeJson>, Problem> {
    let hand = Hand::read(&api, request, &["reference", "note"]).await?;
    accounts::find(&api, &key).await?;
    let entry = history::find(&api, &key, version).await?;
    let Some(event) = opposite(&entry, version, hand.reference.as_deref()) else {
        let what = match entry.event.content.kind {
            Kind::Opening => "the opening",
            Kind::Debit | Kind::Credit => "itself a reversal",
        };
        return Err(Problem::conflict(
            "not_reversible",
            format!(
                "Version {version} of account {} is {what}, which can't be reversed. Send an event of its own.",
                key.id
            ),
        )
        .with("account_id", &*key.id));
    };
    let replay = Replay {
        identity: event.identity.clone(),
        form: Form::Reversal(Arc::new(event)),
        by: hand.by(caller.subject),
    };
    let told = replayed(&api, key, replay, false).await?;
    Ok(Json(OutcomeJson::new(&told)))
}

/// The event that takes an entry back; none where it can't be.
fn opposite(entry: &Record, version: i64, reference: Option<&str>) -> Option<Event> {
    let identity = reversal_of(entry)?;
    let content = &entry.event.content;
    Some(Event {
        identity,
        derived: false,
        content: Content {
            account_id: content.account_id.clone(),
            kind: match content.kind {
                Kind::Debit => Kind::Credit,
                Kind::Credit => Kind::Debit,
                Kind::Opening => return None,
            },
            amount: content.amount,
            currency: None,
            expected_version: None,
        },
        reference: reference.map(Arc::from),
        occurred_at: None,
        metadata: None,
    })
    .filter(|_| entry.version == Some(version))
}

/// The identity that the reversal of an entry has; none where it can't be reversed.
pub(super) fn reversal_of(entry: &Record) -> Option<Identity> {
    let event = &entry.event;
    let reversible =
        event.content.kind != Kind::Opening && &*event.identity.source != SOURCE_REVERSAL;
    let version = entry.version.filter(|_| reversible)?;
    Some(Identity::new(
        event.identity.tenant.clone(),
        SOURCE_REVERSAL,
        Event::derived_id(&event.content.account_id, version),
    ))
}

/// The version of the entry that an entry reverses; none where it reverses none.
pub(super) fn reverses(entry: &Record) -> Option<i64> {
    let identity = &entry.event.identity;
    let reversal = &*identity.source == SOURCE_REVERSAL;
    let (_, version) = identity.event_id.rsplit_once(":v").filter(|_| reversal)?;
    version.parse().ok()
}
