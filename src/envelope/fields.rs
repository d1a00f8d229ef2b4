//! The fields of an inner body: where each one stands and what it may hold.
//!
//! What lives here: native names and their stand-ins, kinds, ranges, lengths.
//! What must not: envelopes, headers, the choice between several ids.

use std::{borrow::Cow, sync::Arc};

use super::{
    flaw::Flaw,
    json::{Object, text},
};
use crate::domain::{AccountKey, Currency, Identity, IntegerError, Kind, Timestamp, parse_integer};

/// One field: how the sender named it and the JSON text it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    /// The name that a refusal gives.
    pub(super) name: &'a str,
    /// What stands there; `None` where it is absent or null.
    pub(super) json: Option<&'a str>,
}

/// Where each field of an event stands in an inner body.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    pub(super) event_id: Field<'a>,
    pub(super) source: Field<'a>,
    pub(super) kind: Field<'a>,
    pub(super) account_id: Field<'a>,
    pub(super) amount: Field<'a>,
    pub(super) currency: Field<'a>,
    pub(super) version: Field<'a>,
    pub(super) reference: Field<'a>,
    pub(super) occurred_at: Field<'a>,
    pub(super) metadata: Field<'a>,
}

impl<'a> Fields<'a> {
    /// By the native names, and `id` and `money` where the proper name is absent.
    pub(super) fn native(body: &'a Object<'_>) -> Self {
        let named = |name| Field {
            name,
            json: body.get(name),
        };
        // A null under the proper name is a missing value, not another spelling:
        // what else calls itself `id` there must not become the account.
        let either = |proper, other| match (body.given(proper), body.get(other)) {
            (None, Some(_)) => named(other),
            _ => named(proper),
        };
        Self {
            event_id: named("event_id"),
            source: named("source"),
            kind: named("type"),
            account_id: either("account_id", "id"),
            amount: either("amount", "money"),
            currency: named("currency"),
            version: named("version"),
            reference: named("reference"),
            occurred_at: named("occurred_at"),
            metadata: named("metadata"),
        }
    }
}

