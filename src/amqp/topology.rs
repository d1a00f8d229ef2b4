//! The exchanges and queues of the service: what is declared, and with which
//! arguments.
//!
//! Operators own their queues: what is there is used as it is, and what differs
//! is said. What must not live here: consuming.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lapin::{
    Channel, Connection, Error, ErrorKind, ExchangeKind, Queue,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable, ShortString},
};

use super::inspect;
use crate::config::Config;

/// All of it together has failed if it takes longer; consuming is tried anyway.
const DECLARE_MAX: Duration = Duration::from_secs(30);

/// Deliveries of one message that may fail before the broker sets it aside.
/// Quorum queues have no limit before RabbitMQ 4.0, and drop the message from
/// then on where no dead-letter exchange is set; so both are set
/// (<https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling>).
const DELIVERY_LIMIT: i64 = 20;

/// The dead queue has nowhere to set a message aside, so it must never do so.
const DEAD_DELIVERY_LIMIT: i64 = 1_000_000;

/// What the service declares, and how it looks at what is there.
#[derive(Debug)]
pub(super) struct Topology {
    names: Names,
    /// False: the operator declares everything.
    own: bool,
    /// Other queues that the settings ask to declare.
    others: Vec<Arc<str>>,
    /// What was said last about a queue or exchange, so that it is said once.
    told: Mutex<HashMap<String, String>>,
}

#[derive(Debug)]
struct Names {
    events: String,
    dead: String,
    commands: String,
}

impl Topology {
    pub(super) fn new(config: &Config) -> Self {
        let prefix = &config.amqp_prefix;
        let names = Names {
            events: format!("{prefix}.events"),
            dead: format!("{prefix}.dead"),
            commands: format!("{prefix}.commands"),
        };
        let of_events = config
            .queues
            .iter()
            .find(|queue| *queue.name == *names.events);
        let others = config
            .queues
            .iter()
            .filter(|queue| queue.declare == Some(true) && *queue.name != *names.events)
            .map(|queue| queue.name.clone())
            .collect();
        Self {
            own: of_events.is_none_or(|queue| queue.declare != Some(false)),
            names,
            others,
            told: Mutex::default(),
        }
    }

    /// The broker's dead-letter queue.
    pub(super) fn dead(&self) -> Arc<str> {
        self.names.dead.as_str().into()
    }

    /// Whether exchanges and queues of the service are declared by the service.
    pub(super) fn is_own(&self) -> bool {
        self.own
    }

    /// Declares what the service declares. Nothing of it is fatal: where the
    /// operator allows no declaring, what is there is used.
    pub(super) async fn declare(&self, connection: &Connection) {
        if tokio::time::timeout(DECLARE_MAX, self.declare_all(connection))
            .await
            .is_err()
        {
            tracing::warn!(
                "the broker did not answer in time while exchanges and queues were declared"
            );
        }
    }

    async fn declare_all(&self, connection: &Connection) {
        let names = &self.names;
        if self.own {
            // The dead-letter target first: a target that does not exist loses the
            // message (https://www.rabbitmq.com/docs/dlx#routing).
            self.exchange(connection, &names.dead, ExchangeKind::Fanout)
                .await;
            self.queue(connection, &names.dead, dead_arguments()).await;
            self.bind(connection, &names.dead, &names.dead, "").await;
            self.exchange(connection, &names.events, ExchangeKind::Topic)
                .await;
            self.queue(connection, &names.events, self.arguments())
                .await;
            self.bind(connection, &names.events, &names.events, "#")
                .await;
            // Written to by its name through the default exchange: no binding.
            self.queue(connection, &names.commands, self.arguments())
                .await;
        }
        for name in &self.others {
            self.queue(connection, name, self.arguments()).await;
        }
    }

    /// Makes sure that a queue can be consumed: it is there, or is declared where
    /// that is ours to do. Says once what is remarkable about it.
    ///
    /// # Errors
    /// Why it can't be consumed.
    pub(super) async fn ensure(&self, connection: &Connection, name: &str) -> Result<(), String> {
        let ours = self.own && (name == self.names.events || name == self.names.dead);
        let declared = ours || self.others.iter().any(|other| **other == *name);
        match (passive(connection, name).await, declared) {
            (Ok(_), true) => Ok(()),
            (Ok(_), false) => {
                self.inspect(connection, name).await;
                Ok(())
            }
            (Err(error), true) if code(&error) == Some(404) => {
                // Deleted while we were connected, its binding and perhaps its
                // exchange with it.
                self.declare(connection).await;
                passive(connection, name)
                    .await
                    .map(drop)
                    .map_err(|e| e.to_string())
            }
            (Err(error), _) => Err(error.to_string()),
        }
    }

    /// What a queue of events is declared with.
    fn arguments(&self) -> FieldTable {
        let mut arguments = quorum(DELIVERY_LIMIT);
        // Where the broker puts what went over the limit (https://www.rabbitmq.com/docs/dlx).
        arguments.insert("x-dead-letter-exchange".into(), text(&self.names.dead));
        arguments
    }

