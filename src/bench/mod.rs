//! `onceledger bench`: the service beside its own broker and its own database,
//! in one run, so that the machine's mood cancels out.
//!
//! In reading order: `run` goes through the rounds and `cases` takes one sample of
//! each case in each of them, on what `rig` has started; `broker`, `books`, `seed` and `service` are what is measured,
//! `workload` what is sent, `site` where; [`report`] is what comes of it, shown by
//! [`table`] and [`plot`].
//! What must not live here: anything that the service needs.

mod apart;
mod books;
mod broker;
mod cases;
mod groups;
mod kind;
mod latency;
mod machine;
mod memory;
pub mod plot;
mod progress;
mod ratios;
pub mod report;
mod rig;
mod seed;
mod service;
mod site;
pub mod table;
mod workload;

use std::collections::BTreeMap;

use strum::IntoEnumIterator;

use self::{
    groups::Groups,
    kind::{Kind, Sample},
    latency::Latency,
    ratios::{HALF, SEED, STEADY, latency_ratios, ratios},
    report::{Case, Ratio, Report, Target, median},
    rig::Bench,
    workload::Workload,
};
use crate::config::Config;

pub use self::progress::Progress;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds after the first, which only warms up.
    pub rounds: usize,
    /// Events of one sample. Slow cases take fewer.
    pub events: usize,
    /// Accounts that they are spread over.
    pub accounts: u32,
    /// Entries that the books hold before the first round.
    pub history: u64,
    /// Messages that wait while memory is measured; 0: it is not.
    pub backlog: usize,
    /// Seconds of each measurement of latency; 0: none.
    pub latency_secs: u64,
    /// Only cases whose id begins with one of these; none: all of them.
    pub only: Vec<String>,
    /// By what everything that is random is decided.
    pub seed: u64,
    /// The command's own arguments, for the report.
    pub arguments: Vec<String>,
}

impl Options {
    fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| id.starts_with(only.as_str()))
    }
}

