//! The headers that a call may carry as conditions and wishes: entity tags,
//! `Idempotency-Key`, `Prefer`.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use utoipa::IntoParams;

use super::problem::Problem;
use crate::domain::{Identity, Tag};

/// `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header).
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `Prefer` (RFC 7240).
pub(super) const PREFER: HeaderName = HeaderName::from_static("prefer");

/// `Preference-Applied` (RFC 7240 section 3).
pub(super) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The parameter `Idempotency-Key`.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
pub(super) struct IdempotencyKeyParam {
    /// Names what is sent: of an event without an id it is the id, and it makes an
    /// opening without an id repeatable. Not with an array.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
}

/// The parameter `If-Match`.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
pub(super) struct IfMatchParam {
    /// Do it only where the account has one of these tags, such as `"4"` or `"4.2"`
    /// (for an event the version counts). Not with an array.
    #[param(
        rename = "If-Match",
        pattern = r#"^(\*|(W/)?"[^"]*"(, *(W/)?"[^"]*")*)$"#
    )]
    if_match: Option<String>,
}

/// The parameter `If-None-Match`.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
pub(super) struct IfNoneMatchParam {
    /// Answer 304 where the account still has one of these tags.
    #[param(rename = "If-None-Match")]
    if_none_match: Option<String>,
}

/// The parameter `Prefer`.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
pub(super) struct PreferParam {
    /// `handling=strict`: refuse with 409 what would have to wait.
    #[param(rename = "Prefer", example = "handling=strict")]
    prefer: Option<String>,
}

/// A list of entity tags (RFC 9110 section 8.8.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tags {
    /// `*`
    Any,
    /// Each with its weakness and its text between the quotes.
    List(Vec<(bool, String)>),
}

impl Tags {
    /// Reads a header that carries tags, in however many lines; `None` where
    /// there is none.
    ///
    /// # Errors
    /// 422, where it is no list of quoted tags.
    pub(super) fn read(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Self>, Problem> {
        let Some(text) = joined(headers, name)? else {
            return Ok(None);
        };
        if text.trim() == "*" {
            return Ok(Some(Self::Any));
        }
        match list(&text) {
            Some(tags) => Ok(Some(Self::List(tags))),
            None => Err(Problem::invalid(
                canonical(name),
                "format",
                format!(
                    "{} must be * or a list of quoted entity tags, such as \"4\" or \"4.2\", as an ETag gave them.",
                    canonical(name)
                ),
            )),
        }
    }

    /// The tags that an account can have, by the strong comparison; `None` for
    /// `*`, which is no condition.
    #[must_use]
    pub(super) fn strong(&self) -> Option<Vec<Tag>> {
        match self {
            Self::Any => None,
            Self::List(tags) => Some(
                tags.iter()
                    .filter(|(weak, _)| !weak)
                    .filter_map(|(_, text)| Tag::parse(text))
                    .collect(),
            ),
        }
    }

    /// Whether a tag is named, by the weak comparison.
    #[must_use]
    pub(super) fn names(&self, tag: Tag) -> bool {
        match self {
            Self::Any => true,
            Self::List(tags) => tags.iter().any(|(_, text)| *text == tag.to_string()),
        }
    }
}

/// `ETag` of an account.
#[must_use]
pub(super) fn etag(tag: Tag) -> HeaderValue {
    HeaderValue::try_from(format!("\"{tag}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// `Idempotency-Key`, with or without the quotes of a structured string.
///
/// # Errors
/// 422, where it is no text of 1 to 255 bytes.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let refuse = |rule, detail: &str| Err(Problem::invalid("Idempotency-Key", rule, detail));
    let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = lines.next() else {
        return Ok(None);
    };
    if lines.next().is_some() {
        return refuse("duplicate_key", "Idempotency-Key stands twice.");
    }
    let Ok(text) = std::str::from_utf8(value.as_bytes()) else {
        return refuse("format", "Idempotency-Key must be UTF-8.");
    };
    let text = text.trim();
    let key = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(text);
    if !(1..=Identity::TEXT_MAX).contains(&key.len()) {
        return refuse("length", "Idempotency-Key must have 1 to 255 bytes.");
    }
    Ok(Some(key.to_owned()))
}

/// Whether the caller wants a refusal where an event would have to wait:
/// `Prefer: handling=strict`. Preferences that are not known are passed over.
#[must_use]
pub(super) fn wants_strict(headers: &HeaderMap) -> bool {
    headers
        .get_all(PREFER)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .filter_map(|preference| preference.split(';').next())
        .filter_map(|preference| preference.split_once('='))
        .any(|(name, value)| {
            name.trim().eq_ignore_ascii_case("handling")
                && value
                    .trim()
                    .trim_matches('"')
                    .eq_ignore_ascii_case("strict")
        })
}

/// All lines of a header as one list.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    let mut whole: Option<String> = None;
    for line in headers.get_all(name) {
        let Ok(line) = std::str::from_utf8(line.as_bytes()) else {
            return Err(Problem::invalid(
                canonical(name),
                "format",
                format!("{} must be readable text.", canonical(name)),
            ));
        };
        whole = Some(match whole {
            Some(before) => format!("{before},{line}"),
            None => line.to_owned(),
        });
    }
    Ok(whole)
}

fn canonical(name: &HeaderName) -> &'static str {
    match *name {
        header::IF_MATCH => "If-Match",
        header::IF_NONE_MATCH => "If-None-Match",
        _ => "header",
    }
}

/// Quoted tags with commas between them; empty places are allowed (RFC 9110
/// section 5.6.1), an empty list is not.
fn list(text: &str) -> Option<Vec<(bool, String)>> {
    let mut tags = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let weak = rest.starts_with("W/");
        let quoted = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (tag, after) = quoted.split_once('"')?;
        tags.push((weak, tag.to_owned()));
        let after = after.trim_start_matches([' ', '\t']);
        if !after.is_empty() && !after.starts_with(',') {
            return None;
        }
        rest = after.trim_start_matches([' ', '\t', ',']);
    }
    (!tags.is_empty()).then_some(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tags_are_read_whole_or_not() {
        let tag = |weak, text: &str| (weak, text.to_owned());
        let check = |text: &str, expected| assert_eq!(list(text), expected, "{text}");
        check("\"4\"", Some(vec![tag(false, "4")]));
        check(
            " \"4.2\" ,, W/\"a,b\"",
            Some(vec![tag(false, "4.2"), tag(true, "a,b")]),
        );
        check("4", None);
        check("\"4", None);
        check("\"4\" \"5\"", None);
        check("", None);
    }

    #[test]
    fn strict_handling_is_found_among_other_wishes() {
        let strict = |line: &'static str| {
            wants_strict(&HeaderMap::from_iter([(
                PREFER,
                HeaderValue::from_static(line),
            )]))
        };
        assert!(strict("handling=strict"));
        assert!(strict("wait=10, Handling = \"strict\"; x=1"));
        assert!(!strict("handling=lenient"));
        assert!(!strict("respond-async"));
    }
}
