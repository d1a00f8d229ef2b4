//! Which figures stand beside which, and what they are aimed at.

use std::collections::BTreeMap;

use super::{
    books::Shape,
    kind::Kind,
    latency::Latency,
    report::{Ratio, Report, Target},
    workload::Workload,
};

/// The ratios that count, paired by round.
pub(super) fn ratios(report: &Report) -> Vec<Ratio> {
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

pub(super) const SEED: &str = "one event a transaction at 300/s";
pub(super) const STEADY: &str = "onceledger at 1,000/s";
pub(super) const HALF: &str = "onceledger at half of what publishing and consuming at once come to";

/// What latency is measured beside.
pub(super) fn latency_ratios(passes: &BTreeMap<String, Vec<Latency>>) -> Vec<Ratio> {
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

fn pair(one: &[f64], other: &[f64], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    one.iter()
        .zip(other)
        .map(|(one, other)| of(*one, *other))
        .collect()
}
