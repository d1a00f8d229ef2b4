//! The broker's dead-letter queue: what is found there, and why it is there.
//!
//! What lives here: reading a message as one of the queue that it comes from, and
//! the letter that keeps it. What must not: whether it is kept, which depends on
//! what became of its event ([`super::session`]).

use std::sync::Arc;

use lapin::{
    message::Delivery,
    types::{AMQPValue, FieldTable},
};
use serde_json::{Value, json};

use super::{
    delivery::{arrival, handed_out_before, integer},
    held::Grave,
};
use crate::{
    domain::{Letter, Reason, Timestamp},
    envelope::{self, Origin},
};

/// A message of this queue that was handed out so often and never settled may kill
/// whoever reads it: it is kept without being read. The queue itself has no limit
/// that would ever take it away. An outage of the database costs a message one
/// delivery, so that few innocent ones get so far; they are kept all the same.
const READ_MAX: i64 = 8;

/// Most bytes of a name or word in `x-death` that are passed on.
const WORD_MAX: usize = 255;

/// Most routing keys of one message that are passed on.
const WORDS_MAX: usize = 16;

/// Seconds from 1970 to the first year that RFC 3339 can't write.
const YEAR_10000: u64 = 253_402_300_800;

/// Reads messages of the dead-letter queue.
#[derive(Clone, Debug)]
pub(super) struct Graveyard {
    /// How messages of the configured queues are read.
    origins: Vec<Origin>,
    /// How a message is read of which no queue is known: for its headers only.
    nowhere: Origin,
}

/// What the broker noted when it set a message aside: the newest entry of `x-death`
/// (<https://www.rabbitmq.com/docs/dlx#effects>).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Death {
    queue: String,
    reason: String,
    count: i64,
    exchange: String,
    routing_keys: Vec<String>,
    /// Seconds since 1970.
    at: Option<u64>,
}

impl Graveyard {
    /// `name` is the dead-letter queue's own, and `tenant` that of messages that name
    /// no configured queue.
    pub(super) fn new(name: &Arc<str>, tenant: &Arc<str>, origins: Vec<Origin>) -> Self {
        let nowhere = Origin {
            tenant: tenant.clone(),
            queue: name.clone(),
            source: name.clone(),
            scope: None,
            kind: None,
            body_names_source: false,
            event_bytes_max: usize::MAX,
        };
        Self { origins, nowhere }
    }

    /// The letter that would keep a message, and the event that it is, where it is one.
    pub(super) fn read(&self, delivery: &Delivery) -> Grave {
        let headers = delivery.properties.headers().as_ref();
        let death = headers.and_then(newest_death);
        let known = death.as_ref().and_then(|death| {
            let mut origins = self.origins.iter();
            origins.find(|origin| *origin.queue == *death.queue)
        });
        let deadly = handed_out_before(delivery) >= READ_MAX;
        let mut detail = detail(death.as_ref(), &delivery.exchange.to_string());
        let origin = match (&death, known) {
            (_, Some(origin)) => origin.clone(),
            (Some(death), None) => Origin {
                queue: death.queue.as_str().into(),
                ..self.nowhere.clone()
            },
            (None, None) => self.nowhere.clone(),
        };
        let letter = |raw, detail| Letter {
            tenant: origin.tenant.clone(),
            reason: match &death {
                Some(death) if death.reason == "delivery_limit" => Reason::DeliveryLimit,
                _ => Reason::DeadLettered,
            },
            detail,
            source: None,
            event_id: None,
            account_id: None,
            event: None,
            raw,
        };
        let arrival = arrival(delivery);
        if known.is_none() || deadly {
            if deadly {
                detail["unread"] = "handed out several times and never settled, so that reading \
                     it may be what ends the service"
                    .into();
            }
            let raw = envelope::keep(&arrival, &origin);
            return Grave {
                letter: letter(Arc::new(raw), detail),
                event: None,
            };
        }
        match envelope::read(&arrival, &origin) {
            Ok(reading) => {
                let event = reading.event;
                let mut letter = letter(reading.raw, detail);
                letter.source = Some(event.identity.source.clone());
                letter.event_id = Some(event.identity.event_id.clone());
                letter.account_id = Some(event.content.account_id.clone());
                Grave {
                    letter,
                    event: Some(event),
                }
            }
            Err(malformed) => {
                let flaw = malformed.letter(origin.tenant.clone());
                detail["flaw"] = flaw.detail;
                detail["flaw"]["reason"] = flaw.reason.as_str().into();
                let mut letter = letter(flaw.raw, detail);
                letter.source = flaw.source;
                letter.event_id = flaw.event_id;
                letter.account_id = flaw.account_id;
                Grave {
                    letter,
                    event: None,
                }
            }
        }
    }
}

/// Why it is here, for a person.
fn detail(death: Option<&Death>, exchange: &str) -> Value {
    let Some(death) = death else {
        return json!({
            "message": "somebody put it into the dead-letter queue: no x-death header says where \
                it comes from",
            "exchange": exchange.replace('\0', "\u{fffd}"),
        });
    };
    let message = match death.reason.as_str() {
        "delivery_limit" => format!(
            "the broker gave up delivering it from queue {}: each time it was handed out, its \
             consumer went away without settling it",
            death.queue
        ),
        reason => format!(
            "the broker set it aside from queue {}: {reason}",
            death.queue
        ),
    };
    let mut detail = json!({
        "message": message,
        "broker_reason": death.reason,
        "queue": death.queue,
        "exchange": death.exchange,
        "routing_keys": death.routing_keys,
        "count": death.count,
    });
    if let Some(at) = death.at.and_then(moment) {
        detail["at"] = at.into();
    }
    detail
}

/// A moment of the broker's clock; none where somebody wrote a number that is no date.
fn moment(seconds: u64) -> Option<String> {
    let micros = i64::try_from(seconds).ok()?.checked_mul(1_000_000)?;
    (seconds < YEAR_10000).then(|| Timestamp(micros).rfc3339())
}

/// The broker puts the newest entry first.
fn newest_death(headers: &FieldTable) -> Option<Death> {
    let AMQPValue::FieldArray(deaths) = headers.inner().get("x-death")? else {
        return None;
    };
    let AMQPValue::FieldTable(newest) = deaths.as_slice().first()? else {
        return None;
    };
    let newest = newest.inner();
    let word = |name: &str| newest.get(name).and_then(word);
    Some(Death {
        queue: word("queue")?,
        reason: word("reason")?,
        count: newest.get("count").and_then(integer).unwrap_or(1),
        exchange: word("exchange").unwrap_or_default(),
        routing_keys: newest.get("routing-keys").map_or_else(Vec::new, words),
        at: match newest.get("time") {
            Some(AMQPValue::Timestamp(seconds)) => Some(*seconds),
            _ => None,
        },
    })
}

/// Text that anybody may have written: readable, short, and without U+0000, which
/// no database keeps.
fn word(value: &AMQPValue) -> Option<String> {
    let text = match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::ShortString(text) => text.to_string(),
        _ => return None,
    };
    let text = text.replace('\0', "\u{fffd}");
    Some(text[..text.floor_char_boundary(WORD_MAX)].to_owned())
}

/// The first few of a list of words.
fn words(value: &AMQPValue) -> Vec<String> {
    match value {
        AMQPValue::FieldArray(values) => {
            let words = values.as_slice().iter().filter_map(word);
            words.take(WORDS_MAX).collect()
        }
        _ => Vec::new(),
    }
}
