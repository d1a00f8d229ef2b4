//! `onceledger.toml`: its text becomes keys and values, each with its line.
//!
//! What lives here: reading the file and naming what is unknown in it. What must
//! not: what the values mean.

use std::{collections::BTreeMap, ops::Range};

use toml::de::{DeTable, DeValue};

use super::{
    problem::Problem,
    settings::{LATER, SETTINGS, Setting},
};

/// The keys of a `[[queue]]`.
pub(crate) const QUEUE_KEYS: [&str; 8] = [
    "name", "source", "scope", "tenant", "type", "prefetch", "declare", "reply",
];

/// What stands in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct File {
    /// How the file is named to people.
    pub(crate) name: String,
    /// Settings by key.
    pub(crate) values: BTreeMap<String, Entry>,
    /// The `[[queue]]` entries, in order.
    pub(crate) queues: Vec<QueueEntry>,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The value as text.
    pub(crate) text: String,
    /// Where it stands, from 1.
    pub(crate) line: usize,
}

/// One `[[queue]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueEntry {
    /// Where it begins, from 1.
    pub(crate) line: usize,
    /// Its values by key.
    pub(crate) values: BTreeMap<String, Entry>,
}

impl File {
    /// Reads the text of a file. What is wrong is added to `problems`; the rest
    /// is read all the same, so that everything can be told at once.
    pub(crate) fn parse(name: &str, text: &str, problems: &mut Vec<Problem>) -> Self {
        let mut file = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let place = place(name, text, error.span());
                problems.push(problem(place, format!("no TOML: {}", error.message())));
                return file;
            }
        };
        let known: Vec<&str> = SETTINGS.iter().map(|s| s.key).chain(["queue"]).collect();
        for (key, value) in &table {
            let line = line(text, key.span());
            let key = key.get_ref().as_ref();
            let at = format!("{name} line {line}: {key}");
            match value.get_ref() {
                DeValue::Array(entries) if key == "queue" => {
                    for entry in entries {
                        file.queue(text, entry, problems);
                    }
                }
                _ if key == "queue" => {
                    problems.push(problem(at, "queues are written as [[queue]]"));
                }
                _ if !is_known(key) => problems.push(unknown(at, &known)),
                value => match scalar(value) {
                    Some(text) => {
                        file.values.insert(key.to_owned(), Entry { text, line });
                    }
                    None => problems.push(not_scalar(at, value)),
                },
            }
        }
        file
    }

    fn queue(
        &mut self,
        text: &str,
        entry: &toml::Spanned<DeValue<'_>>,
        problems: &mut Vec<Problem>,
    ) {
        let mut queue = QueueEntry {
            line: line(text, entry.span()),
            ..QueueEntry::default()
        };
        let Some(table) = entry.get_ref().as_table() else {
            let at = format!("{} line {}: queue", self.name, queue.line);
            problems.push(problem(at, "queues are written as [[queue]]"));
            return;
        };
        for (key, value) in table {
            let line = line(text, key.span());
            let key = key.get_ref().as_ref();
            let at = format!("{} line {line}: {key}", self.name);
            match scalar(value.get_ref()) {
                _ if !QUEUE_KEYS.contains(&key) => problems.push(unknown(at, &QUEUE_KEYS)),
                Some(text) => {
                    queue.values.insert(key.to_owned(), Entry { text, line });
                }
                None => problems.push(not_scalar(at, value.get_ref())),
            }
        }
        self.queues.push(queue);
    }
}

fn is_known(key: &str) -> bool {
    Setting::named(key).is_some() || LATER.iter().any(|(later, ..)| *later == key)
}

/// A value as the text that a flag or a variable would carry.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn not_scalar(at: String, value: &DeValue<'_>) -> Problem {
    problem(
        at,
        format!(
            "a text, a whole number or true/false is allowed, not {} {}",
            match value.type_str().as_bytes().first() {
                Some(b'a' | b'e' | b'i' | b'o' | b'u') => "an",
                _ => "a",
            },
            value.type_str()
        ),
    )
}

fn unknown(at: String, known: &[&str]) -> Problem {
    problem(at, format!("no such key; allowed are {}", known.join(", ")))
}

fn problem(setting: String, allowed: impl Into<String>) -> Problem {
    Problem {
        setting,
        given: None,
        allowed: allowed.into(),
    }
}

fn place(name: &str, text: &str, span: Option<Range<usize>>) -> String {
    match span {
        Some(span) => format!("{name} line {}", line(text, span)),
        None => name.to_owned(),
    }
}

fn line(text: &str, span: Range<usize>) -> usize {
    let before = &text.as_bytes()[..span.start.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}
