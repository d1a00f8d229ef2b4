//! The settings become one checked whole.
//!
//! What lives here: each setting's default and what it may be. What must not:
//! where values come from (`layers.rs`), and queues (`queues.rs`).

use std::net::SocketAddr;

use tracing_subscriber::EnvFilter;
use url::Url;
use validator::{Validate, ValidationErrors};

use super::{
    Config, Invalid, Loaded, LogFormat, Purpose, SecretUrl, Sources,
    layers::Layers,
    queues,
    settings::{LATER, SETTINGS},
};

/// Ten years, in seconds: nobody means to wait longer.
const SECS_MAX: u64 = 315_360_000;

/// The settings that are numbers, each with its range.
#[derive(Debug, Validate)]
struct Numbers {
    #[validate(range(min = 1, max = 2_000))]
    prefetch: u64,
    #[validate(range(min = 1, max = 64))]
    lanes: u64,
    #[validate(range(min = 1, max = 5_000))]
    batch_max: u64,
    #[validate(range(min = 0, max = 1_000))]
    batch_linger_ms: u64,
    #[validate(range(min = 1, max = 3_600))]
    sweep_secs: u64,
    #[validate(range(min = 1, max = "SECS_MAX"))]
    park_limit_secs: u64,
    #[validate(range(min = 0, max = "SECS_MAX"))]
    expiry_grace_secs: u64,
    #[validate(range(min = 256, max = 16_777_216))]
    event_bytes_max: u64,
    #[validate(range(min = 256, max = 1_073_741_824))]
    body_bytes_max: u64,
}

/// Reads and checks everything.
pub(super) fn resolve(sources: &Sources, purpose: Purpose) -> Result<Loaded, Invalid> {
    let mut layers = Layers::new(sources);
    let database_url = database_url(&mut layers);
    let amqp_url = amqp_url(&mut layers);
    let numbers = numbers(&mut layers, database_url.starts_with("sqlite:"));
    let http_addr = http_addr(&mut layers);
    let insecure = flag(&mut layers, "insecure");
    let no_migrate = flag(&mut layers, "no_migrate");
    let amqp_prefix = amqp_prefix(&mut layers);
    let queues = queues::resolve(&mut layers, &amqp_prefix, purpose);
    let log = layers.take(
        "log",
        // What the AMQP library says of a closed channel, the service says better.
        "info,lapin=off,sqlx=error".to_owned(),
        |text| EnvFilter::try_new(text).ok().map(|_| text.to_owned()),
        "a level (error, warn, info, debug, trace) or a filter such as \"info,onceledger=debug\" is allowed",
    );
    let log_format = layers.take(
        "log_format",
        LogFormat::Text,
        |text| text.parse().ok(),
        "text or json is allowed",
    );
    if purpose == Purpose::Serve && !http_addr.ip().is_loopback() && !insecure {
        layers.refuse_value(
            "http_addr",
            "only a loopback address such as 127.0.0.1:8080 is allowed, since this version has no \
             API keys and every caller may do everything; --insecure (ONCELEDGER_INSECURE=true) \
             allows any address",
        );
    }
    refuse_later(&mut layers, purpose);

    if !layers.problems.is_empty() {
        return Err(Invalid(layers.problems));
    }
    let place = |key| SETTINGS.iter().position(|setting| setting.key == key);
    layers.shown.sort_by_key(|shown| place(shown.key));
    // The ranges above see to it that every number fits its place.
    let fit = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Loaded {
        config: Config {
            database_url,
            amqp_url,
            http_addr,
            insecure,
            amqp_prefix,
            queues,
            prefetch: u16::try_from(numbers.prefetch).unwrap_or(u16::MAX),
            batch_max: fit(numbers.batch_max),
            batch_linger_ms: numbers.batch_linger_ms,
            lanes: fit(numbers.lanes),
            sweep_secs: numbers.sweep_secs,
            park_limit_secs: numbers.park_limit_secs,
            expiry_grace_secs: numbers.expiry_grace_secs,
            event_bytes_max: fit(numbers.event_bytes_max),
            body_bytes_max: fit(numbers.body_bytes_max),
            migrate: !no_migrate,
            log,
            log_format,
        },
        shown: layers.shown,
        warnings: layers.warnings,
    })
}

