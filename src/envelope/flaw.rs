//! Why a message is no event, in the words of the contract.
//!
//! What lives here: the reason, field, rule and sentence of one refusal. What
//! must not: reading anything.

use std::borrow::Cow;

use crate::domain::Reason;

/// Longest field name that is passed on, in bytes: keys come from the sender.
const FIELD_MAX: usize = 255;

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flaw {
    /// [`Reason::Undecodable`] or [`Reason::Invalid`].
    pub(super) reason: Reason,
    /// The field that is wrong, as the sender named it.
    pub(super) field: Option<String>,
    /// Which rule it breaks.
    pub(super) rule: Option<&'static str>,
    /// What is allowed, for a person.
    pub(super) message: Cow<'static, str>,
}

impl Flaw {
    /// The bytes are no JSON document.
    pub(super) fn undecodable(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason: Reason::Undecodable,
            field: None,
            rule: None,
            message: message.into(),
        }
    }

    /// JSON, but this field breaks this rule.
    pub(super) fn invalid(
        field: &str,
        rule: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            field: Some(presentable(field)),
            ..Self::whole(rule, message)
        }
    }

    /// JSON, but the message as a whole breaks this rule.
    pub(super) fn whole(rule: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason: Reason::Invalid,
            field: None,
            rule: Some(rule),
            message: message.into(),
        }
    }

    /// A field that must be there is not.
    pub(super) fn required(field: &str) -> Self {
        Self::invalid(field, "required", format!("`{field}` is required"))
    }

    /// A text that holds U+0000, which no database keeps.
    pub(super) fn nul(field: Option<&str>) -> Self {
        let message = "U+0000 is allowed in no text";
        match field {
            Some(field) => Self::invalid(field, "format", message),
            None => Self::whole("format", message),
        }
    }

    /// A key that stands twice in one object.
    pub(super) fn duplicate_key(key: &str) -> Self {
        let message = "a key may stand only once in an object";
        Self::invalid(key, "duplicate_key", message)
    }
}

/// A sender's key, short and without U+0000, so that it can be kept and shown.
fn presentable(key: &str) -> String {
    let mut end = key.len().min(FIELD_MAX);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    key.get(..end).unwrap_or_default().replace('\0', "\\u0000")
}
