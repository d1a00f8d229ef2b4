//! A connection to the broker that somebody looks after: connected under a time
//! limit, watched, and made anew for ever, with growing delays.
//!
//! Consuming and publishing each have one of their own: while the broker holds a
//! publisher back it reads nothing from that connection, acks included
//! (<https://www.rabbitmq.com/docs/alarms#client-connections>). lapin's own
//! recovery stays off: it gives up after sixteen attempts, and its recovered
//! channels hide that old delivery tags are void.
//! What must not live here: channels, and what is done with them.

use std::{sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::StreamExt;
use lapin::{
    Connection, ConnectionProperties, Event,
    uri::{AMQPScheme, AMQPUri},
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    status::{ConnectionState, Status},
    topology::Topology,
};

/// A connect that takes longer has failed: a broker that accepts and then says
/// nothing must not hold the loop up.
const CONNECT_MAX: Duration = Duration::from_secs(15);

/// The pages recommend 5 to 20 s (<https://www.rabbitmq.com/docs/heartbeats>).
const HEARTBEAT_SECS: u16 = 20;

/// A connection that stood this long was a good one: the next delay is short.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// How often the state is looked at beside the events.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long those who use the connection have to let go of it at the end.
const RELEASE_MAX: Duration = Duration::from_secs(9);

/// The way to a supervised connection. The supervisor ends, when told to stop,
/// only after every clone was dropped.
#[derive(Clone, Debug)]
pub(super) struct Link {
    current: watch::Receiver<Option<Arc<Connection>>>,
}

impl Link {
    /// The connection, waiting while it is away. `None`: nobody makes one any more.
    pub(super) async fn up(&mut self) -> Option<Arc<Connection>> {
        loop {
            let current = self.current.borrow_and_update().clone();
            match current {
                Some(connection) if connection.status().connected() => return Some(connection),
                _ => self.current.changed().await.ok()?,
            }
        }
    }

    /// The connection, where it stands right now.
    pub(super) fn now(&self) -> Option<Arc<Connection>> {
        let current = self.current.borrow().clone();
        current.filter(|connection| connection.status().connected())
    }
}

/// Looks after one connection.
pub(super) struct Supervisor {
    /// `consume` or `publish`.
    pub(super) purpose: &'static str,
    /// Where to.
    pub(super) uri: AMQPUri,
    /// What to declare on each new connection before anybody uses it.
    pub(super) topology: Option<Arc<Topology>>,
    /// Where its state is told.
    pub(super) status: Status,
}

impl Supervisor {
    /// The link, and the task that keeps it up until told to stop.
    pub(super) fn start(self, stop: CancellationToken) -> (Link, impl Future<Output = ()> + Send) {
        let (sender, current) = watch::channel(None);
        (Link { current }, self.run(sender, stop))
    }

    async fn run(self, sender: watch::Sender<Option<Arc<Connection>>>, stop: CancellationToken) {
        let mut delays = delays();
        loop {
            let why = match stop.run_until_cancelled(self.connect()).await {
                None => return,
                Some(Err(why)) => why,
                Some(Ok(connection)) => {
                    self.status
                        .set_connection(self.purpose, ConnectionState::Up);
                    sender.send_replace(Some(connection.clone()));
                    let up_since = Instant::now();
                    let Some(why) = self.watch(&connection, &stop).await else {
                        release(connection, &sender).await;
                        return;
                    };
                    sender.send_replace(None);
                    if up_since.elapsed() > STABLE_AFTER {
                        delays = self::delays();
                    }
                    why
                }
            };
            self.status
                .set_connection(self.purpose, ConnectionState::Away(why));
            let delay = delays.next().unwrap_or(STABLE_AFTER);
            if stop
                .run_until_cancelled(tokio::time::sleep(delay))
                .await
                .is_none()
            {
                return;
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Connection>, String> {
        // The name is what an operator sees in the list of connections
        // (https://www.rabbitmq.com/docs/connections#client-provided-names).
        let properties = ConnectionProperties::default()
            .with_connection_name(format!("onceledger {}", self.purpose).into());
        let connecting = Connection::connect_uri(self.uri.clone(), properties);
        let connection = match tokio::time::timeout(CONNECT_MAX, connecting).await {
            Ok(Ok(connection)) => Arc::new(connection),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no answer within {} s", CONNECT_MAX.as_secs())),
        };
        if let Some(topology) = &self.topology {
            topology.declare(&connection).await;
        }
        Ok(connection)
    }

    /// Waits for the connection's end and says why; `None`: told to stop.
    async fn watch(&self, connection: &Connection, stop: &CancellationToken) -> Option<String> {
        let mut events = Box::pin(connection.events_listener());
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut last_error = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return None,
                _ = look.tick() => {
                    if !connection.status().connected() {
                        return Some(last_error.unwrap_or_else(|| "the connection was closed".to_owned()));
                    }
                }
                event = events.next() => match event {
                    Some(Event::ConnectionBlocked(reason)) => self
                        .status
                        .set_connection(self.purpose, ConnectionState::Blocked(reason)),
                    Some(Event::ConnectionUnblocked) => self
                        .status
                        .set_connection(self.purpose, ConnectionState::Up),
                    Some(Event::Error(error)) => {
                        // A channel's error also comes this way; only the
                        // connection's state tells whether it still stands.
                        last_error = Some(error.to_string());
                        look.reset_immediately();
                    }
                    Some(_) => {}
                    None => return Some("the connection was closed".to_owned()),
                },
            }
        }
    }
}

/// Waits until everybody has let go of the connection, then closes it.
async fn release(connection: Arc<Connection>, sender: &watch::Sender<Option<Arc<Connection>>>) {
    let _ = tokio::time::timeout(RELEASE_MAX, sender.closed()).await;
    let closing = connection.close(200, "the service is stopping".into());
    // A broker that does not answer any more finds out by itself.
    let _ = tokio::time::timeout(Duration::from_millis(500), closing).await;
}

/// Delays between attempts: a quarter of a second, growing to ten, with jitter,
/// without a last one.
fn delays() -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(10))
        .without_max_times()
        .with_jitter()
        .build()
}

