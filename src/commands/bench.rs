//! `onceledger bench`: measures the service beside its own broker and database.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Args, value_parser};

use super::{Unusable, output::print};
use crate::{
    bench::{self, Options, Progress, plot, report::Report, table},
    clock,
    config::{self, DATABASE, Flags, LogFormat, Purpose, QUEUES, WRITING},
    telemetry,
};

/// What is logged: trouble, not the coming and going of what is measured.
const LOG: &str = "warn,lapin=off,sqlx=error";

/// Measure the service beside its own broker and database
///
/// Works in a schema (or a file) and with queues of its own on the configured
/// servers, and removes them. In one run, round after round: the broker alone, the
/// database alone, a consumer that handles one event at a time, and onceledger, so
/// that the ratios mean something on a machine that is not idle. Without AMQP_URL
/// only what needs no broker is measured. Loads servers as much as they bear: not
/// for ones that others work with.
///
/// Examples:
///   onceledger bench --quick
///   DATABASE_URL=postgres://… AMQP_URL=amqp://… onceledger bench --json now.json --plot now.svg
///   onceledger bench --compare before.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Bench {
    /// Less than a minute: small samples, few rounds
    #[arg(long)]
    quick: bool,

    /// Rounds that count [default: 5, quick: 2]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,

    /// Events of one sample [default: 100000, quick: 10000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1_000..=10_000_000))]
    events: Option<u32>,

    /// Accounts that they are spread over [default: 100000, quick: 10000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(100..=10_000_000))]
    accounts: Option<u32>,

    /// Entries that the books hold before anything is measured
    #[arg(long, value_name = "N", default_value_t = 0)]
    history: u64,

    /// Messages that wait while memory is measured; 0: it is not [default: 200000, quick: 0]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(0..=20_000_000))]
    backlog: Option<u32>,

    /// Seconds of each measurement of latency; 0: none [default: 10, quick: 2]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(0..=600))]
    latency_secs: Option<u64>,

    /// Only cases whose id in the JSON begins so: queue.spread,ledger,database.batch
    #[arg(long, value_name = "CASE,…", value_delimiter = ',')]
    only: Vec<String>,

    /// By what everything that is random is decided
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write the report as JSON too; - is standard output, instead of the tables
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,

    /// Draw throughput and latency as an SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Tell what changed against an earlier report (a file that --json wrote)
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,

    #[command(flatten)]
    flags: Flags<{ DATABASE | QUEUES | WRITING }>,
}

impl Bench {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let earlier = self.earlier()?;
        let config = config::load(&self.flags.0, Purpose::Serve)?.config;
        telemetry::logs::start(LOG, LogFormat::Text)?;
        let options = self.options();
        let progress = Progress::new(bench::steps(&config, &options));
        let stop = async {
            // Where Ctrl-C can't be listened to, it ends the program at once.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let run = clock::new_id().as_u64_pair().1;
        let report = bench::run(&config, &options, run, &progress, stop).await?;
        self.tell(&report, earlier.as_ref())?;
        Ok(ExitCode::SUCCESS)
    }

    /// The report to compare with, read before anything is measured.
    fn earlier(&self) -> anyhow::Result<Option<Report>> {
        let Some(file) = &self.compare else {
            return Ok(None);
        };
        let name = file.display();
        let text = std::fs::read_to_string(file)
            .map_err(|error| Unusable(format!("--compare: {name} can't be read: {error}")))?;
        let report = serde_json::from_str(&text).map_err(|error| {
            Unusable(format!("--compare: {name} is no report of bench: {error}"))
        })?;
        Ok(Some(report))
    }

    fn options(&self) -> Options {
        let of = |given: Option<u32>, whole: u32, quick: u32| {
            given.unwrap_or(if self.quick { quick } else { whole })
        };
        Options {
            rounds: of(self.rounds, 5, 2) as usize,
            events: of(self.events, 100_000, 10_000) as usize,
            accounts: of(self.accounts, 100_000, 10_000),
            history: self.history,
            backlog: of(self.backlog, 200_000, 0) as usize,
            latency_secs: self.latency_secs.unwrap_or(if self.quick { 2 } else { 10 }),
            only: self.only.clone(),
            seed: self.seed,
            arguments: self.arguments(),
        }
    }

    /// What decides the figures, as it was given.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.quick {
            arguments.push("--quick".to_owned());
        }
        let mut put = |name: &str, value: Option<String>| {
            arguments.extend(value.map(|value| format!("--{name} {value}")));
        };
        put("rounds", self.rounds.map(|it| it.to_string()));
        put("events", self.events.map(|it| it.to_string()));
        put("accounts", self.accounts.map(|it| it.to_string()));
        put(
            "history",
            (self.history > 0).then(|| self.history.to_string()),
        );
        put("backlog", self.backlog.map(|it| it.to_string()));
        put("latency-secs", self.latency_secs.map(|it| it.to_string()));
        put("only", (!self.only.is_empty()).then(|| self.only.join(",")));
        put("seed", (self.seed != 1).then(|| self.seed.to_string()));
        arguments
    }

    fn tell(&self, report: &Report, earlier: Option<&Report>) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(report)?;
        match self.json.as_deref() {
            Some(file) if file.as_os_str() == "-" => print(&format!("{json}\n"))?,
            Some(file) => {
                write(file, &json)?;
                print(&table::show(report))?;
            }
            None => print(&table::show(report))?,
        }
        if let Some(file) = &self.plot {
            write(file, &plot::draw(report)?)?;
        }
        if let Some(earlier) = earlier {
            print(&format!("\n{}", table::compare(earlier, report)))?;
        }
        Ok(())
    }
}

fn write(file: &std::path::Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("{} can't be written", file.display()))
}
