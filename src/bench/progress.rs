//! What is going on, for whoever waits: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// Tells on standard error what is being measured.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// For so many steps.
    #[must_use]
    pub fn new(steps: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(steps);
            let style = ProgressStyle::with_template("{elapsed} {bar:24} {msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar }
    }

    /// What comes now.
    pub(super) fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => eprintln!("{what}"),
        }
    }

    /// A step is done.
    pub(super) fn tick(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Something to be read later.
    pub(super) fn note(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.println(what),
            None => eprintln!("{what}"),
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
