//! A message as it is kept: body, headers and marks, and the way back.
//!
//! What lives here: the JSON text of the headers and reading it again for a
//! replay. What must not: deciding what a header means.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Arrival, Header, Origin, cloudevents};
use crate::domain::Raw;

/// The headers under which frameworks carry the id of a message.
const ID_HEADERS: [&str; 5] = [
    "cap-msg-id",
    "MT-OriginalMessageId",
    "NServiceBus.MessageId",
    "ID",
    "id",
];

/// The CloudEvents attributes that tell one message from another.
const ID_ATTRIBUTES: [&str; 3] = ["id", "source", "type"];

/// Keeps a message byte for byte, without reading it.
#[must_use]
pub fn keep(arrival: &Arrival<'_>, origin: &Origin) -> Raw {
    Raw {
        queue: origin.queue.clone(),
        body: arrival.body.to_vec(),
        headers: headers(arrival).into(),
        marks: marks(arrival).into(),
    }
}

/// Properties and headers as one JSON object; what could not be read is null.
fn headers(arrival: &Arrival<'_>) -> String {
    let mut members = Members::default();
    for (name, property) in properties(arrival) {
        members.add(name, &quoted(property));
    }
    if !arrival.headers.is_empty() {
        members.add("headers", &header_object(&arrival.headers));
    }
    members.close()
}

fn properties<'a>(arrival: &Arrival<'a>) -> impl Iterator<Item = (&'static str, &'a str)> {
    [
        ("content_type", arrival.content_type),
        ("message_id", arrival.message_id),
        ("type", arrival.message_type),
    ]
    .into_iter()
    .filter_map(|(name, property)| Some((name, property?)))
}

/// Of a name that stands twice the first counts, as in reading.
fn header_object(headers: &[(String, Header)]) -> String {
    let mut members = Members::default();
    let mut seen = HashSet::with_capacity(headers.len());
    for (name, value) in headers {
        if seen.insert(name.as_str()) {
            members.add(name, &header_json(value));
        }
    }
    members.close()
}

fn header_json(value: &Header) -> String {
    match value {
        Header::Text(text) => quoted(text),
        Header::Integer(number) => number.to_string(),
        Header::Flag(flag) => flag.to_string(),
        Header::Unreadable => "null".to_owned(),
    }
}

/// What identifies the message beside its body: each value quoted, so that no
/// two lists of marks are the same text. Trace headers are none.
fn marks(arrival: &Arrival<'_>) -> String {
    let mut marks = String::new();
    let mut mark = |name: &str, value: &str| {
        marks.push_str(name);
        marks.push('=');
        marks.push_str(value);
        marks.push(';');
    };
    for (name, property) in properties(arrival) {
        if name != "content_type" {
            mark(name, &quoted(property));
        }
    }
    for (name, value) in &arrival.headers {
        let attribute = cloudevents::attribute(name).and_then(|attribute| {
            let is = |known: &&str| attribute.eq_ignore_ascii_case(known);
            ID_ATTRIBUTES.into_iter().find(is)
        });
        if let Some(attribute) = attribute {
            mark(&format!("ce-{attribute}"), &header_json(value));
        } else if ID_HEADERS.contains(&name.as_str()) {
            mark(name, &header_json(value));
        }
    }
    marks
}

/// A JSON object in the making.
#[derive(Default)]
struct Members(String);

impl Members {
    fn add(&mut self, name: &str, json: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&quoted(name));
        self.0.push(':');
        self.0.push_str(json);
    }

    fn close(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0.push('}');
        self.0
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The properties and headers of a kept message, for reading it again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    content_type: Option<String>,
    message_id: Option<String>,
    message_type: Option<String>,
    headers: Vec<(String, Header)>,
}

impl Kept {
    /// What was kept of a message; what is no such text is as nothing kept.
    #[must_use]
    pub fn of(raw: &Raw) -> Self {
        let mut kept: Map<String, Value> = serde_json::from_str(&raw.headers).unwrap_or_default();
        let mut property = |name| match kept.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let content_type = property("content_type");
        let message_id = property("message_id");
        let message_type = property("type");
        let headers = match kept.remove("headers") {
            Some(Value::Object(headers)) => headers,
            _ => Map::new(),
        };
        Self {
            content_type,
            message_id,
            message_type,
            headers: headers.into_iter().map(header).collect(),
        }
    }

    /// The message again, with its own body or a corrected one.
    #[must_use]
    pub fn arrival<'a>(&'a self, body: &'a [u8]) -> Arrival<'a> {
        Arrival {
            body,
            content_type: self.content_type.as_deref(),
            message_id: self.message_id.as_deref(),
            message_type: self.message_type.as_deref(),
            headers: self.headers.clone(),
        }
    }
}

fn header((name, value): (String, Value)) -> (String, Header) {
    let value = match value {
        Value::String(text) => Header::Text(text),
        Value::Bool(flag) => Header::Flag(flag),
        Value::Number(number) => number.as_i64().map_or(Header::Unreadable, Header::Integer),
        _ => Header::Unreadable,
    };
    (name, value)
}
