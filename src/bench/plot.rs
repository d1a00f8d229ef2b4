//! A report as a picture: throughput by workload beside its bounds, and how long
//! events took.

use anyhow::anyhow;
use plotters::prelude::*;

use super::report::{Report, median, spread};

const SIZE: (u32, u32) = (960, 900);

/// Bars that are the service's own, and those it is measured against.
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
const THEIRS: RGBColor = RGBColor(0xa9, 0xb4, 0xbe);

/// The colours of the curves.
const CURVES: [RGBColor; 3] = [RGBColor(0xd0, 0x6a, 0x1e), OURS, RGBColor(0x3a, 0x8f, 0x4a)];

/// Draws an SVG.
///
/// # Errors
/// Where the library can't draw it.
pub fn draw(report: &Report) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let whole = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        whole.fill(&WHITE).map_err(failed)?;
        if report.latencies.is_empty() {
            rates(report, &whole)?;
        } else {
            let (above, below) = whole.split_vertically(SIZE.1 / 2 + 60);
            rates(report, &above)?;
            latencies(report, &below)?;
        }
        whole.present().map_err(failed)?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// A bar a case: the median, and a line from the least to the most.
fn rates(report: &Report, area: &Area<'_>) -> anyhow::Result<()> {
    let cases = &report.cases;
    let most = cases
        .iter()
        .map(|case| spread(&case.rates).1)
        .fold(1.0, f64::max);
    let count = cases.len();
    let mut chart = ChartBuilder::on(area)
        .caption(
            "Events a second (median, least to most)",
            ("sans-serif", 18),
        )
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(330)
        .build_cartesian_2d(0.0..most * 1.05, 0.0..count as f64)
        .map_err(failed)?;
    let name = |at: &f64| {
        let place = count.checked_sub(1 + at.floor() as usize);
        let case = place.and_then(|place| cases.get(place));
        // A label stands at each half, where the bar is.
        case.filter(|_| (at.fract() - 0.5).abs() < 0.01)
            .map_or_else(String::new, |case| case.what.clone())
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(count * 2 + 1)
        .y_label_formatter(&name)
        .x_label_formatter(&|rate| format!("{:.0}k", rate / 1_000.0))
        .draw()
        .map_err(failed)?;
    for (place, case) in cases.iter().rev().enumerate() {
        let at = place as f64;
        let ours = case.id.starts_with("queue.") || case.id.starts_with("ledger.");
        let bar = Rectangle::new(
            [(0.0, at + 0.2), (median(&case.rates), at + 0.8)],
            if ours { OURS } else { THEIRS }.filled(),
        );
        let (least, most) = spread(&case.rates);
        let line = PathElement::new(vec![(least, at + 0.5), (most, at + 0.5)], BLACK);
        chart.draw_series([bar]).map_err(failed)?;
        chart.draw_series([line]).map_err(failed)?;
    }
    Ok(())
}

/// A curve each: which share of the events took no longer.
fn latencies(report: &Report, area: &Area<'_>) -> anyhow::Result<()> {
    let curves = report.latencies.values();
    let most = curves.clone().map(|it| it.max).fold(1.0, f64::max);
    let least = curves
        .filter_map(|it| {
            it.curve
                .iter()
                .map(|(_, millis)| *millis)
                .find(|millis| *millis > 0.0)
        })
        .fold(most, f64::min);
    let mut chart = ChartBuilder::on(area)
        .caption(
            "From publishing to commit: share of events that took no longer",
            ("sans-serif", 18),
        )
        .margin(10)
        .x_label_area_size(35)
        .y_label_area_size(60)
        .build_cartesian_2d((least.max(0.05)..most.max(1.0)).log_scale(), 0.0..1.0)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("milliseconds")
        .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
        .x_label_formatter(&|millis| format!("{millis}"))
        .draw()
        .map_err(failed)?;
    for ((name, latency), colour) in report.latencies.iter().zip(CURVES.iter().cycle()) {
        let points = latency
            .curve
            .iter()
            .map(|(share, millis)| (*millis, *share));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))
            .map_err(failed)?
            .label(name)
            .legend(move |(x, y)| {
                PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2))
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .border_style(THEIRS)
        .draw()
        .map_err(failed)?;
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the picture can't be drawn: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{latency::Latency, report::Case};

    #[test]
    fn a_picture_names_every_case_and_every_curve() {
        let case = |id: &str, what: &str| Case {
            id: id.to_owned(),
            what: what.to_owned(),
            rates: vec![20_000.0, 30_000.0, 25_000.0],
            ..Case::default()
        };
        let latency = Latency {
            max: 20.0,
            curve: vec![(0.0, 0.4), (0.5, 1.0), (0.99, 5.0), (1.0, 20.0)],
            ..Latency::default()
        };
        let mut report = Report {
            cases: vec![
                case("broker.drain", "the drain"),
                case("queue.hot", "hot accounts"),
            ],
            ..Report::default()
        };
        assert!(draw(&report).unwrap().contains("hot accounts"));
        report.latencies = [("steadily".to_owned(), latency)].into();
        let svg = draw(&report).unwrap();
        for part in ["<svg", "the drain", "hot accounts", "steadily", "</svg>"] {
            assert!(svg.contains(part), "{part} is missing");
        }
    }
}
