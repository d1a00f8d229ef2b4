//! Accounts: open, look, list, change settings. The bodies they read and write
//! are in `account_json.rs`.

use axum::Json;
use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    account_json::{AccountChanges, AccountJson, AccountThen, NewAccount},
    body,
    caller::Caller,
    headers::{IdempotencyKeyParam, IfMatchParam, IfNoneMatchParam, Tags, etag, idempotency_key},
    page::{Page, PageAsk},
    path::AccountPath,
    problem::Problem,
    query::{Fields, FromQuery, Nothing, Query},
    responses::{BodyProblems, QueryProblems},
};
use crate::{
    clock,
    domain::{
        Account, AccountKey, AccountStatus, Answer, Ask, Currency, Identity, OpenRefusal,
        PatchRefusal, Timestamp, Work,
    },
    store::AccountFilter,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(open_account, list_accounts))
        .routes(routes!(get_account, patch_account))
}

/// Open an account
///
/// Its first entry, version 1, is the opening. The same request again answers 200
/// with the account as it is now, so it may be repeated until an answer comes;
/// without an `id`, an `Idempotency-Key` makes it repeatable.
#[utoipa::path(
    post, path = "/v1/accounts", tag = "accounts", operation_id = "openAccount",
    params(IdempotencyKeyParam),
    request_body(content = NewAccount, description = "The account to open"),
    responses(
        (status = 201, description = "Opened by this call", body = AccountJson,
            headers(("Location" = String, description = "Where the account is"),
                    ("ETag" = String, description = "The account's version"))),
        (status = 200, description = "The same had opened it before; the account as it is", body = AccountJson,
            headers(("Location" = String, description = "Where the account is"),
                    ("ETag" = String, description = "The account's version"))),
        (status = 409, description = "account_exists: it was opened otherwise", body = Problem,
            content_type = "application/problem+json"),
        BodyProblems,
    )
)]
async fn open_account(
    State(api): State<Api>,
    caller: Caller,
    Query(()): Query<Nothing>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    body::media_type(&parts.headers, &["application/json"])?;
    let key = idempotency_key(&parts.headers)?;
    let bytes = body::bytes(body, api.limits.body_bytes_max).await?;
    let new = NewAccount::read(&bytes)?;
    let id = match (&new.id, key) {
        (Some(id), _) => id.clone(),
        (None, Some(key)) => id_of_key(&caller.tenant, &key),
        (None, None) => clock::new_id().to_string(),
    };
    let account = AccountKey::new(caller.tenant, id);
    let work = Work {
        account: account.clone(),
        ask: Ask::Open(Box::new(new.opening())),
    };
    match api.lanes.ask(work).await? {
        Answer::Opened { account: now, fresh } => {
            let status = if fresh { StatusCode::CREATED } else { StatusCode::OK };
            let location = format!("/v1/accounts/{}", account.id);
            Ok((status, [(header::LOCATION, location)], shown(&account, &now)).into_response())
        }
        Answer::OpenRefused(OpenRefusal::Exists(now)) => Err(Problem::conflict(
            "account_exists",
            format!(
                "Account {} exists already and was opened with another currency, balance, floor or metadata.",
                account.id
            ),
        )
        .with("account_id", &*account.id)
        .with("account_version", now.version)),
        other => Err(Problem::unexpected(&other)),
    }
}

