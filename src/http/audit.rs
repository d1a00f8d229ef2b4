//! What people did by hand: who, what, when and why.

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    Api,
    caller::Caller,
    page::{Page, PageAsk},
    path::is_identity_text,
    problem::Problem,
    query::{Fields, FromQuery, Query},
    responses::QueryProblems,
};
use crate::{
    domain::AccountKey,
    store::{AuditFilter, AuditView},
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list_audit))
}

/// An act of a person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": "0193b2c4-6d3e-7f00-8000-000000000001", "at": "2026-11-30T08:00:00Z", "subject": "anna",
    "action": "event.replayed", "account_id": "4711",
    "detail": {"source": "http", "event_id": "pay-1001", "outcome": "applied", "version": 3,
        "before": {"status": "rejected", "reason": "insufficient_funds"}},
    "note": "topped up",
}))]
pub(super) struct AuditJson {
    /// Its id; later acts have greater ones.
    id: Uuid,
    /// When it was done; RFC 3339, UTC.
    #[schema(format = DateTime, max_length = 40)]
    at: String,
    /// Who did it: the caller's name.
    #[schema(max_length = 255)]
    subject: String,
    /// What was done: `account.patched`, `event.replayed`, `event.discarded` or
    /// `entry.reversed`.
    #[schema(max_length = 64, pattern = "^[a-z_.]+$")]
    action: String,
    /// On which account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 128)]
    account_id: Option<String>,
    /// The particulars, by action.
    #[schema(value_type = Object)]
    detail: Value,
    /// Why, in the person's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 1000)]
    note: Option<String>,
}

impl From<AuditView> for AuditJson {
    fn from(view: AuditView) -> Self {
        let audit = view.audit;
        Self {
            id: view.id,
            at: view.at.rfc3339(),
            subject: audit.subject,
            action: audit.action.into_owned(),
            account_id: audit.account_id.map(|id| id.to_string()),
            detail: audit.detail,
            note: audit.note,
        }
    }
}

/// List what people did, newest first
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", operation_id = "listAudit",
    params(AuditParams),
    responses(
        (status = 200, description = "A page of acts", body = Page<AuditJson>),
        QueryProblems,
    )
)]
async fn list_audit(
    State(api): State<Api>,
    caller: Caller,
    Query((ask, filter)): Query<AuditParams>,
) -> Result<Json<Page<AuditJson>>, Problem> {
    let rows = api
        .store
        .audits(&caller.tenant, &filter, ask.after()?, ask.rows())
        .await?;
    Ok(Json(ask.page(
        rows,
        |view| view.id.to_string(),
        AuditJson::from,
    )))
}

/// The query of `GET /v1/audit`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the names and bounds of the parameters; read by `FromQuery`"
)]
struct AuditParams {
    /// Only acts on this account.
    #[param(pattern = "^[A-Za-z0-9._:-]{1,128}$")]
    account_id: Option<String>,
    /// Only acts of this person.
    #[param(min_length = 1, max_length = 255)]
    subject: Option<String>,
    /// Most items on the page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before; carries every filter and the limit.
    #[param(max_length = 4096, pattern = "^[A-Za-z0-9_-]+$")]
    cursor: Option<String>,
}

impl FromQuery for AuditParams {
    type Read = (PageAsk, AuditFilter);

    fn read(fields: Fields) -> Result<Self::Read, Problem> {
        let ask = PageAsk::read("audit", fields, &[])?;
        let filter = AuditFilter {
            account_id: ask.checked("account_id", |id| {
                AccountKey::id_is_valid(id).then(|| id.to_owned())
            })?,
            subject: ask.checked("subject", |text| {
                is_identity_text(text).then(|| text.to_owned())
            })?,
        };
        Ok((ask, filter))
    }
}