/// Measures everything, and leaves nothing behind. Ends early, having removed
/// what it made, when `stop` does.
///
/// # Errors
/// What keeps it from measuring: a server that does not answer, a missing right, an event that was refused.
pub async fn run(
    config: &Config,
    options: &Options,
    run: u64,
    progress: &Progress,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Report> {
    for name in site::left_behind(config).await? {
        progress.note(&format!(
            "an earlier run left {name} behind; it may be removed"
        ));
    }
    let site = site::Site::make(config, run).await?;
    let groups = Groups::default();
    let measured = tokio::select! {
        measured = measure(&site, options, run, &groups, progress) => measured,
        () = stop => Err(anyhow::anyhow!("stopped; everything that was made is removed")),
    };
    progress.say("removing what was made");
    groups.stop().await;
    let removed = site.remove().await;
    progress.end();
    let report = measured?;
    removed?;
    Ok(report)
}

/// Steps that a run takes, roughly: what is left out for want of a broker or of
/// connections is not known before.
#[must_use]
pub fn steps(config: &Config, options: &Options) -> u64 {
    let postgres = !config.database_url.starts_with("sqlite:");
    let mut of_round = if postgres { 9 } else { 3 };
    let mut others = 1;
    if config.amqp_url.is_some() {
        of_round += 3 + Workload::iter().count();
        others += usize::from(options.backlog > 0);
        others += if options.latency_secs > 0 {
            1 + 3 * options.rounds.min(3)
        } else {
            0
        };
    }
    (of_round * (options.rounds + 1) + others) as u64
}

async fn measure(
    site: &site::Site,
    options: &Options,
    run: u64,
    groups: &Groups,
    progress: &Progress,
) -> anyhow::Result<Report> {
    let mut bench = Bench::start(site, options, run, groups, progress).await?;
    let mut report = bench.about(options).await?;
    report.growth = bench.grow(options.history, progress).await?;
    report.history = options.history;
    let mut kinds = bench.kinds();
    kinds.retain(|kind| options.wants(&kind.id()));
    let mut samples: BTreeMap<usize, Vec<Sample>> = BTreeMap::new();
    for round in 0..=options.rounds {
        for (place, kind) in kinds.iter().enumerate() {
            progress.say(&match round {
                0 => format!("warming up: {}", kind.what()),
                _ => format!("round {round} of {}: {}", options.rounds, kind.what()),
            });
            // The first round only warms up.
            let events = if round == 0 {
                options.events / 4
            } else {
                options.events
            };
            let sample = bench.sample(*kind, events).await?;
            progress.tick();
            if round > 0 {
                samples.entry(place).or_default().push(sample);
            }
        }
    }
    for (place, kind) in kinds.iter().enumerate() {
        report
            .cases
            .push(case(*kind, samples.remove(&place).unwrap_or_default()));
    }
    report.ratios = ratios(&report);
    let passes = measure_latency(&mut bench, &report, options, progress).await?;
    report.ratios.extend(latency_ratios(&passes));
    report.latencies = passes
        .into_iter()
        .filter_map(|(name, passes)| Some((name, middle(passes)?)))
        .collect();
    if options.backlog > 0 {
        progress.say("a backlog is worked off, for its memory");
        report.memory = bench.memory(options.backlog).await?;
        progress.tick();
    }
    if let Some(memory) = report.memory {
        report.ratios.push(Ratio {
            what: "resident memory at the backlog, MB".to_owned(),
            values: vec![memory.peak as f64 / 1e6],
            target: Some(Target::AtMost(100.0)),
        });
    }
    progress.say("verifying the books");
    report.bytes_per_event = bench.bytes_per_event().await?;
    report.verified = Some(bench.verify().await?);
    progress.tick();
    bench.end().await;
    Ok(report)
}

fn case(kind: Kind, samples: Vec<Sample>) -> Case {
    let million = |of: fn(&machine::Cpu) -> f64| {
        let per: Vec<f64> = samples
            .iter()
            .map(|sample| of(&sample.cpu) * 1e6 / sample.events as f64)
            .collect();
        median(&per)
    };
    let cpu = machine::Cpu {
        own: million(|cpu| cpu.own),
        postgres: million(|cpu| cpu.postgres),
        broker: million(|cpu| cpu.broker),
    };
    let mut counts = BTreeMap::new();
    for sample in &samples {
        for (name, count) in &sample.counts {
            *counts.entry((*name).to_owned()).or_default() += count;
        }
    }
    Case {
        id: kind.id(),
        what: kind.what(),
        events: samples.first().map_or(0, |sample| sample.events),
        rates: samples.iter().map(Sample::rate).collect(),
        cpu,
        counts,
    }
}

/// What latency is measured, by name: passes over all of them, one after the other.
async fn measure_latency(
    bench: &mut Bench,
    report: &Report,
    options: &Options,
    progress: &Progress,
) -> anyhow::Result<BTreeMap<String, Vec<Latency>>> {
    let mut passes: BTreeMap<String, Vec<Latency>> = BTreeMap::new();
    if options.latency_secs == 0 || report.broker.is_none() {
        return Ok(passes);
    }
    progress.say("publishing and consuming at once, as fast as it goes");
    let half = (bench.throughput(options.events).await? / 2.0).round();
    progress.tick();
    for _ in 0..options.rounds.min(3) {
        for (name, rate, seed) in [
            (SEED, 300.0, true),
            (STEADY, 1_000.0, false),
            (HALF, half, false),
        ] {
            progress.say(&format!("latency: {name}"));
            let latency = bench.latency(rate, options.latency_secs, seed).await?;
            passes.entry(name.to_owned()).or_default().push(latency);
            progress.tick();
        }
    }
    Ok(passes)
}

/// The pass with the middle p99.
fn middle(mut passes: Vec<Latency>) -> Option<Latency> {
    passes.sort_by(|one, other| one.p99.total_cmp(&other.p99));
    let place = passes.len() / 2;
    passes.into_iter().nth(place)
}

/// Every workload there is.
fn workloads() -> impl Iterator<Item = Workload> {
    Workload::iter()
}