/// Look at one account, now or as it stood at a version or a moment
///
/// With `version` or `at` the answer is `id`, `currency`, `balance` and `version` only.
#[utoipa::path(
    get, path = "/v1/accounts/{id}", tag = "accounts", operation_id = "getAccount",
    params(
        ("id" = String, Path, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:-]+$",
            description = "The account's id", example = "4711"),
        AccountParams,
        IfNoneMatchParam,
    ),
    responses(
        (status = 200, description = "The account; with `version` or `at` as it stood then", content(
            (super::account_json::AccountOrThen = "application/json")),
            headers(("ETag" = String, description = "The account's version, and after n changes of settings version.n"))),
        (status = 304, description = "The account still has the tag of If-None-Match",
            headers(("ETag" = String, description = "The account's version"))),
        (status = 404, description = "account_not_found or version_not_found", body = Problem,
            content_type = "application/problem+json"),
        QueryProblems,
    )
)]
async fn get_account(
    State(api): State<Api>,
    AccountPath(key): AccountPath,
    Query(moment): Query<AccountParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let account = find(&api, &key).await?;
    if let Some(version) = version(&api, &key, &account, moment).await? {
        let entry = super::history::find(&api, &key, version).await?;
        return Ok(Json(AccountThen::new(&key, &account, &entry)).into_response());
    }
    // A tag that can't be read matches nothing, so the whole account is the answer.
    let unchanged = Tags::read(&headers, &header::IF_NONE_MATCH)
        .ok()
        .flatten()
        .is_some_and(|tags| tags.names(account.tag()));
    if unchanged {
        let tag = [(header::ETAG, etag(account.tag()))];
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    Ok(shown(&key, &account).into_response())
}

/// List accounts, by id
///
/// Every account of the caller's ledger, whatever its status, in the order of their
/// ids.
#[utoipa::path(
    get, path = "/v1/accounts", tag = "accounts", operation_id = "listAccounts",
    params(AccountsParams),
    responses(
        (status = 200, description = "A page of accounts", body = Page<AccountJson>),
        QueryProblems,
    )
)]
async fn list_accounts(
    State(api): State<Api>,
    caller: Caller,
    Query((ask, filter)): Query<AccountsParams>,
) -> Result<Json<Page<AccountJson>>, Problem> {
    let after: Option<String> = ask.after()?;
    let rows = api
        .store
        .accounts(&caller.tenant, &filter, after.as_deref(), ask.rows())
        .await?;
    Ok(Json(ask.page(
        rows,
        |(id, _)| id.to_string(),
        |(id, account)| AccountJson::new(&id, &account),
    )))
}

/// Change an account's settings: status, floor, metadata
///
/// What is left out stays. The version stays too; the tag changes. Open and frozen
/// go over into each other, either into closed at balance 0, and closed is final.
#[utoipa::path(
    patch, path = "/v1/accounts/{id}", tag = "accounts", operation_id = "patchAccount",
    params(
        ("id" = String, Path, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:-]+$",
            description = "The account's id", example = "4711"),
        IfMatchParam,
    ),
    request_body(description = "What to change", content(
        (AccountChanges = "application/json"), (AccountChanges = "application/merge-patch+json"))),
    responses(
        (status = 200, description = "The account as it is now", body = AccountJson,
            headers(("ETag" = String, description = "The account's version and number of changes"))),
        (status = 404, description = "account_not_found", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "account_not_empty: closing needs balance 0; account_closed: closed is final",
            body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "version_conflict: If-Match does not hold; says which tag the account has",
            body = Problem, content_type = "application/problem+json"),
        BodyProblems,
    )
)]
async fn patch_account(
    State(api): State<Api>,
    caller: Caller,
    AccountPath(key): AccountPath,
    Query(()): Query<Nothing>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    body::media_type(
        &parts.headers,
        &["application/json", "application/merge-patch+json"],
    )?;
    let if_match = Tags::read(&parts.headers, &header::IF_MATCH)?.and_then(|tags| tags.strong());
    let bytes = body::bytes(body, api.limits.body_bytes_max).await?;
    let patch = AccountChanges::read(&bytes)?.patch(caller.subject, if_match);
    let work = Work {
        account: key.clone(),
        ask: Ask::Patch(Box::new(patch)),
    };
    match api.lanes.ask(work).await? {
        Answer::Patched(now) => Ok(shown(&key, &now).into_response()),
        Answer::PatchRefused(refusal) => Err(refused(&key, &refusal)),
        other => Err(Problem::unexpected(&other)),
    }
}

/// The account of a path, or 404.
pub(super) async fn find(api: &Api, key: &AccountKey) -> Result<Account, Problem> {
    let account = api.store.account(key).await?;
    account.ok_or_else(|| Problem::account_not_found(&key.id))
}

/// The version that is asked for; `None`: as it stands now.
async fn version(
    api: &Api,
    key: &AccountKey,
    account: &Account,
    moment: Moment,
) -> Result<Option<i64>, Problem> {
    let at = match moment {
        Moment::Now => return Ok(None),
        Moment::Version(version) => return Ok(Some(version)),
        Moment::At(at) => at,
    };
    match api.store.version_at(key, at).await? {
        Some(version) => Ok(Some(version)),
        None => Err(Problem::not_found(
            "version_not_found",
            format!(
                "Account {} was opened at {}, after the moment asked for.",
                key.id,
                account.opened_at.rfc3339()
            ),
        )
        .with("account_id", &*key.id)),
    }
}

/// When an account is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Now,
    Version(i64),
    At(Timestamp),
}

