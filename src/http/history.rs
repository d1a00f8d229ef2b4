//! The history of an account: its entries, page by page or one by one.

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    account_json::{code, raw},
    accounts,
    export::{Form, export},
    page::{Page, PageAsk},
    path::{AccountPath, EntryPath},
    problem::Problem,
    query::{Fields, FromQuery, Nothing, Query},
    responses::QueryProblems,
};
use crate::{
    domain::{Account, AccountKey, Kind, Record, Timestamp},
    store::Direction,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_history))
        .routes(routes!(get_entry))
}

/// One entry of an account's history. Fields that do not apply are left out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "version": 2, "expected_version": 1, "type": "debit", "amount": 500, "currency": "CNY",
    "balance_before": 50000, "balance_after": 49500, "event_id": "pay-1001", "source": "http",
    "reference": "order-77", "occurred_at": "2026-11-30T08:00:00Z", "applied_at": "2026-11-30T08:00:01Z",
}))]
pub(super) struct EntryJson {
    /// The version that the entry produced.
    #[schema(minimum = 1)]
    version: i64,
    /// The version that the event wanted to find, where it named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 1)]
    expected_version: Option<i64>,
    /// What it did.
    #[serde(rename = "type")]
    kind: EntryType,
    /// Minor units; of an opening its balance, which may be negative.
    amount: i64,
    /// The account's currency.
    #[schema(pattern = "^[A-Z][A-Z0-9]{2,9}$")]
    currency: String,
    /// The balance before it, in minor units.
    balance_before: i64,
    /// The balance after it, in minor units.
    balance_after: i64,
    /// The id of the event that it is.
    #[schema(max_length = 255)]
    event_id: String,
    /// Who produced that event.
    #[schema(max_length = 255)]
    source: String,
    /// The producer's own reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 255)]
    reference: Option<String>,
    /// When it happened at the producer's; RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime, max_length = 40)]
    occurred_at: Option<String>,
    /// When it took effect; RFC 3339, UTC; never goes back.
    #[schema(format = DateTime, max_length = 40)]
    applied_at: String,
    /// As the event carried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    metadata: Option<Box<RawValue>>,
}

/// What an entry did.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EntryType {
    /// Opened the account.
    Opening,
    /// Took the amount from the balance.
    Debit,
    /// Added the amount to the balance.
    Credit,
}

impl EntryType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Debit => "debit",
            Self::Credit => "credit",
        }
    }
}

impl From<Kind> for EntryType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Opening => Self::Opening,
            Kind::Debit => Self::Debit,
            Kind::Credit => Self::Credit,
        }
    }
}

impl EntryJson {
    /// The columns of the same as CSV.
    pub(super) const COLUMNS: [&str; 13] = [
        "version",
        "expected_version",
        "type",
        "amount",
        "currency",
        "balance_before",
        "balance_after",
        "event_id",
        "source",
        "reference",
        "occurred_at",
        "applied_at",
        "metadata",
    ];

    /// The cells of its columns; empty where one does not apply.
    pub(super) fn cells(&self) -> [String; 13] {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        [
            self.version.to_string(),
            self.expected_version
                .map(|it| it.to_string())
                .unwrap_or_default(),
            self.kind.as_str().to_owned(),
            self.amount.to_string(),
            self.currency.clone(),
            self.balance_before.to_string(),
            self.balance_after.to_string(),
            self.event_id.clone(),
            self.source.clone(),
            text(&self.reference),
            text(&self.occurred_at),
            self.applied_at.clone(),
            self.metadata
                .as_ref()
                .map(|json| json.get().to_owned())
                .unwrap_or_default(),
        ]
    }

    pub(super) fn new(account: &Account, record: Record) -> Self {
        let event = &record.event;
        let amount = event.content.amount;
        let balance_after = record.balance_after.unwrap_or_default();
        Self {
            version: record.version.unwrap_or_default(),
            expected_version: event.content.expected_version,
            kind: event.content.kind.into(),
            amount,
            currency: code(account),
            balance_before: match event.content.kind {
                Kind::Opening => 0,
                Kind::Debit => balance_after.saturating_add(amount),
                Kind::Credit => balance_after.saturating_sub(amount),
            },
            balance_after,
            event_id: event.identity.event_id.to_string(),
            source: event.identity.source.to_string(),
            reference: event.reference.as_deref().map(str::to_owned),
            occurred_at: event.occurred_at.map(Timestamp::rfc3339),
            applied_at: record.decided_at.rfc3339(),
            metadata: event.metadata.as_deref().map(raw),
        }
    }
}

