//! What was measured: every sample, the ratios that count, and what they were
//! aimed at.
//!
//! What must not live here: how it is shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{latency::Latency, machine::Cpu};

/// The whole report; its JSON form is stable enough to be compared with a later one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The program's version.
    pub version: String,
    /// The command's own arguments.
    pub arguments: Vec<String>,
    /// Which machine.
    pub machine: String,
    /// Which database.
    pub database: String,
    /// Which broker.
    pub broker: Option<String>,
    /// Settings of the service that decide its speed.
    pub settings: BTreeMap<String, u64>,
    /// Rounds that were measured, after one that was not.
    pub rounds: usize,
    /// Accounts of the workloads.
    pub accounts: u32,
    /// Entries in the books before the first round.
    pub history: u64,
    /// While they grew: so many entries, and events a second.
    pub growth: Vec<(u64, f64)>,
    /// The cases, in the order in which they are shown.
    pub cases: Vec<Case>,
    /// The ratios that count.
    pub ratios: Vec<Ratio>,
    /// How long events took.
    pub latencies: BTreeMap<String, Latency>,
    /// Resident memory of a service that works off a backlog.
    pub memory: Option<Memory>,
    /// What a row costs on the disk, in bytes, by table and index.
    pub bytes_per_event: BTreeMap<String, f64>,
    /// What `verify` says of the books at the end.
    pub verified: Option<String>,
}

/// One thing that was measured, round after round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Its name, for machines: `queue.spread`.
    pub id: String,
    /// What it is, for people.
    pub what: String,
    /// Events of one sample.
    pub events: usize,
    /// Events a second, one figure a round.
    pub rates: Vec<f64>,
    /// Seconds of CPU a million events, the median of the rounds.
    pub cpu: Cpu,
    /// Whatever else was counted, summed over the rounds.
    pub counts: BTreeMap<String, u64>,
}

/// One case beside another, in the same round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// What stands above and below the line.
    pub what: String,
    /// One figure a round.
    pub values: Vec<f64>,
    /// What it is aimed at.
    pub target: Option<Target>,
}

/// What a figure is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
}

/// Resident memory while a backlog is worked off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Messages that waited.
    pub backlog: usize,
    /// The most bytes that were resident in the first quarter of the time.
    pub first_quarter: u64,
    /// The most bytes that were ever resident.
    pub peak: u64,
}

impl Target {
    /// Whether a figure meets it.
    #[must_use]
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

impl Report {
    /// The rates of a case, one a round.
    #[must_use]
    pub fn rates(&self, id: &str) -> Option<&[f64]> {
        let case = self.cases.iter().find(|case| case.id == id)?;
        Some(&case.rates)
    }
}

/// The middle one, or the mean of the two in the middle; 0 where there are none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle)) {
        (_, None) => 0.0,
        (1, Some(value)) => *value,
        (_, Some(value)) => (sorted[middle - 1] + value) / 2.0,
    }
}

/// The least and the most; 0 where there are none.
#[must_use]
pub fn spread(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().reduce(f64::min);
    let most = values.iter().copied().reduce(f64::max);
    (least.unwrap_or(0.0), most.unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_or_the_mean_of_two() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
        assert_eq!(spread(&[4.0, 1.0, 2.0]), (1.0, 4.0));
    }
}
