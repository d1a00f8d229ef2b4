//! What every format comes down to: up to two ids, a source, a type and a time
//! outside, and a body inside.
//!
//! What lives here: that one type, and recognising a format. What must not: the
//! particulars of a format (a file each) or of the body (`native`).

use std::borrow::Cow;

use super::{
    Arrival, cloudevents,
    fields::bounded,
    flaw::Flaw,
    json::{Object, Top},
    wrapped,
};

/// A text from outside the body: there, absent, or there and not to be used.
pub(super) type Text<'a> = Option<Result<Cow<'a, str>, Flaw>>;

/// A message taken apart. What is wrong with one part does not hide the others,
/// so that a refusal can still name the event.
#[derive(Debug)]
pub(super) struct Form<'a> {
    /// The name of the format.
    pub(super) format: &'static str,
    /// An id that goes before one inside the body.
    pub(super) id_before: Text<'a>,
    /// An id that serves where the body has none.
    pub(super) id_after: Text<'a>,
    /// The source, where the format names one.
    pub(super) source: Text<'a>,
    /// The envelope's type; its last segment may say the direction.
    pub(super) type_name: Option<Cow<'a, str>>,
    /// When it happened, where the body does not say; unreadable is as absent.
    pub(super) time: Option<Cow<'a, str>>,
    /// What is wrong with the envelope beyond its parts.
    pub(super) flaw: Option<Flaw>,
    /// The body inside.
    pub(super) body: Result<Body<'a>, Flaw>,
}

/// The body inside an envelope.
#[derive(Debug)]
pub(super) enum Body<'a> {
    /// The whole message.
    Whole(&'a Object<'a>),
    /// A part of it.
    Inner(Object<'a>),
}

impl Body<'_> {
    /// Its members.
    pub(super) fn object(&self) -> &Object<'_> {
        match self {
            Self::Whole(object) => object,
            Self::Inner(object) => object,
        }
    }
}

impl<'a> Form<'a> {
    /// A body with nothing around it.
    pub(super) fn new(body: Result<Body<'a>, Flaw>) -> Self {
        Self {
            format: "native",
            id_before: None,
            id_after: None,
            source: None,
            type_name: None,
            time: None,
            flaw: None,
            body,
        }
    }
}

/// Takes a message apart by the first format that it is.
pub(super) fn recognise<'a>(arrival: &'a Arrival<'a>, top: &'a Result<Top<'a>, Flaw>) -> Form<'a> {
    let object = match top {
        Ok(Top::Object(object)) => Some(object),
        _ => None,
    };
    cloudevents::recognise(arrival, top, object)
        .or_else(|| wrapped::recognise(arrival, object?))
        .unwrap_or_else(|| plain(arrival, whole(top)))
}

/// A message without an envelope.
fn plain<'a>(arrival: &Arrival<'a>, body: Result<Body<'a>, Flaw>) -> Form<'a> {
    Form {
        id_after: message_id(arrival),
        type_name: arrival.message_type.map(Cow::Borrowed),
        ..Form::new(body)
    }
}

/// The whole message as a body.
pub(super) fn whole<'a>(top: &'a Result<Top<'a>, Flaw>) -> Result<Body<'a>, Flaw> {
    match top {
        Ok(Top::Object(object)) => Ok(Body::Whole(object)),
        Ok(Top::Array(_) | Top::Scalar(_)) => {
            Err(Flaw::whole("type", "an event must be a JSON object"))
        }
        Err(flaw) => Err(flaw.clone()),
    }
}

/// The AMQP property `message_id`; an empty one is as none.
pub(super) fn message_id<'a>(arrival: &Arrival<'a>) -> Text<'a> {
    let id = arrival.message_id.filter(|id| !id.is_empty())?;
    if id.contains('\0') {
        return Some(Err(Flaw::nul(Some("message_id"))));
    }
    Some(bounded("message_id", Cow::Borrowed(id)))
}
