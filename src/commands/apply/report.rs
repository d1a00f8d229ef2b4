//! What a person sees while a file is applied: a bar on a terminal, and one line
//! a change of state otherwise.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::summary::Summary;
use crate::{domain::Told, ledger::Failure};

/// How often the bar moves while nothing happens.
const TICK: Duration = Duration::from_millis(200);

/// The bar and the counts.
pub(super) struct Report {
    pub(super) summary: Summary,
    bar: ProgressBar,
    waits: bool,
    /// Bad lines that could not even be kept as dead letters.
    pub(super) lost: u64,
}

impl Report {
    /// A report on an input of so many bytes, where that is known.
    pub(super) fn new(bytes: Option<u64>) -> Self {
        // Hides itself where standard error is no terminal.
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::stderr());
        let template = match bytes {
            Some(_) => "{bar:30} {percent:>3} %  {msg}  (about {eta} left)",
            None => "{spinner} {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self {
            summary: Summary::default(),
            bar,
            waits: false,
            lost: 0,
        }
    }

    /// So many bytes were read.
    pub(super) fn read(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// An event was settled.
    pub(super) fn told(&mut self, told: &Told) {
        self.summary.told(told);
        self.show_count();
    }

    /// A line became a dead letter.
    pub(super) fn dead(&mut self, line: u64, reason: &'static str, why: &str) {
        self.summary.dead(line, reason, why);
        self.show_count();
    }

    /// A bad line is not even among the dead letters.
    pub(super) fn lost(&mut self, line: u64, why: &str) {
        self.lost += 1;
        self.bar.suspend(|| {
            tracing::error!(line, why, "this line could not be kept as a dead letter");
        });
    }

    /// Nothing moves, and why.
    pub(super) fn waiting(&mut self, failure: &Failure) {
        let settled = self.summary.total();
        self.bar
            .set_message(format!("{settled} settled; waiting: {failure}"));
        if !std::mem::replace(&mut self.waits, true) {
            self.bar
                .suspend(|| tracing::warn!(%failure, "waiting, without a last attempt"));
        }
    }

    /// It moves again.
    pub(super) fn going_on(&mut self) {
        if std::mem::replace(&mut self.waits, false) {
            self.bar.suspend(|| tracing::info!("going on"));
        }
        self.show_count();
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn show_count(&self) {
        if !self.bar.is_hidden() {
            self.bar
                .set_message(format!("{} settled", self.summary.total()));
        }
    }
}
