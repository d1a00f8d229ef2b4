//! What the service says of itself: alive, ready, measured, described.

use std::collections::BTreeMap;

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema, openapi::OpenApi};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    problem::Problem,
    query::{Fields, FromQuery, Nothing, Query},
    responses::QueryProblems,
};

/// The media type of `/metrics` (OpenMetrics 1.0).
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is known of the parts that the service works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Whether the database answers and takes writes.
    pub database: bool,
    /// How the broker stands.
    pub broker: BrokerState,
    /// For each configured queue whether it is consumed.
    pub queues: BTreeMap<String, bool>,
}

/// How the broker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrokerState {
    /// None is configured.
    NotConfigured,
    /// Every connection stands.
    Up,
    /// It holds publishing back (an alarm); that is no failure of the service.
    Blocked,
    /// A connection is missing.
    Down,
}

/// Whether a part is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Part {
    Up,
    Down,
}

impl From<bool> for Part {
    fn from(up: bool) -> Self {
        if up { Self::Up } else { Self::Down }
    }
}

/// Whether everything is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Overall {
    Ready,
    Unavailable,
}

/// What `/readyz` answers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"status": "unavailable", "away": ["broker", "queue onceledger.events"],
    "database": "up", "broker": "down", "queues": {"onceledger.events": "down"}}))]
struct ReadyJson {
    /// `ready` where nothing is away.
    status: Overall,
    /// What is away, by name.
    #[schema(max_items = 1000)]
    away: Vec<String>,
    /// The database.
    database: Part,
    /// The broker; left out where only the database was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BrokerState, required = false)]
    broker: Option<BrokerState>,
    /// Each configured queue: `up` while it is consumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BTreeMap<String, Part>, required = false)]
    queues: Option<BTreeMap<String, Part>>,
}

impl ReadyJson {
    fn new(readiness: Readiness, only_database: bool) -> Self {
        let mut away = Vec::new();
        if !readiness.database {
            away.push("database".to_owned());
        }
        if !only_database {
            if readiness.broker == BrokerState::Down {
                away.push("broker".to_owned());
            }
            let silent = readiness.queues.iter().filter(|(_, consumed)| !**consumed);
            away.extend(silent.map(|(name, _)| format!("queue {name}")));
        }
        let queues = readiness.queues.into_iter();
        Self {
            status: if away.is_empty() {
                Overall::Ready
            } else {
                Overall::Unavailable
            },
            away,
            database: readiness.database.into(),
            broker: (!only_database).then_some(readiness.broker),
            queues: (!only_database).then(|| {
                queues
                    .map(|(name, consumed)| (name, consumed.into()))
                    .collect()
            }),
        }
    }
}

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(livez))
        .routes(routes!(readyz))
        .routes(routes!(metrics))
        .routes(routes!(index))
}

/// `/openapi.json` can't describe itself: it is made of everything else.
pub(super) fn undescribed(api: &OpenApi) -> Router<Api> {
    let document = api.to_json().unwrap_or_default();
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    Router::new().route(
        "/openapi.json",
        get(move |Query(()): Query<Nothing>| async move { (content_type, document.clone()) }),
    )
}

/// Whether the process answers
///
/// It looks at nothing else.
#[utoipa::path(
    get, path = "/livez", tag = "service", operation_id = "livez",
    responses((status = 200, description = "It does", body = Alive))
)]
async fn livez(Query(()): Query<Nothing>) -> Json<Alive> {
    Json(Alive { status: "alive" })
}

/// What `/livez` answers.
#[derive(Debug, Serialize, ToSchema)]
struct Alive {
    /// Always `alive`.
    #[schema(max_length = 5)]
    status: &'static str,
}

/// Whether the service can do its work, and what is away
///
/// HTTP goes on answering what it can while something is away. A broker that holds
/// publishing back is `blocked`, which is no failure of the service.
#[utoipa::path(
    get, path = "/readyz", tag = "service", operation_id = "readyz",
    params(ReadyParams),
    responses(
        (status = 200, description = "Everything is there", body = ReadyJson),
        (status = 503, description = "Something is away; `away` names it", body = ReadyJson),
        (status = 422, description = "An unknown parameter or value", body = Problem,
            content_type = "application/problem+json"),
    )
)]
async fn readyz(State(api): State<Api>, Query(only_database): Query<ReadyParams>) -> Response {
    let ready = ReadyJson::new((api.readiness)(), only_database);
    let status = match ready.status {
        Overall::Ready => StatusCode::OK,
        Overall::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(ready)).into_response()
}

/// The query of `/readyz`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the names and bounds of the parameters; read by `FromQuery`"
)]
struct ReadyParams {
    /// `database`: look at the database only, for load balancers.
    #[param(inline)]
    only: Option<Only>,
}

/// Which part alone is looked at.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
enum Only {
    Database,
}

impl FromQuery for ReadyParams {
    type Read = bool;

    fn read(mut fields: Fields) -> Result<bool, Problem> {
        match fields.take("only").as_deref() {
            None => Ok(false),
            Some("database") => Ok(true),
            Some(_) => Err(Problem::invalid("only", "format", "only can be database.")),
        }
    }
}

/// Figures for Prometheus
///
/// In the OpenMetrics text format.
#[utoipa::path(
    get, path = "/metrics", tag = "service", operation_id = "metrics",
    responses((status = 200, description = "OpenMetrics text", body = String,
        content_type = "application/openmetrics-text"))
)]
async fn metrics(State(api): State<Api>, Query(()): Query<Nothing>) -> Response {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], api.metrics.encode()).into_response()
}

/// What this is, and where things are
///
/// A place to begin.
#[utoipa::path(
    get, path = "/", tag = "service", operation_id = "index",
    responses((status = 200, description = "Name, version and paths", body = IndexJson), QueryProblems)
)]
async fn index(Query(()): Query<Nothing>) -> Json<IndexJson> {
    Json(IndexJson {
        name: "onceledger",
        version: env!("CARGO_PKG_VERSION"),
        description: "An account ledger in which each event takes effect exactly once.",
        paths: BTreeMap::from([
            ("accounts", "/v1/accounts"),
            ("events", "/v1/events"),
            ("dead_letters", "/v1/dead-letters"),
            ("docs", "/docs"),
            ("openapi", "/openapi.json"),
            ("metrics", "/metrics"),
            ("alive", "/livez"),
            ("ready", "/readyz"),
        ]),
    })
}

/// What `/` answers.
#[derive(Debug, Serialize, ToSchema)]
struct IndexJson {
    /// The service's name.
    #[schema(max_length = 100)]
    name: &'static str,
    /// The program's version.
    #[schema(max_length = 100)]
    version: &'static str,
    /// What it is.
    #[schema(max_length = 1000)]
    description: &'static str,
    /// Where things are.
    #[schema(value_type = BTreeMap<String, String>)]
    paths: BTreeMap<&'static str, &'static str>,
}
