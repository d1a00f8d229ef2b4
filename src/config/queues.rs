//! Which queues are consumed, and what is known of each.
//!
//! `queues` (`source=queue, …`) says which, where it is given; the `[[queue]]`
//! entries of the file give the details, and without `queues` they also say
//! which. Without either it is the service's own queue.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Purpose, QueueConfig,
    file::QueueEntry,
    layers::{Found, Layers},
    settings::OUTCOMES_LATER,
};
use crate::domain::{DEFAULT_TENANT, Identity, Kind};

/// Longest queue name, in bytes (AMQP 0-9-1, short strings).
const NAME_MAX: usize = 255;

/// Longest tenant, in bytes.
const TENANT_MAX: usize = 128;

/// One queue with the name under which people find it in their settings.
struct Named {
    at: String,
    /// The same for those of its keys that the file gives.
    keys: BTreeMap<String, String>,
    config: QueueConfig,
}

impl Named {
    fn at(&self, key: &str) -> String {
        match self.keys.get(key) {
            Some(at) => at.clone(),
            None => format!("{}, {key}", self.at),
        }
    }
}

pub(super) fn resolve(layers: &mut Layers<'_>, prefix: &str, purpose: Purpose) -> Vec<QueueConfig> {
    let mut detailed = entries(layers, prefix, purpose);
    let listed = layers.find("queues");
    let named = match &listed {
        Some(found) => from_list(layers, found, prefix, &mut detailed),
        None if detailed.is_empty() => vec![Named {
            at: "queues".to_owned(),
            keys: BTreeMap::new(),
            config: plain("events", &format!("{prefix}.events")),
        }],
        None => std::mem::take(&mut detailed),
    };
    if let Some(found) = &listed {
        for left in detailed {
            layers.warnings.push(format!(
                "{}: queue {:?} is not consumed, since {} does not list it",
                left.at, left.config.name, found.at
            ));
        }
    }
    for queue in &named {
        check(layers, queue, prefix);
    }
    check_together(layers, &named);
    let shown = named
        .iter()
        .map(|queue| format!("{}={}", queue.config.source, queue.config.name))
        .collect::<Vec<_>>()
        .join(",");
    let origin = match listed {
        Some(found) => found.at,
        None if layers.file.queues.is_empty() => "default".to_owned(),
        None => format!("{} [[queue]]", layers.file.name),
    };
    layers.show("queues", &shown, &origin);
    named.into_iter().map(|queue| queue.config).collect()
}

/// The queues of a list `source=queue, …`; `{prefix}` stands for the prefix.
fn from_list(
    layers: &mut Layers<'_>,
    found: &Found,
    prefix: &str,
    detailed: &mut Vec<Named>,
) -> Vec<Named> {
    let mut queues = Vec::new();
    for item in found
        .text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let Some((source, name)) = item.split_once('=') else {
            let allowed = "a comma list of source=queue is allowed, such as orders=shop.orders";
            layers.refuse(&found.at, Some(item.to_owned()), allowed);
            continue;
        };
        let (source, name) = (source.trim(), name.trim().replace("{prefix}", prefix));
        let (mut config, mut keys) = match detailed
            .iter()
            .position(|queue| *queue.config.name == *name)
        {
            Some(place) => {
                let queue = detailed.remove(place);
                (queue.config, queue.keys)
            }
            None => (plain(source, &name), BTreeMap::new()),
        };
        config.source = source.into();
        keys.remove("source");
        queues.push(Named {
            at: found.at.clone(),
            keys,
            config,
        });
    }
    if queues.is_empty() && layers.problems.is_empty() {
        let allowed = "at least one source=queue is needed; without AMQP_URL no queue is consumed";
        layers.refuse(&found.at, Some(found.text.clone()), allowed);
    }
    queues
}

fn plain(source: &str, name: &str) -> QueueConfig {
    QueueConfig {
        name: name.into(),
        source: source.into(),
        scope: None,
        tenant: DEFAULT_TENANT.into(),
        kind: None,
        prefetch: None,
        declare: None,
    }
}

/// The `[[queue]]` entries of the file.
fn entries(layers: &mut Layers<'_>, prefix: &str, purpose: Purpose) -> Vec<Named> {
    let entries = std::mem::take(&mut layers.file.queues);
    let queues = entries
        .iter()
        .filter_map(|entry| self::entry(layers, entry, prefix, purpose))
        .collect();
    layers.file.queues = entries;
    queues
}