/// The query of `GET /v1/accounts/{id}`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the names and bounds of the parameters; read by `FromQuery`"
)]
struct AccountParams {
    /// The account as it stood at this version.
    #[param(minimum = 1, maximum = 9223372036854775807_i64, example = 4)]
    version: Option<i64>,
    /// The account as it stood at this moment, by `applied_at`: RFC 3339 with an offset,
    /// a `+` in it as `%2B`. Not together with `version`.
    #[param(value_type = Option<String>, format = DateTime, max_length = 40, example = "2026-11-30T08:00:00Z")]
    at: Option<String>,
}

impl FromQuery for AccountParams {
    type Read = Moment;

    fn read(mut fields: Fields) -> Result<Self::Read, Problem> {
        let at = fields.take_moment("at")?;
        match (fields.take_integer("version", 1)?, at) {
            (None, None) => Ok(Moment::Now),
            (Some(version), None) => Ok(Moment::Version(version)),
            (None, Some(at)) => Ok(Moment::At(at)),
            (Some(_), Some(_)) => Err(Problem::invalid(
                "at",
                "conflict",
                "at and version each name a moment. Leave one of them out.",
            )),
        }
    }
}

/// The query of `GET /v1/accounts`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the names and bounds of the parameters; read by `FromQuery`"
)]
struct AccountsParams {
    /// Only accounts in this currency.
    #[param(pattern = "^[A-Z][A-Z0-9]{2,9}$", example = "CNY")]
    currency: Option<String>,
    /// Only accounts of this status.
    #[param(inline)]
    status: Option<super::account_json::StatusJson>,
    /// Only accounts whose id begins so.
    #[param(pattern = "^[A-Za-z0-9._:-]{1,128}$", example = "customer-")]
    prefix: Option<String>,
    /// Most items on the page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before; carries every filter and the limit.
    #[param(max_length = 4096, pattern = "^[A-Za-z0-9_-]+$")]
    cursor: Option<String>,
}

impl FromQuery for AccountsParams {
    type Read = (PageAsk, AccountFilter);

    fn read(fields: Fields) -> Result<Self::Read, Problem> {
        let ask = PageAsk::read("accounts", fields, &[])?;
        let filter = AccountFilter {
            currency: ask.checked("currency", |text| {
                Currency::parse(text).map(|code| code.to_string())
            })?,
            status: ask.checked("status", |text| {
                let status: AccountStatus = text.parse().ok()?;
                (status != AccountStatus::Awaited).then_some(status)
            })?,
            prefix: ask.checked("prefix", |text| {
                // Also `.` and `..` begin ids, though they are none.
                let begins = AccountKey::id_is_valid(text)
                    || !text.is_empty() && AccountKey::id_is_valid(&format!("{text}_"));
                begins.then(|| text.to_owned())
            })?,
        };
        Ok((ask, filter))
    }
}

/// The id of an account that was opened without one, always the same for a key.
fn id_of_key(tenant: &str, key: &str) -> String {
    let digest = Identity::new(tenant, "onceledger.idempotency-key", key).key();
    uuid::Builder::from_custom_bytes(digest.0)
        .into_uuid()
        .to_string()
}

/// An account with its tag.
fn shown(key: &AccountKey, account: &Account) -> impl IntoResponse {
    let tag = [(header::ETAG, etag(account.tag()))];
    (tag, Json(AccountJson::new(&key.id, account)))
}

fn refused(key: &AccountKey, refusal: &PatchRefusal) -> Problem {
    let id = &*key.id;
    match refusal {
        PatchRefusal::NotFound => Problem::account_not_found(id),
        PatchRefusal::Stale(account) => Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "version_conflict",
            format!(
                "Account {id} has the tag \"{}\" now, which If-Match does not name. Nothing was changed; look again.",
                account.tag()
            ),
        )
        .with("account_id", id)
        .with("account_version", account.version)
        .with("etag", format!("\"{}\"", account.tag())),
        PatchRefusal::NotEmpty(account) => Problem::conflict(
            "account_not_empty",
            format!(
                "Account {id} still has a balance of {}; it can be closed at 0 only.",
                account.balance
            ),
        )
        .with("account_id", id)
        .with("account_version", account.version)
        .with("account_balance", account.balance),
        PatchRefusal::Closed(account) => Problem::conflict(
            "account_closed",
            format!("Account {id} is closed, which is final: its settings stay as they are."),
        )
        .with("account_id", id)
        .with("account_version", account.version),
    }
}