    async fn exchange(&self, connection: &Connection, name: &str, kind: ExchangeKind) {
        let declare = async |passive| {
            let options = ExchangeDeclareOptions {
                passive,
                // Survives a restart of the broker, as its bindings must.
                durable: true,
                ..ExchangeDeclareOptions::default()
            };
            let channel = connection.create_channel().await?;
            channel
                .exchange_declare(short(name)?, kind.clone(), options, FieldTable::default())
                .await?;
            close(&channel).await;
            Ok(())
        };
        // Passively first: this needs no right to declare.
        match declare(true).await {
            Err(error) if code(&error) == Some(404) => {}
            Err(error) => return self.tell("exchange", name, Err(error)),
            Ok(()) => {}
        }
        self.tell("exchange", name, declare(false).await);
    }

    async fn queue(&self, connection: &Connection, name: &str, arguments: FieldTable) {
        match passive(connection, name).await {
            Err(error) if code(&error) == Some(404) => {}
            Err(error) => return self.tell("queue", name, Err(error)),
            Ok(_) => {}
        }
        // An equal declaration changes nothing; a different one is answered by 406
        // with the first argument that differs
        // (https://www.rabbitmq.com/docs/queues#property-equivalence). That closes
        // the channel, so each has one of its own.
        let declared = async {
            let channel = connection.create_channel().await?;
            let options = QueueDeclareOptions {
                durable: true,
                ..QueueDeclareOptions::default()
            };
            channel
                .queue_declare(short(name)?, options, arguments)
                .await?;
            close(&channel).await;
            Ok(())
        };
        self.tell("queue", name, declared.await);
    }

    async fn bind(&self, connection: &Connection, queue: &str, exchange: &str, key: &str) {
        let bound = async {
            let channel = connection.create_channel().await?;
            let options = QueueBindOptions::default();
            let arguments = FieldTable::default();
            channel
                .queue_bind(
                    short(queue)?,
                    short(exchange)?,
                    short(key)?,
                    options,
                    arguments,
                )
                .await?;
            close(&channel).await;
            Ok(())
        };
        self.tell("binding", queue, bound.await);
    }

    /// Says once what is remarkable about a queue that somebody else declared.
    /// Asked once in a process's life: each question leaves a line in the
    /// broker's log.
    async fn inspect(&self, connection: &Connection, name: &str) {
        if !self.is_new("type", name, "asked") {
            return;
        }
        let kind = inspect::queue_type(connection, name).await;
        let remark = match kind.as_deref() {
            Some("quorum") | None => return,
            Some(kind) => format!(
                "it is a {kind} queue: the broker sets no limit to deliveries, so a message that \
                 kills the service comes back for ever; a quorum queue with x-delivery-limit and \
                 a dead-letter exchange is safer"
            ),
        };
        tracing::warn!(queue = name, "{remark}");
    }

    /// Warns of what could not be declared as it should be, once.
    fn tell(&self, what: &'static str, name: &str, result: Result<(), Error>) {
        let Err(error) = result else { return };
        let reason = error.to_string();
        if !self.is_new(what, name, &reason) {
            return;
        }
        match code(&error) {
            Some(406) => tracing::warn!(
                what,
                name,
                reason,
                "it is there with other properties than the service would give it; it is used as it is"
            ),
            Some(403) => tracing::warn!(
                what,
                name,
                reason,
                "the broker does not let us declare it; it is used if it is there"
            ),
            _ => tracing::warn!(what, name, reason, "it could not be declared"),
        }
    }

    fn is_new(&self, what: &str, name: &str, remark: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.insert(format!("{what} {name}"), remark.to_owned());
        before.as_deref() != Some(remark)
    }
}

/// Replicated and kept on disk, with a limit of deliveries
/// (<https://www.rabbitmq.com/docs/quorum-queues>).
fn quorum(delivery_limit: i64) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    arguments.insert(
        "x-delivery-limit".into(),
        AMQPValue::LongLongInt(delivery_limit),
    );
    arguments
}

fn dead_arguments() -> FieldTable {
    // No dead-letter exchange: this is where a message stays until it is read.
    quorum(DEAD_DELIVERY_LIMIT)
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Looks whether a queue is there, changing nothing
/// (<https://www.rabbitmq.com/docs/queues#check-if-exists>). On a channel of its
/// own: the answer 404 closes it.
pub(super) async fn passive(connection: &Connection, name: &str) -> Result<Queue, Error> {
    let channel = connection.create_channel().await?;
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let queue = channel
        .queue_declare(short(name)?, options, FieldTable::default())
        .await?;
    close(&channel).await;
    Ok(queue)
}

/// Closes a channel that did its work; one that can't be closed is closed already.
pub(super) async fn close(channel: &Channel) {
    let _ = channel.close(200, "done".into()).await;
}

/// A name as AMQP carries it: at most 255 bytes.
pub(super) fn short(name: &str) -> Result<ShortString, Error> {
    ShortString::try_new(name).map_err(|_| {
        let text = format!("the name {name} is longer than 255 bytes");
        std::io::Error::new(std::io::ErrorKind::InvalidInput, text).into()
    })
}

/// The broker's reply code, where the error is its answer.
pub(super) fn code(error: &Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}
