//! The history of an account: its entries, page by page or one by one.

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, accounts,
    entry_json::EntryJson,
    export::{Form, export},
    page::{Page, PageAsk},
    path::{AccountPath, EntryPath},
    problem::Problem,
    query::{Fields, FromQuery, Nothing, Query},
    responses::QueryProblems,
};
use crate::{
    domain::{AccountKey, Record},
    store::Direction,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_history))
        .routes(routes!(get_entry))
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
    let page = ask.page(
        rows,
        |record| record.version.unwrap_or_default().to_string(),
        |record| record,
    );
    let items = EntryJson::all(&api, &account, page.items).await?;
    let next_cursor = page.next_cursor;
    Ok(Json(Page { items, next_cursor }).into_response())
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
    let entries = EntryJson::all(&api, &account, vec![record]).await?;
    entries
        .into_iter()
        .next()
        .map(Json)
        .ok_or_else(Problem::bug)
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
