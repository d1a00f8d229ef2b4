//! Looking at events: one by its identity, or pages of them.

use axum::{Json, extract::State};
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    caller::Caller,
    event_json::EventJson,
    page::{Page, PageAsk},
    path::{EventPath, event_not_found, is_identity_text},
    problem::Problem,
    query::{Fields, FromQuery, Nothing, Query},
    responses::QueryProblems,
    schemas::{EventStatusJson, ReasonJson},
};
use crate::{domain::AccountKey, store::EventFilter};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_events))
        .routes(routes!(get_event))
}

/// What became of an event
///
/// Source and id are percent-encoded, a slash in them as `%2F`.
#[utoipa::path(
    get, path = "/v1/events/{source}/{event_id}", tag = "events", operation_id = "getEvent",
    params(
        ("source" = String, Path, min_length = 1, max_length = 255, description = "Who produced it", example = "http"),
        ("event_id" = String, Path, min_length = 1, max_length = 255, description = "Its id", example = "pay-1001"),
    ),
    responses(
        (status = 200, description = "The event", body = EventJson),
        (status = 404, description = "event_not_found", body = Problem,
            content_type = "application/problem+json"),
        QueryProblems,
    )
)]
async fn get_event(
    State(api): State<Api>,
    EventPath(identity): EventPath,
    Query(()): Query<Nothing>,
) -> Result<Json<EventJson>, Problem> {
    let Some(view) = api.store.event(&identity).await? else {
        return Err(event_not_found(&identity.source, &identity.event_id));
    };
    Ok(Json(EventJson::new(&view)))
}

/// List events, the last first seen first
///
/// Also those that wait, that were refused, and the openings of accounts. Where no index
/// leads to them, as by `source` or `event_id` alone, a page looks at a bounded number of
/// events: it may hold fewer items than asked for, or none, and the end is where
/// `next_cursor` is null.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "listEvents",
    params(EventsParams),
    responses(
        (status = 200, description = "A page of events", body = Page<EventJson>),
        QueryProblems,
    )
)]
async fn list_events(
    State(api): State<Api>,
    caller: Caller,
    Query((ask, filter)): Query<EventsParams>,
) -> Result<Json<Page<EventJson>>, Problem> {
    let found = api
        .store
        .events(&caller.tenant, &filter, ask.after()?, ask.limit)
        .await?;
    let items = found.views.iter().map(EventJson::new).collect();
    Ok(Json(ask.page_until(items, found.before)))
}

/// The query of `GET /v1/events`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the names and bounds of the parameters; read by `FromQuery`"
)]
struct EventsParams {
    /// Only events that stand so.
    #[param(inline)]
    status: Option<EventStatusJson>,
    /// Only events of this reason.
    #[param(inline)]
    reason: Option<ReasonJson>,
    /// Only events on this account.
    #[param(pattern = "^[A-Za-z0-9._:-]{1,128}$")]
    account_id: Option<String>,
    /// Only events of this source.
    #[param(min_length = 1, max_length = 255)]
    source: Option<String>,
    /// Only events of this id, whatever their source.
    #[param(min_length = 1, max_length = 255)]
    event_id: Option<String>,
    /// Most items on the page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before; carries every filter and the limit.
    #[param(max_length = 4096, pattern = "^[A-Za-z0-9_-]+$")]
    cursor: Option<String>,
}

impl FromQuery for EventsParams {
    type Read = (PageAsk, EventFilter);

    fn read(fields: Fields) -> Result<Self::Read, Problem> {
        let ask = PageAsk::read("events", fields, &[])?;
        let text = |name| ask.checked(name, |text| is_identity_text(text).then(|| text.to_owned()));
        let filter = EventFilter {
            status: ask.choice("status")?,
            reason: ask.choice("reason")?,
            account_id: ask.checked("account_id", |id| {
                AccountKey::id_is_valid(id).then(|| id.to_owned())
            })?,
            source: text("source")?,
            event_id: text("event_id")?,
        };
        Ok((ask, filter))
    }
}
