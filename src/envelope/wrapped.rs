//! A body inside a body: the plain envelope with an id and a message, and the
//! unwrapping that every format with an inner body shares.
//!
//! What must not live here: headers of frameworks, fields of events.

use std::borrow::Cow;

use super::{
    Arrival,
    fields::Field,
    flaw::Flaw,
    form::{Body, Form, message_id},
    json::{Blemish, DEPTH_MAX, Document, Object, Top, parse_text, text},
};

/// The names under which an envelope says its type.
const TYPE_NAMES: [&str; 3] = ["Type", "EventType", "type"];

/// An envelope with `EventId` or `Id`, and `Message`; `None` where this is none.
pub(super) fn recognise<'a>(arrival: &Arrival<'a>, outer: &'a Object<'a>) -> Option<Form<'a>> {
    let named = |name| outer.given(name).is_some();
    if !named("Message") || !(named("EventId") || named("Id")) {
        return None;
    }
    let body = match outer.get("Message") {
        Some(json) => inside("Message", json).map(Body::Inner),
        None => Err(Flaw::required("Message")),
    };
    let type_name = TYPE_NAMES
        .into_iter()
        .find_map(|name| text(outer.get(name)?));
    Some(Form {
        format: "envelope",
        id_after: own_id(outer).transpose().or_else(|| message_id(arrival)),
        type_name: type_name.or(arrival.message_type.map(Cow::Borrowed)),
        ..Form::new(body)
    })
}

fn own_id<'a>(outer: &'a Object<'_>) -> Result<Option<Cow<'a, str>>, Flaw> {
    let id = |name| Field {
        name,
        json: outer.get(name),
    };
    match id("EventId").id()? {
        None => id("Id").id(),
        found => Ok(found),
    }
}

/// The object that a field holds, or that its text holds: unwrapped once.
pub(super) fn inside<'a>(field: &str, json: &'a str) -> Result<Object<'a>, Flaw> {
    match text(json) {
        Some(Cow::Borrowed(text)) => open(field, text),
        Some(Cow::Owned(text)) => open(field, &text).map(Object::into_owned),
        // Reading the whole message has found the blemishes of its parts.
        None => object(field, json).map(|(object, _)| object),
    }
}

/// The object that a text inside a field is.
pub(super) fn open<'a>(field: &str, text: &'a str) -> Result<Object<'a>, Flaw> {
    match object(field, text)? {
        (object, None) => Ok(object),
        (_, Some(blemish)) => Err(blemish.into()),
    }
}

fn object<'a>(field: &str, json: &'a str) -> Result<(Object<'a>, Option<Blemish>), Flaw> {
    let expected = || format!("`{field}` must be an object, or a text that holds one");
    match parse_text(json, DEPTH_MAX) {
        Ok(Document {
            top: Top::Object(object),
            blemish,
        }) => Ok((object, blemish)),
        Ok(_) => Err(Flaw::invalid(field, "type", expected())),
        Err(error) => {
            let message = format!("{}; it has {error}", expected());
            Err(Flaw::invalid(field, "format", message))
        }
    }
}
