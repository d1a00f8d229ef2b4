//! Finds out the type of a queue that somebody else declared, with AMQP alone.
//!
//! The protocol has no question for it. But a declaration that differs from what
//! is there is answered by 406 with the first property that differs, theirs and
//! ours (<https://www.rabbitmq.com/docs/queues#property-equivalence>). So: declare
//! with a type that does not exist, which no broker ever creates, and repeat what
//! else differs until the answer speaks of the type. Measured with RabbitMQ
//! 3.10.8; where the wording is another, the type stays unknown.
//! What must not live here: any conclusion from it.

use lapin::{
    Connection,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable, ShortString},
};

use super::topology::{code, short};

/// A type that no broker knows: if the queue is gone by now, this makes none.
const NO_TYPE: &str = "onceledger-asks-for-the-type";

/// Each round learns one property; there are about fifteen.
const ROUNDS_MAX: usize = 16;

/// The queue's type: `classic`, `quorum`, `stream`. `None`: not to be found out.
pub(super) async fn queue_type(connection: &Connection, name: &str) -> Option<String> {
    let mut options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(NO_TYPE.into()));
    for _ in 0..ROUNDS_MAX {
        let channel = connection.create_channel().await.ok()?;
        let answer = channel
            .queue_declare(short(name).ok()?, options, arguments.clone())
            .await;
        let error = answer.err().filter(|error| code(error) == Some(406))?;
        match difference(&error.to_string())? {
            ("x-queue-type", Theirs::Nothing) => return Some("classic".to_owned()),
            ("x-queue-type", Theirs::Text(kind)) => return Some(kind.to_owned()),
            ("durable", theirs) => options.durable = theirs == Theirs::Text("true"),
            ("auto_delete", theirs) => options.auto_delete = theirs == Theirs::Text("true"),
            (argument, Theirs::Text(value)) => {
                arguments.insert(ShortString::try_new(argument).ok()?, echo(value));
            }
            // We sent nothing but what we learned: this is a loop.
            (_, Theirs::Nothing) => return None,
        }
    }
    None
}

/// What the queue has for a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theirs<'a> {
    Nothing,
    Text(&'a str),
}

/// Reads `inequivalent arg 'x' for queue … but current is none`, `… is 'y'` or
/// `… is the value 'y' of type 'z'`.
fn difference(text: &str) -> Option<(&str, Theirs<'_>)> {
    let (_, rest) = text.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once('\'')?;
    let (_, theirs) = rest.rsplit_once("but current is ")?;
    if theirs.starts_with("none") {
        return Some((argument, Theirs::Nothing));
    }
    let (_, value) = theirs.split_once('\'')?;
    let value = match value.split_once("' of type ") {
        Some((value, _)) => value,
        None => value.rsplit_once('\'')?.0,
    };
    Some((argument, Theirs::Text(value)))
}

/// An argument with the value that the broker named.
fn echo(value: &str) -> AMQPValue {
    match (value, value.parse()) {
        ("true" | "false", _) => AMQPValue::Boolean(value == "true"),
        (_, Ok(number)) => AMQPValue::LongLongInt(number),
        _ => AMQPValue::LongString(value.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_words_are_understood() {
        let cases = [
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'a.c' in vhost '/': received the value 'p' of type 'longstr' but current is none",
                Some(("x-queue-type", Theirs::Nothing)),
            ),
            (
                "inequivalent arg 'x-queue-type' for queue 'a.q' in vhost '/': received 'p' but current is 'quorum'",
                Some(("x-queue-type", Theirs::Text("quorum"))),
            ),
            (
                "inequivalent arg 'x-message-ttl' for queue 'a.cd' in vhost '/': received none but current is the value '60000' of type 'signedint'",
                Some(("x-message-ttl", Theirs::Text("60000"))),
            ),
            (
                "inequivalent arg 'durable' for queue 'a.t' in vhost '/': received 'true' but current is 'false'",
                Some(("durable", Theirs::Text("false"))),
            ),
            (
                "invalid arg 'x-queue-type' for queue 'a.none' in vhost '/': \"unsupported queue type 'p'\"",
                None,
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(difference(text), expected, "{text}");
        }
    }
}
