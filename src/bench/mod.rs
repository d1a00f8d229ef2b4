//! `onceledger bench`: the service beside its own broker and its own database,
//! in one run, so that the machine's mood cancels out.
//!
//! In reading order: `run` goes through the rounds and `cases` takes one sample of
//! each case in each of them; `broker`, `books`, `seed` and `service` are what is measured,
//! `workload` what is sent, `site` where; [`report`] is what comes of it, shown by
//! [`table`] and [`plot`].
//! What must not live here: anything that the service needs.

mod books;
mod broker;
mod cases;
mod latency;
mod machine;
mod memory;
pub mod plot;
mod progress;
pub mod report;
mod seed;
mod service;
mod site;
pub mod table;
mod workload;

use std::collections::BTreeMap;

use strum::IntoEnumIterator;

use self::{
    books::Shape,
    cases::{Bench, Kind, Sample},
    latency::Latency,
    report::{Case, Ratio, Report, Target, median},
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
    let measured = tokio::select! {
        measured = measure(&site, options, run, progress) => measured,
        () = stop => Err(anyhow::anyhow!("stopped; everything that was made is removed")),
    };
    progress.say("removing what was made");
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
    progress: &Progress,
) -> anyhow::Result<Report> {
    let mut bench = Bench::start(site, options, run, progress).await?;
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

/// The ratios that count, paired by round.
fn ratios(report: &Report) -> Vec<Ratio> {
    let sqlite = report.database.starts_with("SQLite");
    let of = |kind: Kind| report.rates(&kind.id());
    let best = |shape: Shape| -> Option<Vec<f64>> {
        let all = [1, 2, 8, 32]
            .into_iter()
            .filter_map(|connections| of(Kind::Alone { shape, connections }));
        all.map(<[f64]>::to_vec)
            .reduce(|one, other| pair(&one, &other, f64::max))
    };
    let mut ratios = Vec::new();
    let mut put = |what: &str, above: Option<&[f64]>, below: Option<&[f64]>, target: f64| {
        if let (Some(above), Some(below)) = (above, below) {
            ratios.push(Ratio {
                what: what.to_owned(),
                values: pair(above, below, |above, below| above / below),
                target: Some(Target::AtLeast(target)),
            });
        }
    };
    let spread = of(Kind::Queue(Workload::Spread));
    let drain = of(Kind::Drain);
    let batch = best(Shape::Batch);
    if let (Some(drain), Some(batch)) = (drain, &batch) {
        let bound = pair(drain, batch, |drain, batch| {
            1.0 / (1.0 / drain + 1.0 / batch)
        });
        put(
            "queue to ack / combined bound of broker and database",
            spread,
            Some(&bound),
            0.85,
        );
    }
    put(
        "queue to ack / one event a transaction, prefetch 1",
        spread,
        of(Kind::Seed),
        35.0,
    );
    put("queue to ack / broker alone", spread, drain, 0.4);
    put(
        "queue to ack / database alone, a statement an event",
        spread,
        best(Shape::PerEvent).as_deref(),
        2.5,
    );
    for connections in [1, 2] {
        let alone = |shape| of(Kind::Alone { shape, connections });
        put(
            &format!("ledger without a broker / raw batches, {connections} at once"),
            of(Kind::Ledger { lanes: connections }),
            alone(Shape::Batch),
            if sqlite { 0.85 } else { 0.8 },
        );
        put(
            &format!("raw batches / the same on two narrow tables, {connections} at once"),
            alone(Shape::Batch),
            alone(Shape::Minimal),
            if connections == 1 { 0.75 } else { 0.85 },
        );
    }
    for (workload, target) in [
        (Workload::Hot, 0.95),
        (Workload::Zipf, 0.9),
        (Workload::Duplicates, 0.9),
        (Workload::Shuffled, 0.4),
    ] {
        let what = format!("queue to ack: {} / spread", workload.name());
        put(&what, of(Kind::Queue(workload)), spread, target);
    }
    put(
        "two instances on one queue / one",
        of(Kind::Two),
        spread,
        0.85,
    );
    let again = report.cases.iter().find(|case| case.id == Kind::Two.id());
    if let Some(again) = again {
        let share = *again.counts.get("decided again").unwrap_or(&0) as f64
            / (again.events * again.rates.len()).max(1) as f64;
        ratios.push(Ratio {
            what: "two instances: events decided again / events".to_owned(),
            values: vec![share],
            target: Some(Target::AtMost(0.02)),
        });
    }
    if let Some(spread) = spread {
        ratios.insert(
            0,
            Ratio {
                what: "queue to ack, events a second".to_owned(),
                values: spread.to_vec(),
                target: Some(Target::AtLeast(30_000.0)),
            },
        );
    }
    ratios
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

const SEED: &str = "one event a transaction at 300/s";
const STEADY: &str = "onceledger at 1,000/s";
const HALF: &str = "onceledger at half of what publishing and consuming at once come to";

fn latency_ratios(passes: &BTreeMap<String, Vec<Latency>>) -> Vec<Ratio> {
    let of = |name: &str, figure: fn(&Latency) -> f64| -> Vec<f64> {
        passes
            .get(name)
            .map_or_else(Vec::new, |passes| passes.iter().map(figure).collect())
    };
    let ratio = |what: &str, values: Vec<f64>, most: f64| Ratio {
        what: what.to_owned(),
        values,
        target: Some(Target::AtMost(most)),
    };
    let beside = |figure: fn(&Latency) -> f64| {
        pair(&of(STEADY, figure), &of(SEED, figure), |ours, seed| {
            ours / seed
        })
    };
    let mut ratios = vec![
        ratio(
            "p50 at 1,000/s / one event a transaction at 300/s",
            beside(|it| it.p50),
            1.0,
        ),
        ratio(
            "p99 at 1,000/s / one event a transaction at 300/s",
            beside(|it| it.p99),
            1.5,
        ),
        ratio(
            "p99 at half of what publishing and consuming at once come to, ms",
            of(HALF, |it| it.p99),
            20.0,
        ),
    ];
    ratios.retain(|ratio| !ratio.values.is_empty());
    ratios
}

/// The pass with the middle p99.
fn middle(mut passes: Vec<Latency>) -> Option<Latency> {
    passes.sort_by(|one, other| one.p99.total_cmp(&other.p99));
    let place = passes.len() / 2;
    passes.into_iter().nth(place)
}

fn pair(one: &[f64], other: &[f64], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    one.iter()
        .zip(other)
        .map(|(one, other)| of(*one, *other))
        .collect()
}

/// Every workload there is.
fn workloads() -> impl Iterator<Item = Workload> {
    Workload::iter()
}
