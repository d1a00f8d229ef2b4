//! What all accounts hold together: the figures by which the books add up.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    caller::Caller,
    problem::Problem,
    query::{Fields, FromQuery, Query},
    responses::QueryProblems,
    schemas::WideInteger,
};
use crate::{domain::Timestamp, store::Totals};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get_totals))
}

/// What `GET /v1/totals` answers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"items": [{"currency": "CNY", "accounts": 2, "openings": 100000,
    "credits": 2500, "debits": 500, "balances": 102000}]}))]
struct TotalsJson {
    /// The moment asked for; RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime, max_length = 40)]
    at: Option<String>,
    /// By currency.
    #[schema(max_items = 100_000)]
    items: Vec<CurrencyTotals>,
}

/// What the accounts in one currency hold together, in minor units:
/// `openings + credits - debits = balances`. Sums may need more than 64 bits.
#[derive(Debug, Serialize, ToSchema)]
struct CurrencyTotals {
    /// The currency.
    #[schema(pattern = "^[A-Z][A-Z0-9]{2,9}$")]
    currency: String,
    /// How many accounts.
    #[schema(minimum = 1)]
    accounts: i64,
    /// What they were opened with.
    #[schema(value_type = WideInteger)]
    openings: i128,
    /// What was added since.
    #[schema(value_type = WideInteger)]
    credits: i128,
    /// What was taken since.
    #[schema(value_type = WideInteger)]
    debits: i128,
    /// Their balances.
    #[schema(value_type = WideInteger)]
    balances: i128,
}

impl From<Totals> for CurrencyTotals {
    fn from(totals: Totals) -> Self {
        Self {
            currency: totals.currency.to_string(),
            accounts: totals.accounts,
            openings: totals.openings,
            credits: totals.credits,
            debits: totals.debits,
            balances: totals.balances,
        }
    }
}

/// What all accounts hold together, by currency
///
/// Out of one snapshot, now or as it stood at a moment. It walks the whole history, so
/// that one such call works at a time; another is answered 503 `busy`.
#[utoipa::path(
    get, path = "/v1/totals", tag = "accounts", operation_id = "getTotals",
    params(TotalsParams),
    responses(
        (status = 200, description = "The totals", body = TotalsJson),
        QueryProblems,
    )
)]
async fn get_totals(
    State(api): State<Api>,
    caller: Caller,
    Query(at): Query<TotalsParams>,
) -> Result<Json<TotalsJson>, Problem> {
    let totals = api.store.totals(&caller.tenant, at).await?;
    Ok(Json(TotalsJson {
        at: at.map(Timestamp::rfc3339),
        items: totals.into_iter().map(Into::into).collect(),
    }))
}

/// The query of `GET /v1/totals`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the names and bounds of the parameters; read by `FromQuery`"
)]
struct TotalsParams {
    /// As it stood at this moment: RFC 3339 with an offset, a `+` in it as `%2B`.
    #[param(value_type = Option<String>, format = DateTime, max_length = 40, example = "2026-11-30T08:00:00Z")]
    at: Option<String>,
}

impl FromQuery for TotalsParams {
    type Read = Option<Timestamp>;

    fn read(mut fields: Fields) -> Result<Self::Read, Problem> {
        fields.take_moment("at")
    }
}