fn numbers(layers: &mut Layers<'_>, sqlite: bool) -> Numbers {
    let mut number = |key, default| {
        let read = |text: &str| text.parse().ok();
        layers.take(key, default, read, "a whole number is allowed")
    };
    let numbers = Numbers {
        prefetch: number("prefetch", 2_000),
        // SQLite has one writer: a second lane would only wait for the first.
        lanes: number("lanes", if sqlite { 1 } else { 3 }),
        batch_max: number("batch_max", 500),
        batch_linger_ms: number("batch_linger_ms", 0),
        sweep_secs: number("sweep_secs", 5),
        park_limit_secs: number("park_limit_secs", 86_400),
        expiry_grace_secs: number("expiry_grace_secs", 600),
        event_bytes_max: number("event_bytes_max", 65_536),
        body_bytes_max: number("body_bytes_max", 16_777_216),
    };
    match numbers.validate() {
        Err(errors) => refuse_ranges(layers, &errors),
        Ok(()) if numbers.body_bytes_max < numbers.event_bytes_max => {
            let least = numbers.event_bytes_max;
            let key = match layers.find("body_bytes_max") {
                Some(_) => "body_bytes_max",
                None => "event_bytes_max",
            };
            layers.refuse_value(
                key,
                format!("body_bytes_max must be at least event_bytes_max, which is {least}"),
            );
        }
        Ok(()) => {}
    }
    numbers
}

fn refuse_ranges(layers: &mut Layers<'_>, errors: &ValidationErrors) {
    let errors = errors.field_errors();
    for setting in SETTINGS {
        for error in errors
            .get(setting.key)
            .into_iter()
            .flat_map(|all| all.iter())
        {
            let bound = |name| error.params.get(name).map(ToString::to_string);
            let (min, max) = (bound("min"), bound("max"));
            layers.refuse_value(
                setting.key,
                format!(
                    "a whole number from {} to {} is allowed",
                    min.unwrap_or_default(),
                    max.unwrap_or_default()
                ),
            );
        }
    }
}

fn flag(layers: &mut Layers<'_>, key: &'static str) -> bool {
    let read = |text: &str| match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    };
    layers.take(key, false, read, "true or false is allowed")
}

/// The database's URL. Its scheme chooses the database.
fn database_url(layers: &mut Layers<'_>) -> SecretUrl {
    let default = SecretUrl::new("sqlite://onceledger.db");
    let usable = |text: &str| match text.split_once(':') {
        Some(("sqlite", file)) => !file.trim_start_matches('/').is_empty(),
        Some(("postgres" | "postgresql", rest)) => {
            rest.starts_with("//") && Url::parse(text).is_ok()
        }
        _ => false,
    };
    url(
        layers,
        "database_url",
        usable,
        "postgres://USER:PASSWORD@HOST:PORT/DATABASE or sqlite://FILE is allowed \
         (special characters in a password are percent-encoded)",
    )
    .unwrap_or(default)
}

fn amqp_url(layers: &mut Layers<'_>) -> Option<SecretUrl> {
    let usable = |text: &str| {
        text.parse::<lapin::uri::AMQPUri>().is_ok()
            && Url::parse(text).is_ok_and(|url| url.has_host())
    };
    url(
        layers,
        "amqp_url",
        usable,
        "amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://… is allowed \
         (special characters in a password, and a slash in the vhost, are percent-encoded)",
    )
}

/// Reads a URL and shows it without its password, whether it is usable or not.
fn url(
    layers: &mut Layers<'_>,
    key: &'static str,
    usable: impl Fn(&str) -> bool,
    allowed: &str,
) -> Option<SecretUrl> {
    let Some(found) = layers.find(key) else {
        if key == "database_url" {
            layers.show(key, &"sqlite://onceledger.db", "default");
        }
        return None;
    };
    let url = SecretUrl::new(found.text.trim());
    if usable(&url) {
        layers.show(key, &url, &found.at);
        return Some(url);
    }
    layers.refuse(&found.at, Some(url.to_string()), allowed);
    None
}

fn http_addr(layers: &mut Layers<'_>) -> SocketAddr {
    let read = |text: &str| {
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        numeric.parse().ok()
    };
    layers.take(
        "http_addr",
        SocketAddr::from(([127, 0, 0, 1], 8080)),
        read,
        "an address and a port are allowed, such as 127.0.0.1:8080 or [::1]:8080",
    )
}

fn amqp_prefix(layers: &mut Layers<'_>) -> String {
    let read = |text: &str| {
        let plain = text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b));
        let usable = plain && (1..=200).contains(&text.len()) && !text.starts_with("amq.");
        usable.then(|| text.to_owned())
    };
    layers.take(
        "amqp_prefix",
        "onceledger".to_owned(),
        read,
        "1 to 200 characters of A-Z a-z 0-9 . _ : - are allowed, not beginning with amq. \
         (those names are the broker's)",
    )
}

/// Refuses what this version can't honour yet, where it would have mattered.
fn refuse_later(layers: &mut Layers<'_>, purpose: Purpose) {
    for (key, env, what) in LATER {
        let matters = match purpose {
            Purpose::Serve => true,
            Purpose::Write => *key == "outcomes_exchange",
            Purpose::Look => false,
        };
        if let Some(found) = layers.find_later(key, env)
            && matters
        {
            layers.refuse(&found.at, Some(found.text), *what);
        }
    }
}
