//! A delivery of the broker as the [`envelope`](crate::envelope) reads it.
//!
//! What must not live here: any judgement on what a message says. Headers that
//! can't be read never fail a message.

use lapin::{
    message::Delivery,
    types::{AMQPValue, FieldTable, ShortString},
};

use crate::envelope::{Arrival, Header};

/// What of a delivery counts for reading it.
pub(super) fn arrival(delivery: &Delivery) -> Arrival<'_> {
    let properties = &delivery.properties;
    Arrival {
        body: &delivery.data,
        content_type: properties.content_type().as_ref().map(ShortString::as_str),
        message_id: properties.message_id().as_ref().map(ShortString::as_str),
        message_type: properties.kind().as_ref().map(ShortString::as_str),
        headers: properties.headers().as_ref().map_or_else(Vec::new, headers),
    }
}

/// How often the broker handed it out before without getting it settled; 0 where the
/// queue does not count (only quorum queues do,
/// <https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling>).
pub(super) fn handed_out_before(delivery: &Delivery) -> i64 {
    let headers = delivery.properties.headers().as_ref();
    let count = headers.and_then(|headers| headers.inner().get("x-delivery-count"));
    count.and_then(integer).unwrap_or(0)
}

/// An integer of whatever width.
pub(super) fn integer(value: &AMQPValue) -> Option<i64> {
    match header(value) {
        Header::Integer(number) => Some(number),
        _ => None,
    }
}

fn headers(table: &FieldTable) -> Vec<(String, Header)> {
    table
        .inner()
        .iter()
        .map(|(name, value)| (name.to_string(), header(value)))
        .collect()
}

fn header(value: &AMQPValue) -> Header {
    match value {
        AMQPValue::LongString(text) => text_of(text.as_bytes()),
        AMQPValue::ByteArray(bytes) => text_of(bytes.as_slice()),
        AMQPValue::ShortString(text) => Header::Text(text.to_string()),
        AMQPValue::Boolean(flag) => Header::Flag(*flag),
        AMQPValue::ShortShortInt(n) => Header::Integer((*n).into()),
        AMQPValue::ShortShortUInt(n) => Header::Integer((*n).into()),
        AMQPValue::ShortInt(n) => Header::Integer((*n).into()),
        AMQPValue::ShortUInt(n) => Header::Integer((*n).into()),
        AMQPValue::LongInt(n) => Header::Integer((*n).into()),
        AMQPValue::LongUInt(n) => Header::Integer((*n).into()),
        AMQPValue::LongLongInt(n) => Header::Integer(*n),
        AMQPValue::Float(_)
        | AMQPValue::Double(_)
        | AMQPValue::DecimalValue(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::Timestamp(_)
        | AMQPValue::FieldTable(_)
        | AMQPValue::Void => Header::Unreadable,
    }
}

fn text_of(bytes: &[u8]) -> Header {
    std::str::from_utf8(bytes).map_or(Header::Unreadable, |text| Header::Text(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use lapin::types::ByteArray;

    use super::*;

    #[test]
    fn every_kind_of_header_is_read_or_marked_unreadable() {
        let cases = [
            (AMQPValue::LongString("a".into()), Header::Text("a".into())),
            (AMQPValue::ShortString("b".into()), Header::Text("b".into())),
            (
                AMQPValue::ByteArray(ByteArray::from(b"c".to_vec())),
                Header::Text("c".into()),
            ),
            (
                AMQPValue::ByteArray(ByteArray::from(vec![0xff])),
                Header::Unreadable,
            ),
            (AMQPValue::LongString(vec![0xff].into()), Header::Unreadable),
            (AMQPValue::Boolean(true), Header::Flag(true)),
            (AMQPValue::ShortShortInt(-1), Header::Integer(-1)),
            (AMQPValue::ShortShortUInt(255), Header::Integer(255)),
            (AMQPValue::ShortInt(-2), Header::Integer(-2)),
            (AMQPValue::ShortUInt(65_535), Header::Integer(65_535)),
            (AMQPValue::LongInt(-3), Header::Integer(-3)),
            (
                AMQPValue::LongUInt(u32::MAX),
                Header::Integer(u32::MAX.into()),
            ),
            (AMQPValue::LongLongInt(i64::MIN), Header::Integer(i64::MIN)),
            (AMQPValue::Double(1.5), Header::Unreadable),
            (AMQPValue::Timestamp(5), Header::Unreadable),
            (
                AMQPValue::FieldTable(FieldTable::default()),
                Header::Unreadable,
            ),
            (AMQPValue::Void, Header::Unreadable),
        ];
        for (value, expected) in cases {
            assert_eq!(header(&value), expected, "{value:?}");
        }
    }
}
