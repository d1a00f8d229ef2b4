//! Bytes and headers become an event, or a clear word on why they do not.
//!
//! What lives here: recognising a format, finding the identity, the direction
//! and the fields, one file a format family. What must not: I/O, queues, SQL.

use std::sync::Arc;

use crate::domain::{Event, Kind, Raw, Reason};

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
    /// The headers.
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

/// Reads one message.
///
/// # Errors
/// [`Malformed`], with all that could be read.
pub fn read(_arrival: &Arrival<'_>, _origin: &Origin) -> Result<Reading, Box<Malformed>> {
    unimplemented!()
}
