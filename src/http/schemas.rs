//! Schemas that are written by hand: closed lists of codes, and numbers or ids
//! that may also come as text. For the OpenAPI document only.

use strum::IntoEnumIterator;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        KnownFormat, ObjectBuilder, RefOr, SchemaFormat, Type,
        schema::{OneOfBuilder, Schema},
    },
};

use crate::domain::{Reason, Status};

/// The reasons that there are.
pub(super) struct ReasonJson;

/// The statuses of an event that there are.
pub(super) struct EventStatusJson;

/// An integer of 64 bits, also as a string.
pub(super) struct IntegerIn;

/// An integer that may need more than 64 bits.
pub(super) struct WideInteger;

/// A positive integer of 64 bits, also as a string.
pub(super) struct PositiveIn;

/// An account's id as it is sent: text, or an integer.
pub(super) struct IdIn;

/// A text of 1 to 255 bytes, or an integer.
pub(super) struct TextIn;

impl ToSchema for ReasonJson {}
impl ToSchema for EventStatusJson {}
impl ToSchema for IntegerIn {}
impl ToSchema for WideInteger {}
impl ToSchema for PositiveIn {}
impl ToSchema for IdIn {}
impl ToSchema for TextIn {}

impl PartialSchema for ReasonJson {
    fn schema() -> RefOr<Schema> {
        codes(
            Reason::iter().map(Reason::as_str),
            "Why an event did not take effect, or why a message is a dead letter.",
        )
    }
}

impl PartialSchema for EventStatusJson {
    fn schema() -> RefOr<Schema> {
        codes(Status::iter().map(Status::as_str), "Where an event stands.")
    }
}

impl PartialSchema for IntegerIn {
    fn schema() -> RefOr<Schema> {
        either(
            integer(i64::MIN),
            text().pattern(Some("^(0|-?[1-9][0-9]{0,18})$")),
            "An integer of 64 bits, also as a string in plain digits; never a fraction or an exponent.",
        )
    }
}

impl PartialSchema for WideInteger {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .description(Some("An integer that may need more than 64 bits."))
            .into()
    }
}

impl PartialSchema for PositiveIn {
    fn schema() -> RefOr<Schema> {
        either(
            integer(1),
            text().pattern(Some("^[1-9][0-9]{0,18}$")),
            "An integer from 1, of 64 bits, also as a string in plain digits; never a fraction or an exponent.",
        )
    }
}

impl PartialSchema for IdIn {
    fn schema() -> RefOr<Schema> {
        either(
            text().pattern(Some("^[A-Za-z0-9._:-]{1,128}$")),
            integer(0),
            "1 to 128 characters of `A-Z a-z 0-9 . _ : -`, neither `.` nor `..`; an integer is taken as its decimal string.",
        )
    }
}

impl PartialSchema for TextIn {
    fn schema() -> RefOr<Schema> {
        either(
            text().min_length(Some(1)).max_length(Some(255)),
            integer(i64::MIN),
            "1 to 255 bytes of text; an integer is taken as its decimal string.",
        )
    }
}

fn codes(codes: impl Iterator<Item = &'static str>, description: &str) -> RefOr<Schema> {
    text()
        .enum_values(Some(codes))
        .description(Some(description))
        .into()
}

fn either(one: ObjectBuilder, other: ObjectBuilder, description: &str) -> RefOr<Schema> {
    OneOfBuilder::new()
        .item(one)
        .item(other)
        .description(Some(description))
        .into()
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn integer(least: i64) -> ObjectBuilder {
    // JSON numbers in a document may be read as floats: the bound at the far end
    // is the format's own.
    let integer = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)));
    match least {
        i64::MIN => integer,
        least => integer.minimum(Some(least)),
    }
}
