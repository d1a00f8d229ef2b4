//! What the load consists of: each thing sent is a few numbers, from which its
//! bytes, its identity and what must become of it follow. So nothing needs to be
//! kept of it to send exactly the same again.

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use serde_json::{Value, json};

/// What kind of account one is, which says what may happen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    /// Rich, written without versions: nothing is ever refused.
    Plain,
    /// Rich, written with versions and explicit ids.
    Chain,
    /// Rich, written with the bare form: the version is the identity.
    Bare,
    /// Opened long after its first events came.
    Late,
    /// Too poor for any debit that it is sent.
    Poor,
    /// Now rich enough and now not: arrival decides, only the rules are checked.
    Tight,
}

/// An account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    pub(crate) group: Group,
    pub(crate) index: u32,
}

impl Account {
    pub(crate) fn id(self) -> String {
        let group = match self.group {
            Group::Plain => "plain",
            Group::Chain => "chain",
            Group::Bare => "bare",
            Group::Late => "late",
            Group::Poor => "poor",
            Group::Tight => "tight",
        };
        format!("{group}-{}", self.index)
    }

    /// The balance that it is opened with: enough for a week of any load, or too little.
    pub(crate) fn opening(self) -> i64 {
        match self.group {
            Group::Poor => 100,
            Group::Tight => 1_000,
            _ => 1_000_000_000,
        }
    }
}

/// What a message is, beside its account and amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// An event as its account's group has it.
    Event,
    /// In another currency than its account's.
    Foreign,
    /// Cut off in the middle.
    Undecodable,
    /// JSON that breaks a rule.
    Invalid,
    /// Other content under the identity of this earlier one, which was applied.
    Reused(u32),
    /// Another event for the place of this earlier one, which was applied.
    Conflict(u32),
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON with an `event_id`.
    Native,
    /// JSON whose id is the AMQP property `message_id`.
    MessageId,
    /// CloudEvents, one JSON document.
    Structured,
    /// CloudEvents, attributes in the headers.
    Binary,
    /// Over HTTP.
    Http,
}

/// One thing that is sent, any number of times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) kind: Kind,
    pub(crate) account: Account,
    /// What it adds: below 0 a debit.
    pub(crate) amount: i64,
    /// The version that it expects; 0: none.
    pub(crate) version: u32,
    pub(crate) format: Format,
    /// Whether the broker or the service has confirmed that it has it.
    pub(crate) confirmed: bool,
}

/// What must become of a thing that was confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Applied,
    Rejected(&'static str),
    /// Applied, or refused for want of money.
    AppliedOrRefused,
    /// No event of its own: a dead letter.
    Letter(&'static str),
}

/// The source and id of an event.
pub(crate) type Identity = (&'static str, String);

impl Sent {
    pub(crate) fn fate(&self) -> Fate {
        match (self.kind, self.account.group) {
            (Kind::Event, Group::Poor) => Fate::Rejected("insufficient_funds"),
            (Kind::Event, Group::Tight) => Fate::AppliedOrRefused,
            (Kind::Event, _) => Fate::Applied,
            (Kind::Foreign, _) => Fate::Rejected("currency_mismatch"),
            (Kind::Conflict(_), _) => Fate::Rejected("version_conflict"),
            (Kind::Undecodable, _) => Fate::Letter("undecodable"),
            (Kind::Invalid, _) => Fate::Letter("invalid"),
            (Kind::Reused(_), _) => Fate::Letter("event_id_reused"),
        }
    }

    /// Its identity, where it is an event with one of its own.
    pub(crate) fn identity(&self, number: u32) -> Option<Identity> {
        match self.kind {
            Kind::Undecodable | Kind::Invalid | Kind::Reused(_) => None,
            _ if self.is_bare() => {
                let id = format!("{}:v{}", self.account.id(), self.version);
                Some(("events", id))
            }
            _ => Some((self.source(), format!("e{number}"))),
        }
    }

    fn is_bare(&self) -> bool {
        self.account.group == Group::Bare && self.kind == Kind::Event
    }

    fn source(&self) -> &'static str {
        match self.format {
            Format::Native | Format::MessageId => "events",
            Format::Structured | Format::Binary => "/shop",
            Format::Http => "web",
        }
    }

    pub(crate) fn type_name(&self) -> &'static str {
        if self.amount < 0 { "debit" } else { "credit" }
    }

    /// The native form, without an id.
    fn native(&self) -> Value {
        let currency = if self.kind == Kind::Foreign {
            "USD"
        } else {
            "CNY"
        };
        let mut body = json!({
            "type": self.type_name(),
            "account_id": self.account.id(),
            "amount": self.amount.unsigned_abs(),
            "currency": currency,
        });
        if self.version > 0 {
            body["version"] = self.version.into();
        }
        body
    }

    /// What is sent over HTTP: also for a queue's event, under the same identity.
    pub(crate) fn http(&self, number: u32) -> Value {
        let mut body = self.native();
        if let Some((source, id)) = self.identity(number) {
            body["source"] = source.into();
            body["event_id"] = id.into();
        }
        body
    }

    /// What is published. `first`: the thing whose identity it takes, where it does.
    pub(crate) fn publication(
        &self,
        number: u32,
        first: Option<Identity>,
    ) -> (Vec<u8>, BasicProperties) {
        let properties = BasicProperties::default().with_delivery_mode(2);
        match (self.kind, first) {
            (Kind::Undecodable, _) => {
                let body = format!("{{\"event_id\":\"e{number}\",\"amount\":1");
                return (body.into_bytes(), properties);
            }
            (Kind::Invalid, _) => {
                let mut body = self.native();
                body["event_id"] = format!("e{number}").into();
                body["amount"] = 0.into();
                return (body.to_string().into_bytes(), properties);
            }
            (_, Some(identity)) => return self.structured(&identity, number, properties),
            _ => {}
        }
        if self.is_bare() {
            let body = json!({
                "id": self.account.id(),
                "money": self.amount.unsigned_abs(),
                "version": self.version,
            });
            return (body.to_string().into_bytes(), properties);
        }
        let id = format!("e{number}");
        match self.format {
            Format::Native | Format::Http => {
                let mut body = self.native();
                body["event_id"] = id.into();
                (body.to_string().into_bytes(), properties)
            }
            Format::MessageId => {
                let body = self.native().to_string().into_bytes();
                (body, properties.with_message_id(id.into()))
            }
            Format::Structured => self.structured(&(self.source(), id), number, properties),
            Format::Binary => self.binary(&id, properties),
        }
    }

    fn structured(
        &self,
        (source, id): &Identity,
        number: u32,
        properties: BasicProperties,
    ) -> (Vec<u8>, BasicProperties) {
        let mut data = self.native();
        data["reference"] = format!("n{number}").into();
        let body = json!({
            "specversion": "1.0",
            "id": id,
            "source": source,
            "type": "shop.ledger",
            "data": data,
        });
        let content_type = "application/cloudevents+json".into();
        (
            body.to_string().into_bytes(),
            properties.with_content_type(content_type),
        )
    }

    fn binary(&self, id: &str, properties: BasicProperties) -> (Vec<u8>, BasicProperties) {
        let mut headers = FieldTable::default();
        let attributes = [
            ("cloudEvents:specversion", "1.0"),
            ("cloudEvents:id", id),
            ("cloudEvents:source", self.source()),
            ("cloudEvents:type", "shop.ledger"),
        ];
        for (name, value) in attributes {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let properties = properties
            .with_headers(headers)
            .with_content_type("application/json".into());
        (self.native().to_string().into_bytes(), properties)
    }
}