/// Page through an account's history, newest first, or take it whole
///
/// Without a hole: each entry's version is one more than that of the entry before
/// it, and its `balance_before` is the `balance_after` of that entry.
///
/// With `Accept: text/csv` or `application/x-ndjson` the answer is a stream of all
/// entries up to the account's version at that moment. It is whole where the transfer
/// ends as HTTP says it should; one that breaks off is to be taken again.
#[utoipa::path(
    get, path = "/v1/accounts/{id}/history", tag = "accounts", operation_id = "listHistory",
    params(
        ("id" = String, Path, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:-]+$",
            description = "The account's id", example = "4711"),
        HistoryParams,
    ),
    responses(
        (status = 200, description = "A page of entries, or all of them", content(
            (Page<EntryJson> = "application/json"), (String = "text/csv"), (String = "application/x-ndjson"))),
        (status = 404, description = "account_not_found", body = Problem,
            content_type = "application/problem+json"),
        QueryProblems,
    )
)]
async fn list_history(
    State(api): State<Api>,
    AccountPath(key): AccountPath,
    Query(fields): Query<HistoryParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = Form::wanted(&headers);
    if form.is_some() {
        whole(&fields)?;
    }
    let ask = PageAsk::read(
        &format!("history of {}", key.id),
        fields,
        &[("order", "desc")],
    )?;
    let direction = ask.checked("order", |text| match text {
        "asc" => Some(Direction::Ascending),
        "desc" => Some(Direction::Descending),
        _ => None,
    })?;
    let direction = direction.unwrap_or(Direction::Descending);
    let account = accounts::find(&api, &key).await?;
    if let Some(form) = form {
        return Ok(export(api, key, account, direction, form));
    }
    let rows = api
        .store
        .history(&key, ask.after()?, direction, ask.rows())
        .await?;
    Ok(Json(ask.page(
        rows,
        |record| record.version.unwrap_or_default().to_string(),
        |record| EntryJson::new(&account, record),
    ))
    .into_response())
}

/// A whole history has no pages.
fn whole(fields: &Fields) -> Result<(), Problem> {
    match ["limit", "cursor"]
        .iter()
        .find(|name| fields.0.contains_key(**name))
    {
        Some(name) => Err(Problem::invalid(
            name,
            "conflict",
            format!(
                "CSV and NDJSON hold the whole history. Leave {name} out, or accept application/json."
            ),
        )),
        None => Ok(()),
    }
}

/// One entry of an account's history
///
/// The opening is version 1; an entry never changes.
#[utoipa::path(
    get, path = "/v1/accounts/{id}/history/{version}", tag = "accounts", operation_id = "getEntry",
    params(
        ("id" = String, Path, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:-]+$",
            description = "The account's id", example = "4711"),
        ("version" = i64, Path, minimum = 1, description = "The version that the entry produced", example = 2),
    ),
    responses(
        (status = 200, description = "The entry", body = EntryJson),
        (status = 404, description = "account_not_found or version_not_found", body = Problem,
            content_type = "application/problem+json"),
        QueryProblems,
    )
)]
async fn get_entry(
    State(api): State<Api>,
    EntryPath(key, version): EntryPath,
    Query(()): Query<Nothing>,
) -> Result<Json<EntryJson>, Problem> {
    let account = accounts::find(&api, &key).await?;
    let record = find(&api, &key, version).await?;
    Ok(Json(EntryJson::new(&account, record)))
}

/// The entry that produced a version of an account that exists, or 404.
pub(super) async fn find(api: &Api, key: &AccountKey, version: i64) -> Result<Record, Problem> {
    api.store.entry(key, version).await?.ok_or_else(|| {
        Problem::not_found(
            "version_not_found",
            format!("Account {} has no version {version} yet.", key.id),
        )
        .with("account_id", &*key.id)
    })
}

/// The query of the history.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the names and bounds of the parameters; read by `FromQuery`"
)]
struct HistoryParams {
    /// `desc`: newest first; `asc`: oldest first.
    #[param(inline)]
    order: Option<Order>,
    /// Most items on the page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before; carries the order and the limit.
    #[param(max_length = 4096, pattern = "^[A-Za-z0-9_-]+$")]
    cursor: Option<String>,
}

/// Which way the history is read.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
enum Order {
    Asc,
    Desc,
}

impl FromQuery for HistoryParams {
    type Read = Fields;

    fn read(fields: Fields) -> Result<Fields, Problem> {
        Ok(fields)
    }
}
