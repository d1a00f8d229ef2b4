//! A report as text: the ratios first, then every absolute figure.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

use super::report::{Case, Ratio, Report, Target, median, spread};

/// Shows a report, for people; its tables are Markdown.
#[must_use]
pub fn show(report: &Report) -> String {
    let mut text = head(report);
    let mut put = |title: &str, table: Table| {
        // Writing into a String can't fail.
        let _ = write!(text, "\n{title}\n\n{table}\n");
    };
    put("Ratios, paired by round", ratios(&report.ratios));
    put(
        "Events a second, and seconds of CPU a million events",
        cases(&report.cases),
    );
    if !report.latencies.is_empty() {
        put(
            "From publishing to commit, in milliseconds",
            latencies(report),
        );
    }
    if !report.growth.is_empty() {
        put("While the books grew", growth(report));
    }
    put("Bytes an event", bytes(report));
    if let Some(memory) = &report.memory {
        let _ = writeln!(
            text,
            "\nA backlog of {} messages: at most {:.0} MB resident in the first quarter of the time, {:.0} MB in all",
            memory.backlog,
            memory.first_quarter as f64 / 1e6,
            memory.peak as f64 / 1e6
        );
    }
    if let Some(verified) = &report.verified {
        let _ = writeln!(text, "\nVerified: {verified}");
    }
    text
}

/// Shows what changed against an earlier report.
#[must_use]
pub fn compare(before: &Report, after: &Report) -> String {
    let mut table = new(&["events a second", "before", "now", "now / before"]);
    for case in &after.cases {
        if let Some(rates) = before.rates(&case.id) {
            let (then, now) = (median(rates), median(&case.rates));
            row(
                &mut table,
                [case.what.clone(), rate(then), rate(now), figure(now / then)],
            );
        }
    }
    let mut ratios = new(&["ratio", "before", "now", "now / before"]);
    for ratio in &after.ratios {
        if let Some(earlier) = before.ratios.iter().find(|it| it.what == ratio.what) {
            let (then, now) = (median(&earlier.values), median(&ratio.values));
            row(
                &mut ratios,
                [
                    ratio.what.clone(),
                    figure(then),
                    figure(now),
                    figure(now / then),
                ],
            );
        }
    }
    format!(
        "Against the earlier report ({} on {}): rates change with the machine's mood, ratios less.\n\n{ratios}\n\n{table}\n",
        before.version, before.machine
    )
}

fn head(report: &Report) -> String {
    let settings = report
        .settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"));
    let settings: Vec<String> = settings.collect();
    format!(
        "onceledger {} bench {}\n{}\n{}\n{}\n{} accounts, {} rounds, {}; {} entries before the first round\n",
        report.version,
        report.arguments.join(" "),
        report.machine,
        report.database,
        report
            .broker
            .as_deref()
            .unwrap_or("no broker: nothing is measured that needs one"),
        report.accounts,
        report.rounds,
        settings.join(", "),
        report.history,
    )
}

fn ratios(ratios: &[Ratio]) -> Table {
    let mut table = new(&["ratio", "median", "least", "most", "aimed at", ""]);
    for ratio in ratios {
        let middle = median(&ratio.values);
        let (least, most) = spread(&ratio.values);
        let (aim, met) = match ratio.target {
            Some(target) => {
                let aim = match target {
                    Target::AtLeast(least) => format!("≥ {}", figure(least)),
                    Target::AtMost(most) => format!("≤ {}", figure(most)),
                };
                (
                    aim,
                    if target.is_met(middle) {
                        "met"
                    } else {
                        "missed"
                    },
                )
            }
            None => (String::new(), ""),
        };
        let cells = [
            ratio.what.clone(),
            figure(middle),
            figure(least),
            figure(most),
            aim,
            met.to_owned(),
        ];
        row(&mut table, cells);
    }
    table
}

fn cases(cases: &[Case]) -> Table {
    let mut table = new(&[
        "case",
        "median",
        "least",
        "most",
        "CPU own",
        "PostgreSQL",
        "RabbitMQ",
        "events",
    ]);
    for case in cases {
        let (least, most) = spread(&case.rates);
        let cpu = [case.cpu.own, case.cpu.postgres, case.cpu.broker].map(|it| format!("{it:.1}"));
        let [own, postgres, broker] = cpu;
        let cells = [
            case.what.clone(),
            rate(median(&case.rates)),
            rate(least),
            rate(most),
            own,
            postgres,
            broker,
            case.events.to_string(),
        ];
        row(&mut table, cells);
    }
    table
}

fn latencies(report: &Report) -> Table {
    let mut table = new(&[
        "case",
        "asked for",
        "reached",
        "p50",
        "p99",
        "p99.9",
        "most",
    ]);
    for (name, it) in &report.latencies {
        let cells = [
            name.clone(),
            rate(it.rate),
            rate(it.reached),
            figure(it.p50),
            figure(it.p99),
            figure(it.p999),
            figure(it.max),
        ];
        row(&mut table, cells);
    }
    table
}

fn growth(report: &Report) -> Table {
    let mut table = new(&["entries", "events a second"]);
    for (entries, reached) in &report.growth {
        row(&mut table, [entries.to_string(), rate(*reached)]);
    }
    table
}

fn bytes(report: &Report) -> Table {
    let mut table = new(&["table or index", "bytes"]);
    for (name, bytes) in &report.bytes_per_event {
        row(&mut table, [name.clone(), format!("{bytes:.0}")]);
    }
    table
}

fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(ASCII_MARKDOWN)
        .set_header(header.iter().copied());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row<const N: usize>(table: &mut Table, cells: [String; N]) {
    table.add_row(cells);
}

/// Events a second, to three figures.
fn rate(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "–".to_owned();
    }
    let step = 10_f64.powf((value.log10().floor() - 2.0).max(0.0));
    let rounded = (value / step).round() * step;
    let digits = format!("{rounded:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio or a time: as many decimals as mean something.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => rate(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_cut_to_what_they_mean() {
        assert_eq!(rate(43_256.0), "43,300");
        assert_eq!(rate(745.4), "745");
        assert_eq!(rate(1_234_567.0), "1,230,000");
        assert_eq!(rate(0.0), "–");
        assert_eq!(figure(0.854), "0.85");
        assert_eq!(figure(0.0042), "0.0042");
        assert_eq!(figure(47.31), "47.3");
    }

    #[test]
    fn a_report_shows_whether_each_target_is_met() {
        let ratio = |value, target| Ratio {
            what: "a / b".to_owned(),
            values: vec![value],
            target: Some(target),
        };
        let report = Report {
            ratios: vec![
                ratio(0.9, Target::AtLeast(0.85)),
                ratio(3.0, Target::AtMost(2.0)),
            ],
            ..Report::default()
        };
        let text = show(&report);
        let line = |part: &str| {
            text.lines()
                .find(|line| line.contains(part))
                .unwrap()
                .to_owned()
        };
        assert!(
            line("0.90").contains("≥ 0.85") && line("0.90").contains(" met"),
            "{text}"
        );
        assert!(line("3.00").contains("missed"), "{text}");
    }

    #[test]
    fn a_comparison_names_what_both_measured() {
        let report = |rate| Report {
            cases: vec![Case {
                id: "queue.spread".to_owned(),
                what: "spread".to_owned(),
                rates: vec![rate],
                ..Case::default()
            }],
            ..Report::default()
        };
        let text = compare(&report(10_000.0), &report(15_000.0));
        assert!(text.contains("1.50"), "{text}");
    }
}