/// Reads `amqp://` or `amqps://`. TLS is rustls with the platform's and the web's
/// roots; its crypto provider is installed by the program's start.
///
/// # Errors
/// What is wrong with the address, without its password.
pub fn parse(url: &str) -> Result<AMQPUri, String> {
    let mut uri: AMQPUri = url.parse()?;
    let parsed = url::Url::parse(url).map_err(|error| error.to_string())?;
    if let Some(url::Host::Ipv6(address)) = parsed.host() {
        // The parser of lapin takes only names and IPv4, and would fall back to
        // localhost without a word.
        uri.authority.host = address.to_string();
    }
    uri.query.heartbeat.get_or_insert(HEARTBEAT_SECS);
    for (what, text) in [
        ("user name", &uri.authority.userinfo.username),
        ("vhost", &uri.vhost),
    ] {
        if text.len() > 255 {
            return Err(format!("the {what} is longer than 255 bytes"));
        }
    }
    Ok(uri)
}

/// Where an address leads, without credentials, for logs.
pub(super) fn place(uri: &AMQPUri) -> String {
    let scheme = match uri.scheme {
        AMQPScheme::AMQP => "amqp",
        AMQPScheme::AMQPS => "amqps",
    };
    let authority = &uri.authority;
    format!(
        "{scheme}://{}:{}/{}",
        authority.host, authority.port, uri.vhost
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_a_sane_heartbeat_and_shown_without_its_password() {
        let uri = parse("amqp://guest:secret@127.0.0.1:5672/%2f").unwrap();
        assert_eq!(uri.query.heartbeat, Some(20));
        assert_eq!(place(&uri), "amqp://127.0.0.1:5672//");
        let uri = parse("amqps://u:p@broker/vh?heartbeat=5").unwrap();
        assert_eq!(uri.query.heartbeat, Some(5));
        assert_eq!(place(&uri), "amqps://broker:5671/vh");
    }

    #[test]
    fn an_ipv6_address_is_not_taken_for_localhost() {
        assert_eq!(parse("amqp://[::1]:5672/x").unwrap().authority.host, "::1");
    }

    #[test]
    fn another_scheme_is_refused() {
        assert!(parse("http://localhost").is_err());
    }
}
