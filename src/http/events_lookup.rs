//! Looking many events up at once, as a producer does after an outage.

use std::collections::HashMap;

use axum::{
    Json,
    extract::{Request, State},
};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, body,
    caller::Caller,
    event_json::EventJson,
    object::{Object, malformed},
    problem::Problem,
    query::{Nothing, Query},
    responses::BodyProblems,
    schemas::TextIn,
};
use crate::{
    domain::{EventKey, Identity},
    envelope,
    store::EventView,
};

/// Most identities of one call.
const IDENTITIES_MAX: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(look_up_events))
}

/// One event to look up.
#[derive(ToSchema)]
#[schema(example = json!({"source": "orders", "event_id": "pay-1001"}))]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
struct IdentityIn {
    /// Who produced it.
    #[schema(min_length = 1, max_length = 255)]
    source: String,
    /// Its id.
    #[schema(value_type = TextIn)]
    event_id: String,
}

/// An event, or that none is known of this identity.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Found {
    /// What became of it.
    Known(Box<EventJson>),
    /// It never arrived, or is a dead letter that never became an event.
    Unknown(UnknownEvent),
}

/// An identity of which no event is known.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct UnknownEvent {
    /// Always `unknown`.
    status: UnknownStatus,
    /// As it was asked for.
    #[schema(max_length = 255)]
    source: String,
    /// As it was asked for.
    #[schema(max_length = 255)]
    event_id: String,
}

/// The status of what is no event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum UnknownStatus {
    Unknown,
}

/// Look up to 1,000 events up
///
/// Answers an array in the order of what was asked: each event as
/// `GET /v1/events/{source}/{event_id}` shows it, and one that is not known with the
/// status `unknown`.
#[utoipa::path(
    post, path = "/v1/events/lookup", tag = "events", operation_id = "lookUpEvents",
    request_body(content = Vec<IdentityIn>, description = "Up to 1,000 identities"),
    responses(
        (status = 200, description = "What became of each", body = Vec<Found>),
        BodyProblems,
    )
)]
async fn look_up_events(
    State(api): State<Api>,
    caller: Caller,
    Query(()): Query<Nothing>,
    request: Request,
) -> Result<Json<Vec<Found>>, Problem> {
    let (parts, body) = request.into_parts();
    body::media_type(&parts.headers, &["application/json"])?;
    let bytes = body::bytes(body, api.limits.body_bytes_max).await?;
    let identities = identities(&caller.tenant, &bytes)?;
    let views = api.store.events_of(&identities).await?;
    let known: HashMap<EventKey, &EventView> = views
        .iter()
        .map(|view| (view.record.event.identity.key(), view))
        .collect();
    let found = identities
        .iter()
        .map(|identity| match known.get(&identity.key()) {
            Some(view) if view.record.event.identity == *identity => {
                Found::Known(Box::new(EventJson::new(view)))
            }
            _ => Found::Unknown(UnknownEvent {
                status: UnknownStatus::Unknown,
                source: identity.source.to_string(),
                event_id: identity.event_id.to_string(),
            }),
        })
        .collect();
    Ok(Json(found))
}

fn identities(tenant: &str, body: &[u8]) -> Result<Vec<Identity>, Problem> {
    if !envelope::is_array(body) {
        let detail = "The body must be an array of {source, event_id}.";
        return Err(Problem::invalid("body", "type", detail));
    }
    let elements = envelope::split_array(body).map_err(|error| malformed(&error.to_string()))?;
    if elements.len() > IDENTITIES_MAX {
        let detail = format!(
            "At most {IDENTITIES_MAX} events can be looked up at once; these are {}.",
            elements.len()
        );
        return Err(Problem::invalid("body", "length", detail));
    }
    let one = |element| {
        let object = Object::read(element, &["source", "event_id"])?;
        let (source, event_id) = (object.name("source")?, object.name("event_id")?);
        Ok(Identity::new(tenant, source, event_id))
    };
    let numbered = elements.into_iter().enumerate();
    numbered
        .map(|(index, element)| one(element).map_err(|problem: Problem| problem.in_element(index)))
        .collect()
}