fn entry(
    layers: &mut Layers<'_>,
    entry: &QueueEntry,
    prefix: &str,
    purpose: Purpose,
) -> Option<Named> {
    let file = layers.file.name.clone();
    let at_line = |line: usize, key: &str| format!("{file} line {line}: queue.{key}");
    let at = |key: &str| {
        let line = entry.values.get(key).map_or(entry.line, |value| value.line);
        at_line(line, key)
    };
    let text = |key: &str| entry.values.get(key).map(|value| value.text.clone());
    let Some(name) = text("name") else {
        layers.refuse(
            &at("name"),
            None,
            "each [[queue]] needs the name of a queue",
        );
        return None;
    };
    let name = name.replace("{prefix}", prefix);
    let kind = read(
        layers,
        &at("type"),
        text("type"),
        "debit or credit is allowed",
        |text| text.parse().ok().filter(|kind| *kind != Kind::Opening),
    );
    let prefetch = "a whole number from 1 to 2000 is allowed";
    let prefetch = read(
        layers,
        &at("prefetch"),
        text("prefetch"),
        prefetch,
        |text| {
            text.parse()
                .ok()
                .filter(|count| (1..=2_000).contains(count))
        },
    );
    let truth = "true or false is allowed";
    let declare = read(layers, &at("declare"), text("declare"), truth, |text| {
        text.parse().ok()
    });
    let reply = read(layers, &at("reply"), text("reply"), truth, |text| {
        text.parse().ok()
    });
    if reply == Some(true) && purpose == Purpose::Serve {
        layers.refuse(&at("reply"), Some("true".to_owned()), OUTCOMES_LATER);
    }
    Some(Named {
        at: format!("{file} line {}: queue", entry.line),
        keys: entry
            .values
            .iter()
            .map(|(key, value)| (key.clone(), at_line(value.line, key)))
            .collect(),
        config: QueueConfig {
            source: text("source").unwrap_or_else(|| name.clone()).into(),
            scope: text("scope").map(Into::into),
            tenant: text("tenant")
                .unwrap_or_else(|| DEFAULT_TENANT.to_owned())
                .into(),
            name: name.into(),
            kind,
            prefetch,
            declare,
        },
    })
}

fn read<T>(
    layers: &mut Layers<'_>,
    at: &str,
    text: Option<String>,
    allowed: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let text = text?;
    let value = parse(&text);
    if value.is_none() {
        layers.refuse(at, Some(text), allowed);
    }
    value
}

fn check(layers: &mut Layers<'_>, queue: &Named, prefix: &str) {
    let config = &queue.config;
    let mut refuse = |part: &str, given: &str, allowed: String| {
        layers.refuse(&queue.at(part), Some(given.to_owned()), allowed);
    };
    if !fits(&config.name, NAME_MAX) {
        refuse(
            "name",
            &config.name,
            format!("a queue's name has 1 to {NAME_MAX} bytes"),
        );
    }
    for own in ["dead", "commands"] {
        if *config.name == *format!("{prefix}.{own}") {
            refuse(
                "name",
                &config.name,
                "this queue is the service's own and is never consumed as a source of events"
                    .into(),
            );
        }
    }
    if config.declare == Some(true) && config.name.starts_with("amq.") {
        refuse(
            "name",
            &config.name,
            "the broker lets nobody declare a queue named amq.…".into(),
        );
    }
    if !fits(&config.tenant, TENANT_MAX) {
        refuse(
            "tenant",
            &config.tenant,
            format!("a tenant has 1 to {TENANT_MAX} bytes"),
        );
    }
    for (part, text) in [
        ("source", Some(&config.source)),
        ("scope", config.scope.as_ref()),
    ] {
        let Some(text) = text else { continue };
        if !fits(text, Identity::TEXT_MAX) {
            refuse(
                part,
                text,
                format!("a {part} has 1 to {} bytes", Identity::TEXT_MAX),
            );
        } else if text.starts_with("onceledger") {
            refuse(
                part,
                text,
                format!(
                    "a {part} that begins with \"onceledger\" is the service's own; name another"
                ),
            );
        }
    }
    let source = full_source(config);
    if source.len() > Identity::TEXT_MAX
        && config.source.len() <= Identity::TEXT_MAX
        && config
            .scope
            .as_ref()
            .is_some_and(|scope| scope.len() <= Identity::TEXT_MAX)
    {
        let allowed = format!(
            "scope, a slash and source have at most {} bytes together",
            Identity::TEXT_MAX
        );
        refuse("scope", &source, allowed);
    }
}

fn fits(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && !text.contains('\0')
}

/// Two queues of one name can't be; two that give their events the same identity
/// may be meant (the same events by two ways) or not.
fn check_together(layers: &mut Layers<'_>, queues: &[Named]) {
    let mut names: BTreeMap<Arc<str>, &str> = BTreeMap::new();
    let mut origins: BTreeMap<(Arc<str>, String), Arc<str>> = BTreeMap::new();
    for queue in queues {
        let config = &queue.config;
        if let Some(first) = names.insert(config.name.clone(), &queue.at) {
            let allowed = format!("a queue is named once; it stands at {first} too");
            layers.refuse(&queue.at, Some(config.name.to_string()), allowed);
            continue;
        }
        let source = full_source(config);
        if let Some(other) =
            origins.insert((config.tenant.clone(), source.clone()), config.name.clone())
        {
            layers.warnings.push(format!(
                "queues {other:?} and {:?} both give their events the source {source:?}: one \
                 event_id that comes from both is one event; give one of them a scope or another \
                 source where that is not meant",
                config.name
            ));
        }
    }
}

fn full_source(config: &QueueConfig) -> String {
    match &config.scope {
        Some(scope) => format!("{scope}/{}", config.source),
        None => config.source.to_string(),
    }
}
