//! What is read of which bytes. What must not live here: code that is shipped.

mod arrays;
mod cloudevents;
mod ids;
mod kept;
mod native;
mod properties;
mod refused;
mod wrapped;

use super::*;

/// A queue named `events` with default settings.
fn queue() -> Origin {
    Origin {
        tenant: "default".into(),
        queue: "onceledger.events".into(),
        source: "events".into(),
        scope: None,
        kind: None,
        body_names_source: false,
        event_bytes_max: 65_536,
    }
}

/// `POST /v1/events`.
fn http() -> Origin {
    Origin {
        queue: "http".into(),
        source: "http".into(),
        body_names_source: true,
        ..queue()
    }
}

/// A message of nothing but a body.
fn bare(body: &str) -> Arrival<'_> {
    Arrival {
        body: body.as_bytes(),
        ..Arrival::default()
    }
}

fn header(name: &str, text: &str) -> (String, Header) {
    (name.to_owned(), Header::Text(text.to_owned()))
}

/// What was read, as one line: format, identity, then what it means.
fn told(arrival: &Arrival<'_>, origin: &Origin) -> String {
    match read(arrival, origin) {
        Ok(reading) => {
            let Event {
                identity, content, ..
            } = &*reading.event;
            let version = content
                .expected_version
                .map(|version| format!("@{version}"));
            let derived = if reading.event.derived {
                " derived"
            } else {
                ""
            };
            format!(
                "{} {}/{}{derived}: {} {} of {}{}",
                reading.format,
                identity.source,
                identity.event_id,
                content.kind.as_str(),
                content.amount,
                content.account_id,
                version.unwrap_or_default(),
            )
        }
        Err(malformed) => refused(&malformed),
    }
}

/// Why it was refused, as one line: reason, field and rule.
fn refused(malformed: &Malformed) -> String {
    let field = malformed.field.as_deref().unwrap_or("-");
    let rule = malformed.rule.unwrap_or("-");
    format!("{} {field} {rule}", malformed.reason.as_str())
}
