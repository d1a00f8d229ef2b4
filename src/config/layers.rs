//! Which of flag, environment and file has the word on a setting, and the notes
//! that are taken while asking.
//!
//! What lives here: the order of precedence, and one way to read a value. What
//! must not: which settings there are.

use std::fmt::Display;

use super::{
    Problem, Shown, Sources,
    file::File,
    settings::{LATER, SETTINGS, Setting},
};

/// A value with the name under which it was given.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) text: String,
    /// `--prefetch`, `ONCELEDGER_PREFETCH` or `onceledger.toml line 3: prefetch`.
    pub(super) at: String,
}

/// The layers, from the strongest down.
pub(super) struct Layers<'a> {
    sources: &'a Sources,
    pub(super) file: File,
    pub(super) problems: Vec<Problem>,
    pub(super) shown: Vec<Shown>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Layers<'a> {
    pub(super) fn new(sources: &'a Sources) -> Self {
        let mut problems = Vec::new();
        let file = match &sources.file {
            Some((name, text)) => File::parse(name, text, &mut problems),
            None => File::default(),
        };
        Self {
            sources,
            file,
            problems,
            shown: Vec::new(),
            warnings: unknown_variables(sources),
        }
    }

    /// The strongest word on a setting. An empty variable is as good as none.
    pub(super) fn find(&self, key: &str) -> Option<Found> {
        let setting = Setting::named(key)?;
        self.flag(setting)
            .or_else(|| self.variable(setting.env))
            .or_else(|| self.variable("RUST_LOG").filter(|_| key == "log"))
            .or_else(|| self.entry(key))
    }

    /// The word on a setting that comes with a later version.
    pub(super) fn find_later(&self, key: &str, env: &str) -> Option<Found> {
        self.variable(env).or_else(|| self.entry(key))
    }

    fn flag(&self, setting: &Setting) -> Option<Found> {
        let text = self.sources.flags.values.get(setting.key)?;
        Some(Found {
            text: text.clone(),
            at: format!("--{}", setting.flag),
        })
    }

    fn variable(&self, env: &str) -> Option<Found> {
        let text = self.sources.env.get(env)?;
        (!text.is_empty()).then(|| Found {
            text: text.clone(),
            at: env.to_owned(),
        })
    }

    fn entry(&self, key: &str) -> Option<Found> {
        let entry = self.file.values.get(key)?;
        Some(Found {
            text: entry.text.clone(),
            at: format!("{} line {}: {key}", self.file.name, entry.line),
        })
    }

    /// Reads a setting; where it can't be read, the problem is noted and the
    /// default stands in, so that the others are looked at too.
    pub(super) fn take<T: Display>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl Fn(&str) -> Option<T>,
        allowed: &str,
    ) -> T {
        let Some(found) = self.find(key) else {
            self.show(key, &default, "default");
            return default;
        };
        match read(found.text.trim()) {
            Some(value) => {
                self.show(key, &value, &found.at);
                value
            }
            None => {
                self.refuse(&found.at, Some(found.text), allowed);
                default
            }
        }
    }

    /// Notes a problem.
    pub(super) fn refuse(&mut self, at: &str, given: Option<String>, allowed: impl Into<String>) {
        self.problems.push(Problem {
            setting: at.to_owned(),
            given,
            allowed: allowed.into(),
        });
    }

    /// Notes a problem with the value that a setting has, by the name under
    /// which it was given.
    pub(super) fn refuse_value(&mut self, key: &'static str, allowed: impl Into<String>) {
        match self.find(key) {
            Some(found) => self.refuse(&found.at, Some(found.text), allowed),
            None => self.refuse(key, None, allowed),
        }
    }

    /// Notes a setting in force.
    pub(super) fn show(&mut self, key: &'static str, value: &impl Display, origin: &str) {
        let text = value.to_string();
        let plain = text.parse::<u64>().is_ok() || text == "true" || text == "false";
        self.shown.push(Shown {
            key,
            value: if plain { text } else { format!("{text:?}") },
            origin: origin.to_owned(),
        });
    }
}

/// Variables that look like ours and are none: most likely a slip. What
/// Kubernetes sets for a service of our name is let pass.
fn unknown_variables(sources: &Sources) -> Vec<String> {
    let known = |name: &str| {
        name == "ONCELEDGER_CONFIG"
            || SETTINGS.iter().any(|setting| setting.env == name)
            || LATER.iter().any(|(_, env, _)| *env == name)
    };
    sources
        .env
        .keys()
        .filter(|name| name.starts_with("ONCELEDGER_") && !known(name))
        .filter(|name| {
            !name.starts_with("ONCELEDGER_SERVICE_") && !name.starts_with("ONCELEDGER_PORT")
        })
        .map(|name| format!("{name} is set, but no setting has that name"))
        .collect()
}