impl<'a> Field<'a> {
    /// A text; other kinds are refused.
    pub(super) fn text(self) -> Result<Option<Cow<'a, str>>, Flaw> {
        let read = |json| text(json).ok_or_else(|| self.wrong("type", "must be a text"));
        self.json.map(read).transpose()
    }

    /// A text of 1 to 255 bytes, or a JSON integer as its decimal text.
    pub(super) fn id(self) -> Result<Option<Cow<'a, str>>, Flaw> {
        let id = self.text_or_integer()?;
        id.map(|id| bounded(self.name, id)).transpose()
    }

    /// A text of 1 to 255 bytes.
    pub(super) fn name(self) -> Result<Option<Cow<'a, str>>, Flaw> {
        let name = self.text()?;
        name.map(|name| bounded(self.name, name)).transpose()
    }

    /// The id of an account, which must be there.
    pub(super) fn account_id(self) -> Result<Arc<str>, Flaw> {
        let id = self.text_or_integer()?;
        let id = id.ok_or_else(|| Flaw::required(self.name))?;
        if self.json.is_some_and(|json| json.starts_with('-')) {
            return Err(self.wrong("range", "must not be negative"));
        }
        if !(1..=AccountKey::ID_MAX).contains(&id.len()) {
            return Err(self.wrong("length", "must be 1 to 128 characters long"));
        }
        if !AccountKey::id_is_valid(&id) {
            let allowed = "may hold only `A-Z a-z 0-9 . _ : -`, and be neither `.` nor `..`";
            return Err(self.wrong("format", allowed));
        }
        Ok(id.into())
    }

    /// An integer of at least 1.
    pub(super) fn positive(self) -> Result<Option<i64>, Flaw> {
        let Some(json) = self.json else {
            return Ok(None);
        };
        match integer(json) {
            Ok(number) if number >= 1 => Ok(Some(number)),
            Ok(_) | Err(IntegerError::Range) => {
                Err(self.wrong("range", "must be 1 to 9223372036854775807"))
            }
            Err(IntegerError::Type) => {
                let allowed = "must be an integer, or a text that spells one, without a \
                               fraction, exponent, plus, leading zero or blank";
                Err(self.wrong("type", allowed))
            }
        }
    }

    /// `debit` or `credit`.
    pub(super) fn kind(self) -> Result<Option<Kind>, Flaw> {
        match self.text()?.as_deref() {
            None => Ok(None),
            Some("debit") => Ok(Some(Kind::Debit)),
            Some("credit") => Ok(Some(Kind::Credit)),
            Some(_) => Err(self.wrong("unknown", "must be `debit` or `credit`")),
        }
    }

    /// A currency code.
    pub(super) fn currency(self) -> Result<Option<Currency>, Flaw> {
        let allowed = "must be a capital letter and two to nine capital letters or digits";
        let read = |code: Cow<'_, str>| {
            Currency::parse(&code).ok_or_else(|| self.wrong("format", allowed))
        };
        self.text()?.map(read).transpose()
    }

    /// A text of at most 255 bytes.
    pub(super) fn reference(self) -> Result<Option<Arc<str>>, Flaw> {
        match self.text()? {
            Some(text) if text.len() > Identity::TEXT_MAX => {
                Err(self.wrong("length", "must be at most 255 bytes long"))
            }
            text => Ok(text.map(Arc::from)),
        }
    }

    /// An RFC 3339 time with an offset.
    pub(super) fn time(self) -> Result<Option<Timestamp>, Flaw> {
        let allowed = "must be an RFC 3339 time with an offset, such as 2026-11-30T08:00:00Z";
        let read = |text: Cow<'_, str>| {
            Timestamp::parse(&text).ok_or_else(|| self.wrong("format", allowed))
        };
        self.text()?.map(read).transpose()
    }

    /// An object, kept as the text it came as.
    pub(super) fn object(self) -> Result<Option<Arc<str>>, Flaw> {
        match self.json {
            Some(json) if !json.starts_with('{') => Err(self.wrong("type", "must be an object")),
            json => Ok(json.map(Arc::from)),
        }
    }

    fn text_or_integer(self) -> Result<Option<Cow<'a, str>>, Flaw> {
        let Some(json) = self.json else {
            return Ok(None);
        };
        if json.starts_with('"') {
            return self.text();
        }
        // Ids may be unsigned: one bit more than money has.
        match (parse_integer(json), json.parse::<u64>()) {
            (Ok(_), _) | (Err(IntegerError::Range), Ok(_)) => Ok(Some(Cow::Borrowed(json))),
            (Err(IntegerError::Range), Err(_)) => {
                Err(self.wrong("range", "must fit 64 bits where it is a number"))
            }
            (Err(IntegerError::Type), _) => Err(self.wrong("type", "must be a text or an integer")),
        }
    }

    fn wrong(self, rule: &'static str, allowed: &str) -> Flaw {
        Flaw::invalid(self.name, rule, format!("`{}` {allowed}", self.name))
    }
}

/// An id or a source: 1 to 255 bytes.
pub(super) fn bounded<'a>(name: &str, text: Cow<'a, str>) -> Result<Cow<'a, str>, Flaw> {
    if (1..=Identity::TEXT_MAX).contains(&text.len()) {
        return Ok(text);
    }
    let message = format!("`{name}` must be 1 to 255 bytes long");
    Err(Flaw::invalid(name, "length", message))
}

/// An integer, also where escapes spell the digits of a text.
fn integer(json: &str) -> Result<i64, IntegerError> {
    if !json.contains('\\') {
        return parse_integer(json);
    }
    match text(json) {
        Some(digits) if !digits.starts_with('"') => parse_integer(&digits),
        _ => Err(IntegerError::Type),
    }
}
