//! What came of a file, by outcome and reason.

use std::{collections::BTreeMap, fmt};

use crate::domain::Told;

/// Most bad lines that are named.
const NAMED_MAX: usize = 20;

/// The counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    /// Events and bad lines by outcome and reason.
    counts: BTreeMap<(Rank, &'static str), u64>,
    /// The first bad lines, for people.
    named: Vec<String>,
    unnamed: u64,
}

/// The outcomes, in the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Applied,
    Duplicate,
    Parked,
    Rejected,
    Dead,
}

impl Rank {
    fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Duplicate => "duplicate",
            Self::Parked => "parked",
            Self::Rejected => "rejected",
            Self::Dead => "dead",
        }
    }
}

impl Summary {
    /// Counts what became of an event.
    pub(super) fn told(&mut self, told: &Told) {
        let (outcome, reason) = told.label();
        let rank = match outcome {
            "applied" => Rank::Applied,
            "duplicate" => Rank::Duplicate,
            "parked" => Rank::Parked,
            _ => Rank::Rejected,
        };
        self.count(rank, reason.map_or("", |reason| reason.as_str()));
    }

    /// Counts a line that became a dead letter.
    pub(super) fn dead(&mut self, line: u64, reason: &'static str, why: &str) {
        self.count(Rank::Dead, reason);
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("line {line}: {reason}: {why}"));
        } else {
            self.unnamed += 1;
        }
    }

    /// Everything that was counted.
    pub(super) fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Whether everything took effect, or may still.
    pub(super) fn nothing_refused(&self) -> bool {
        !self
            .counts
            .keys()
            .any(|(rank, _)| matches!(rank, Rank::Rejected | Rank::Dead))
    }

    /// The first bad lines, and how many more there are.
    pub(super) fn bad_lines(&self) -> Vec<String> {
        let mut lines = self.named.clone();
        if self.unnamed > 0 {
            lines.push(format!("… and {} more bad lines", self.unnamed));
        }
        lines
    }

    fn count(&mut self, rank: Rank, reason: &'static str) {
        *self.counts.entry((rank, reason)).or_default() += 1;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((rank, reason), count) in &self.counts {
            let line = format!("{:<10} {count:>10}  {reason}", rank.word());
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
