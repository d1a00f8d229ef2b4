//! HTTP: how requests become asks and answers become JSON, one file an area.
//!
//! What lives here: reading requests exactly, showing what the books hold, and
//! the OpenAPI document that comes from the same statements as the routes. What
//! must not: rules of the ledger, and SQL.
//!
//! | file | serves |
//! | --- | --- |
//! | `accounts`, `history`, `export` | `/v1/accounts…` |
//! | `totals` | `/v1/totals` |
//! | `reversal` | `/v1/accounts/{id}/history/{version}/reversal` |
//! | `events`, `events_read`, `events_lookup`, `events_redo` | `/v1/events…` |
//! | `letters` | `/v1/dead-letters…` |
//! | `audit` | `/v1/audit` |
//! | `probes` | `/livez`, `/readyz`, `/metrics`, `/openapi.json`, `/` |
//! | `docs` | `/docs` |

use std::{future::Future, io, sync::Arc};

use axum::{Router, serve::ListenerExt};
use tokio::net::TcpListener;
use tower_http::{catch_panic::CatchPanicLayer, trace::TraceLayer};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::{clock::Clock, lane::Lanes, store::Store, telemetry::Metrics};

mod account_json;
mod accounts;
mod audit;
mod body;
mod call;
mod caller;
mod docs;
mod entry_json;
mod event_in;
mod event_json;
mod events;
mod events_lookup;
mod events_read;
mod events_redo;
mod export;
mod hand;
mod headers;
mod history;
mod letters;
mod object;
mod outcome_json;
mod page;
mod path;
mod percent;
mod probes;
mod problem;
mod query;
mod responses;
mod reversal;
mod schemas;
mod totals;

pub use caller::{Caller, Role, caller};
pub use event_json::EventJson;
pub use outcome_json::OutcomeJson;
pub use probes::{BrokerState, Readiness};
pub use problem::Problem;

/// What the calls work with; cheap to clone.
#[derive(Clone)]
pub struct Api {
    /// The books, for reading.
    pub store: Arc<dyn Store>,
    /// The way to everything that writes.
    pub lanes: Lanes,
    /// The time of day.
    pub clock: Clock,
    /// What `/metrics` shows.
    pub metrics: Metrics,
    /// How large things may be.
    pub limits: Limits,
    /// What `/readyz` shows; asked at every probe, so it only looks at what is known.
    pub readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
}

/// How large things may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one event.
    pub event_bytes_max: usize,
    /// Most bytes of one request's body.
    pub body_bytes_max: usize,
}

/// Everything that is served.
pub fn router(state: Api) -> Router {
    let (router, api) = described().split_for_parts();
    router
        .merge(probes::undescribed(&api))
        .merge(docs::undescribed())
        .fallback(problem::nowhere)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(CatchPanicLayer::custom(problem::panicked))
        // A 503 is no event of its own: whoever goes away is logged once, where it is
        // noticed, and not at every probe.
        .layer(TraceLayer::new_for_http().on_failure(()))
        .with_state(state)
}

/// The OpenAPI document of everything that is served.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    described().into_openapi()
}

/// The OpenAPI document as the file `openapi/openapi.json` holds it.
///
/// # Errors
/// Where it can't be written as JSON.
pub fn openapi_json() -> serde_json::Result<String> {
    openapi().to_pretty_json().map(|json| json + "\n")
}

/// Serves until told to stop, then finishes the requests in hand.
///
/// # Errors
/// Where the listener fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // Answers are small: they should not wait for a segment to fill.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
    });
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown)
        .await
}

/// Routes and their OpenAPI entries, which are one statement each.
fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(accounts::routes())
        .merge(history::routes())
        .merge(reversal::routes())
        .merge(events::routes())
        .merge(events_read::routes())
        .merge(events_lookup::routes())
        .merge(events_redo::routes())
        .merge(totals::routes())
        .merge(letters::routes())
        .merge(audit::routes())
        .merge(probes::routes())
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "onceledger",
        description = "An account ledger in which each event takes effect exactly once.\n\n\
            Money is an integer in minor units. Errors are problem documents (RFC 9457) with a stable `code`. \
            Lists come in pages with an opaque cursor. Every request may be sent again: what took effect already \
            is answered as before.",
    ),
    servers((url = "/", description = "This service")),
    tags(
        (name = "accounts", description = "Accounts and their history"),
        (name = "events", description = "Events and what became of them"),
        (name = "dead letters", description = "What never became an event, or waited too long"),
        (name = "audit", description = "What people did by hand"),
        (name = "service", description = "The service itself"),
    ),
    components(schemas(Problem)),
)]
struct Document;
