//! Accounts as JSON: what is read to open or change one, and what is shown.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use validator::Validate;

use super::{
    object::Object,
    page::out_of_bounds,
    path::shown,
    problem::Problem,
    schemas::{IdIn, IntegerIn},
};
use crate::domain::{
    Account, AccountKey, AccountStatus, Currency, IntegerError, Opening, Patch, Record, Tag,
    parse_integer,
};

/// Most bytes of an account's metadata.
const METADATA_BYTES_MAX: usize = 16 << 10;

/// An account to open.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"id": "4711", "currency": "CNY", "opening_balance": 50000, "floor": 0}))]
pub(super) struct NewAccount {
    /// 1 to 128 characters of `A-Z a-z 0-9 . _ : -`; an integer is taken as its
    /// decimal string. Left out: one is made.
    #[schema(value_type = Option<IdIn>)]
    pub(super) id: Option<String>,
    /// ISO 4217 or longer, for other assets.
    #[schema(value_type = String, pattern = "^[A-Z][A-Z0-9]{2,9}$", example = "CNY")]
    currency: Currency,
    /// Minor units; may be negative, but not below the floor.
    #[schema(value_type = Option<IntegerIn>, default = 0)]
    opening_balance: i64,
    /// The lowest balance that a debit may leave; null: no limit.
    #[schema(value_type = Option<IntegerIn>, default = 0)]
    floor: Option<i64>,
    /// Anything that belongs to the account, at most 16 KiB as JSON.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Arc<str>>,
}

/// What to change of an account; what is left out stays.
#[derive(Debug, ToSchema, Validate)]
#[schema(example = json!({"status": "frozen", "note": "asked for by the customer"}))]
pub(super) struct AccountChanges {
    /// The new status.
    #[schema(value_type = Option<StatusJson>)]
    status: Option<AccountStatus>,
    /// The new floor; null: no limit any more. It may be above the balance.
    #[schema(value_type = Option<IntegerIn>)]
    floor: Option<Option<i64>>,
    /// Replaces the metadata whole; null: none any more. At most 16 KiB as JSON.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Option<Arc<str>>>,
    /// Why, for the audit.
    #[validate(length(max = 1000, message = "note must have at most 1000 characters."))]
    #[schema(max_length = 1000)]
    note: Option<String>,
}

/// Whether an account takes events.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StatusJson {
    /// Takes events.
    Open,
    /// Refuses events until it is opened again.
    Frozen,
    /// Refuses events for good.
    Closed,
}

/// An account as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": "4711", "currency": "CNY", "balance": 49500, "version": 2, "status": "open", "floor": 0,
    "metadata": {}, "opened_at": "2026-11-30T08:00:00Z", "updated_at": "2026-11-30T08:00:01Z",
}))]
pub(super) struct AccountJson {
    /// Its id.
    #[schema(min_length = 1, max_length = 128)]
    id: String,
    /// Its currency.
    #[schema(pattern = "^[A-Z][A-Z0-9]{2,9}$")]
    currency: String,
    /// Minor units.
    balance: i64,
    /// 1 after the opening, one more with every entry.
    #[schema(minimum = 1)]
    version: i64,
    /// Whether it takes events.
    status: StatusJson,
    /// The lowest balance that a debit may leave; null: no limit.
    #[schema(required)]
    floor: Option<i64>,
    /// As it was set.
    #[schema(value_type = Object)]
    metadata: Box<RawValue>,
    /// RFC 3339, UTC.
    #[schema(format = DateTime, max_length = 40)]
    opened_at: String,
    /// The last entry or change of settings; RFC 3339, UTC.
    #[schema(format = DateTime, max_length = 40)]
    updated_at: String,
}

/// An account as it stood at a version.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "4711", "currency": "CNY", "balance": 49500, "version": 2}))]
pub(super) struct AccountThen {
    /// Its id.
    #[schema(min_length = 1, max_length = 128)]
    id: String,
    /// Its currency.
    #[schema(pattern = "^[A-Z][A-Z0-9]{2,9}$")]
    currency: String,
    /// The balance after that entry, in minor units.
    balance: i64,
    /// The version asked for.
    #[schema(minimum = 1)]
    version: i64,
}

/// Either, by what was asked for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
pub(super) enum AccountOrThen {
    /// Without `version`.
    Now(AccountJson),
    /// With `version`.
    Then(AccountThen),
}

impl NewAccount {
    /// Reads a body.
    ///
    /// # Errors
    /// 400 or 422, with field and rule.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        let known = ["id", "currency", "opening_balance", "floor", "metadata"];
        let object = Object::read(body, &known)?;
        let Some(currency) = object.text("currency")? else {
            return Err(Problem::invalid(
                "currency",
                "required",
                "An account has a currency.",
            ));
        };
        let Some(currency) = Currency::parse(&currency) else {
            return Err(Problem::invalid(
                "currency",
                "format",
                "currency must be three to ten capitals and digits, the first a capital, such as CNY.",
            ));
        };
        let new = Self {
            id: object.get("id").map(id).transpose()?,
            currency,
            opening_balance: object.integer("opening_balance")?.unwrap_or(0),
            floor: floor(&object)?.unwrap_or(Some(0)),
            metadata: metadata(&object)?.flatten(),
        };
        match new.floor {
            Some(floor) if new.opening_balance < floor => Err(Problem::invalid(
                "opening_balance",
                "range",
                format!(
                    "The opening balance {} is below the floor {floor}. Set a lower floor, or null for none.",
                    new.opening_balance
                ),
            )),
            _ => Ok(new),
        }
    }

    /// What the ledger is asked to do.
    #[must_use]
    pub(super) fn opening(self) -> Opening {
        Opening {
            currency: self.currency,
            balance: self.opening_balance,
            floor: self.floor,
            metadata: self.metadata,
        }
    }
}

