//! CloudEvents 1.0, structured (one JSON document) and binary (attributes in the
//! headers, the body is the data).
//!
//! What lives here: recognising them and finding their attributes. What must
//! not: the fields of the data, and batches (each element is read by itself).

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{
    Arrival, Header,
    fields::{Field, bounded},
    flaw::Flaw,
    form::{Body, Form, whole},
    json::{Object, Top, text},
    wrapped::{inside, open},
};

/// How the bindings prefix the attributes: AMQP, AMQP where a colon is not
/// possible, and HTTP. The case of the letters has no say.
const PREFIXES: [&str; 3] = ["cloudEvents:", "cloudEvents_", "ce-"];

/// Types that begin with this are the service's own outcome messages.
const RESERVED_TYPE_PREFIX: &str = "ledger.";

/// A CloudEvent; `None` where this is none.
pub(super) fn recognise<'a>(
    arrival: &'a Arrival<'a>,
    top: &'a Result<Top<'a>, Flaw>,
    object: Option<&'a Object<'a>>,
) -> Option<Form<'a>> {
    if arrival.content_type.is_some_and(is_cloudevents) {
        return Some(match object {
            Some(object) => structured(object),
            None => Form {
                format: "cloudevents-structured",
                ..Form::new(whole(top))
            },
        });
    }
    if let Some(prefix) = binary_prefix(arrival) {
        return Some(binary(arrival, prefix, top));
    }
    let object = object?;
    let named = |name| object.given(name).is_some();
    (named("specversion") && named("id") && named("source")).then(|| structured(object))
}

fn is_cloudevents(content_type: &str) -> bool {
    let head = "application/cloudevents";
    content_type
        .get(..head.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(head))
}

fn structured<'a>(event: &'a Object<'a>) -> Form<'a> {
    let field = |name| Field {
        name,
        json: event.get(name),
    };
    let specversion = field("specversion").text();
    let type_name = field("type").text();
    let flaw = version_flaw(specversion.clone())
        .or_else(|| type_flaw(type_name.as_ref().map(Option::as_deref)));
    Form {
        format: "cloudevents-structured",
        id_before: Some(required("id", field("id").id())),
        source: Some(required("source", field("source").name())),
        type_name: type_name.ok().flatten(),
        time: event.get("time").and_then(text),
        flaw,
        ..Form::new(data(event).map(Body::Inner))
    }
}

/// What the attribute `specversion` of a structured event breaks.
fn version_flaw(version: Result<Option<Cow<'_, str>>, Flaw>) -> Option<Flaw> {
    match required("specversion", version) {
        Ok(version) => (version != "1.0").then(other_version),
        Err(flaw) => Some(flaw),
    }
}

fn other_version() -> Flaw {
    Flaw::invalid("specversion", "unknown", "`specversion` must be `1.0`")
}

/// What the attribute `type` breaks.
fn type_flaw(type_name: Result<Option<&str>, &Flaw>) -> Option<Flaw> {
    match type_name {
        Ok(Some(name)) if name.starts_with(RESERVED_TYPE_PREFIX) => {
            let message = "types that begin with `ledger.` are the service's own";
            Some(Flaw::invalid("type", "reserved", message))
        }
        Ok(_) => None,
        Err(flaw) => Some(flaw.clone()),
    }
}

fn required<T>(name: &str, found: Result<Option<T>, Flaw>) -> Result<T, Flaw> {
    found?.ok_or_else(|| Flaw::required(name))
}

/// The data of a structured event: `data`, or `data_base64`.
fn data<'a>(event: &'a Object<'a>) -> Result<Object<'a>, Flaw> {
    match (event.get("data"), event.get("data_base64")) {
        (Some(json), None) => inside("data", json),
        (None, Some(json)) => decoded(json),
        (None, None) => Err(Flaw::required("data")),
        (Some(_), Some(_)) => {
            let message = "`data` and `data_base64` exclude each other";
            Err(Flaw::invalid("data_base64", "conflict", message))
        }
    }
}

