//! Bytes and headers become an event, or a clear word on why they do not.
//!
//! What lives here: recognising a format, finding the identity, the direction
//! and the fields, one file a format family. What must not: I/O, queues, SQL.
//!
//! In reading order: `scanner` and `json` make a document of the bytes, `form`
//! takes it apart by the format that it is (`cloudevents`, `wrapped`), `fields`
//! reads the body inside, and `native` makes the event of both.

mod array;
mod cloudevents;
mod fields;
mod flaw;
mod form;
pub(crate) mod json;
mod kept;
mod native;
mod scanner;
#[cfg(test)]
mod tests;
mod wrapped;

use std::sync::Arc;

pub use array::{Undecodable, is_array, split_array};
pub use cloudevents::decode_http_header;
pub use kept::{Kept, keep};

use self::{
    flaw::Flaw,
    form::Form,
    json::{DEPTH_MAX, Document, parse},
};
use serde_json::json;

use crate::domain::{Event, Kind, Letter, Raw, Reason};

/// A message as it arrived, from a queue, over HTTP or from a file.
#[derive(Clone, Debug, Default)]
pub struct Arrival<'a> {
    /// The body, byte for byte.
    pub body: &'a [u8],
    /// The content type, where one was given.
    pub content_type: Option<&'a str>,
    /// The AMQP property `message_id`.
    pub message_id: Option<&'a str>,
    /// The AMQP property `type`.
    pub message_type: Option<&'a str>,
    /// The headers; of HTTP only those that belong to the message, never
    /// credentials: they are kept and shown.
    pub headers: Vec<(String, Header)>,
}

/// The value of one header.
#[derive(Clone, Debug, PartialEq)]
pub enum Header {
    /// Text (or bytes that are UTF-8).
    Text(String),
    /// An integer of whatever width.
    Integer(i64),
    /// A flag.
    Flag(bool),
    /// There, but not to be read: null, a nested table, bytes that are not UTF-8.
    Unreadable,
}

/// Where a message comes from, as far as that decides how it is read.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Whose ledger it is for.
    pub tenant: Arc<str>,
    /// What a dead letter names: the queue's name, `http` or `apply`.
    pub queue: Arc<str>,
    /// The source where the message itself has no say.
    pub source: Arc<str>,
    /// Put before the source with a slash: the consumer dimension of the identity.
    pub scope: Option<Arc<str>>,
    /// What a message means where its body and its envelope do not say.
    pub kind: Option<Kind>,
    /// Whether a native body's `source` counts (over HTTP and `apply` it does).
    pub body_names_source: bool,
    /// Most bytes of one message.
    pub event_bytes_max: usize,
}

/// A message that was read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The event.
    pub event: Arc<Event>,
    /// The message as it came.
    pub raw: Arc<Raw>,
    /// Which format it was recognised as: `native`, `cloudevents-structured`, ….
    pub format: &'static str,
}

/// A message that is no event, and why.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// [`Reason::Undecodable`] or [`Reason::Invalid`].
    pub reason: Reason,
    /// The field that is wrong, as the sender named it.
    pub field: Option<String>,
    /// `required`, `type`, `range`, `format`, `length`, `duplicate_key`,
    /// `reserved`, `max_bytes`, `unknown` or `conflict`.
    pub rule: Option<&'static str>,
    /// What is wrong and what is allowed, for a person.
    pub message: String,
    /// The source, as far as it could be read.
    pub source: Option<Arc<str>>,
    /// The event id, as far as it could be read.
    pub event_id: Option<Arc<str>>,
    /// The account, as far as it could be read.
    pub account_id: Option<Arc<str>>,
    /// The message as it came.
    pub raw: Arc<Raw>,
}

impl Malformed {
    /// The dead letter that keeps it.
    #[must_use]
    pub fn letter(self, tenant: Arc<str>) -> Letter {
        let mut detail = json!({"message": self.message});
        if let Some(field) = self.field {
            detail["field"] = field.into();
        }
        if let Some(rule) = self.rule {
            detail["rule"] = rule.into();
        }
        Letter {
            tenant,
            reason: self.reason,
            detail,
            source: self.source,
            event_id: self.event_id,
            account_id: self.account_id,
            event: None,
            raw: self.raw,
        }
    }
}

/// Reads one message.
///
/// # Errors
/// [`Malformed`], with all that could be read.
pub fn read(arrival: &Arrival<'_>, origin: &Origin) -> Result<Reading, Box<Malformed>> {
    let (top, blemish) = match document(arrival.body, origin.event_bytes_max) {
        Ok(document) => (Ok(document.top), document.blemish.map(Flaw::from)),
        Err(flaw) => (Err(flaw), None),
    };
    let form = form::recognise(arrival, &top);
    let event = match blemish {
        Some(flaw) => Err(flaw),
        None => native::event(&form, origin),
    };
    match event {
        Ok(event) => Ok(Reading {
            event: Arc::new(event),
            raw: Arc::new(kept::keep(arrival, origin)),
            format: form.format,
        }),
        Err(flaw) => Err(Box::new(malformed(flaw, &form, arrival, origin))),
    }
}

fn document(body: &[u8], bytes_max: usize) -> Result<Document<'_>, Flaw> {
    if body.len() > bytes_max {
        let message = format!("an event may have at most {bytes_max} bytes");
        return Err(Flaw::whole("max_bytes", message));
    }
    let unreadable = |error| Flaw::undecodable(format!("not readable as JSON: {error}"));
    parse(body, DEPTH_MAX).map_err(unreadable)
}

#[cold]
fn malformed(flaw: Flaw, form: &Form<'_>, arrival: &Arrival<'_>, origin: &Origin) -> Malformed {
    let mut known = native::known(form, origin);
    if flaw.rule == Some("duplicate_key") {
        // Which of the two would count is the sender's secret.
        known.forget(flaw.field.as_deref().unwrap_or_default());
    }
    Malformed {
        reason: flaw.reason,
        field: flaw.field,
        rule: flaw.rule,
        message: flaw.message.into_owned(),
        source: known.source,
        event_id: known.event_id,
        account_id: known.account_id,
        raw: Arc::new(kept::keep(arrival, origin)),
    }
}