impl AccountChanges {
    /// Reads a body.
    ///
    /// # Errors
    /// 400 or 422, with field and rule.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = Object::read(body, &["status", "floor", "metadata", "note"])?;
        let status = match object.text("status")?.as_deref() {
            None if object.has("status") => return Err(no_status()),
            None => None,
            Some("open") => Some(AccountStatus::Open),
            Some("frozen") => Some(AccountStatus::Frozen),
            Some("closed") => Some(AccountStatus::Closed),
            Some(_) => return Err(no_status()),
        };
        let changes = Self {
            status,
            floor: floor(&object)?,
            metadata: metadata(&object)?,
            note: object.text("note")?.map(std::borrow::Cow::into_owned),
        };
        changes
            .validate()
            .map_err(|errors| out_of_bounds(&errors))?;
        Ok(changes)
    }

    /// What the ledger is asked to do.
    #[must_use]
    pub(super) fn patch(self, subject: String, if_match: Option<Vec<Tag>>) -> Patch {
        Patch {
            status: self.status,
            floor: self.floor,
            metadata: self.metadata,
            note: self.note,
            subject,
            if_match,
        }
    }
}

impl AccountJson {
    /// Shows an account.
    #[must_use]
    pub(super) fn new(id: &str, account: &Account) -> Self {
        Self {
            id: id.to_owned(),
            currency: code(account),
            balance: account.balance,
            version: account.version,
            status: match account.status {
                AccountStatus::Awaited | AccountStatus::Open => StatusJson::Open,
                AccountStatus::Frozen => StatusJson::Frozen,
                AccountStatus::Closed => StatusJson::Closed,
            },
            floor: account.floor,
            metadata: raw(account.metadata.as_deref().unwrap_or("{}")),
            opened_at: account.opened_at.rfc3339(),
            updated_at: account.updated_at.rfc3339(),
        }
    }
}

impl AccountThen {
    /// Shows an account as an entry left it.
    #[must_use]
    pub(super) fn new(key: &AccountKey, account: &Account, entry: &Record) -> Self {
        Self {
            id: key.id.to_string(),
            currency: code(account),
            balance: entry.balance_after.unwrap_or_default(),
            version: entry.version.unwrap_or_default(),
        }
    }
}

/// An account's currency; every account that can be seen has one.
pub(super) fn code(account: &Account) -> String {
    account
        .currency
        .as_ref()
        .map(Currency::to_string)
        .unwrap_or_default()
}

/// A JSON text inside a JSON answer, as it came.
pub(super) fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn no_status() -> Problem {
    Problem::invalid("status", "format", "status must be open, frozen or closed.")
}

/// `None`: not there. `Some(None)`: null, no limit.
fn floor(object: &Object<'_>) -> Result<Option<Option<i64>>, Problem> {
    let floor = object.integer("floor")?;
    Ok(object.has("floor").then_some(floor))
}

/// `None`: not there. `Some(None)`: null or empty.
fn metadata(object: &Object<'_>) -> Result<Option<Option<Arc<str>>>, Problem> {
    let Some(json) = object.get("metadata") else {
        return Ok(object.has("metadata").then_some(None));
    };
    if !json.starts_with('{') {
        return Err(Problem::invalid(
            "metadata",
            "type",
            "metadata must be a JSON object, or null.",
        ));
    }
    if json.len() > METADATA_BYTES_MAX {
        return Err(Problem::invalid(
            "metadata",
            "max_bytes",
            format!("metadata must have at most {METADATA_BYTES_MAX} bytes as JSON."),
        ));
    }
    let is_empty = json
        .trim_matches(['{', '}', ' ', '\t', '\r', '\n'])
        .is_empty();
    Ok(Some((!is_empty).then(|| json.into())))
}

/// An account's id: a text, or an integer taken as its decimal string.
fn id(json: &str) -> Result<String, Problem> {
    let id = match crate::envelope::json::text(json) {
        Some(text) => text.into_owned(),
        // As large as an event may name it.
        None if parse_integer(json) != Err(IntegerError::Type) && json.parse::<u64>().is_ok() => {
            json.to_owned()
        }
        None => match parse_integer(json) {
            Ok(_) | Err(IntegerError::Range) => {
                return Err(Problem::invalid(
                    "id",
                    "range",
                    "An id as an integer must be from 0 to 64 bits.",
                ));
            }
            Err(IntegerError::Type) => {
                return Err(Problem::invalid(
                    "id",
                    "type",
                    "id must be a string or an integer.",
                ));
            }
        },
    };
    if AccountKey::id_is_valid(&id) {
        return Ok(id);
    }
    let (rule, must) = if (1..=AccountKey::ID_MAX).contains(&id.len()) {
        (
            "format",
            "be of A-Z a-z 0-9 . _ : - only, and neither . nor ..",
        )
    } else {
        ("length", "have 1 to 128 characters")
    };
    Err(Problem::invalid(
        "id",
        rule,
        format!("id must {must}; {} does not.", shown(&id)),
    ))
}