fn decoded(json: &str) -> Result<Object<'static>, Flaw> {
    let name = "data_base64";
    let wrong = |rule, message: &'static str| Flaw::invalid(name, rule, message);
    let letters = text(json).ok_or_else(|| wrong("type", "`data_base64` must be a text"))?;
    let bytes = BASE64_STANDARD
        .decode(letters.as_bytes())
        .map_err(|_| wrong("format", "`data_base64` must be base64 with its padding"))?;
    let body = String::from_utf8(bytes)
        .map_err(|_| wrong("format", "`data_base64` must hold UTF-8 text"))?;
    open(name, &body).map(Object::into_owned)
}

/// The prefix under which the headers carry a `specversion`.
fn binary_prefix<'a>(arrival: &'a Arrival<'_>) -> Option<&'a str> {
    arrival.headers.iter().find_map(|(name, _)| {
        let prefix = prefix_of(name)?;
        let rest = name.get(prefix.len()..)?;
        rest.eq_ignore_ascii_case("specversion").then_some(prefix)
    })
}

/// The part of a header's name that marks it as an attribute.
fn prefix_of(name: &str) -> Option<&str> {
    PREFIXES.into_iter().find_map(|prefix| {
        name.get(..prefix.len())
            .filter(|start| start.eq_ignore_ascii_case(prefix))
    })
}

/// The name of the attribute that a header carries, whatever the prefix.
pub(super) fn attribute(header: &str) -> Option<&str> {
    header.get(prefix_of(header)?.len()..)
}

fn binary<'a>(arrival: &'a Arrival<'a>, prefix: &str, top: &'a Result<Top<'a>, Flaw>) -> Form<'a> {
    let header = |attribute: &str| {
        let named = |name: &str| {
            let (start, rest) = name.split_at_checked(prefix.len()).unwrap_or_default();
            start.eq_ignore_ascii_case(prefix) && rest.eq_ignore_ascii_case(attribute)
        };
        let mut headers = arrival.headers.iter();
        headers
            .find(|(name, _)| named(name))
            .map(|(_, value)| value)
    };
    let plain = |attribute: &str| match header(attribute) {
        Some(Header::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let id = match header("id") {
        Some(Header::Integer(number)) => Ok(Cow::Owned(number.to_string())),
        other => header_text("id", other),
    };
    let version = plain("specversion").filter(|version| *version != "1.0");
    let type_name = plain("type");
    let nul = type_name.filter(|name| name.contains('\0'));
    let flaw = version
        .map(|_| other_version())
        .or_else(|| nul.map(|_| Flaw::nul(Some("type"))))
        .or_else(|| type_flaw(Ok(type_name)));
    let body = match top {
        Ok(Top::Scalar(json)) if json.starts_with('"') => inside("data", json).map(Body::Inner),
        other => whole(other),
    };
    Form {
        format: "cloudevents-binary",
        id_before: Some(id),
        source: Some(header_text("source", header("source"))),
        type_name: type_name.map(Cow::Borrowed),
        time: plain("time").map(Cow::Borrowed),
        flaw,
        ..Form::new(body)
    }
}

/// The text of an identifying attribute in the headers.
fn header_text<'a>(name: &str, header: Option<&'a Header>) -> Result<Cow<'a, str>, Flaw> {
    match header {
        None => Err(Flaw::required(name)),
        Some(Header::Text(text)) if text.contains('\0') => Err(Flaw::nul(Some(name))),
        Some(Header::Text(text)) => bounded(name, Cow::Borrowed(text)),
        Some(_) => {
            let message = format!("the header with the attribute `{name}` must be a text");
            Err(Flaw::invalid(name, "type", message))
        }
    }
}

/// The text of a CloudEvents header as HTTP carries it: its binding encodes what
/// is not printable ASCII as `%XX`. What is no such encoding stays as it is.
#[must_use]
pub fn decode_http_header(value: &str) -> Cow<'_, str> {
    if !value.contains('%') {
        return Cow::Borrowed(value);
    }
    let bytes = value.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let coded = (*byte == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let decoded = coded.and_then(|digits| hex::decode(digits).ok());
        at += if decoded.is_some() { 3 } else { 1 };
        out.extend(decoded.unwrap_or_else(|| vec![*byte]));
    }
    String::from_utf8(out).map_or(Cow::Borrowed(value), Cow::Owned)
}
