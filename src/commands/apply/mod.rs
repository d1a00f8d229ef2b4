//! `onceledger apply`: events of a file, a line each, through the same reading
//! and the same ledger as those of a queue.

mod lines;
mod report;
mod summary;
mod writer;

use std::{
    cell::RefCell,
    io::{self, IsTerminal},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use futures_util::future::join_all;
use tokio::{
    fs::File,
    io::{AsyncBufRead, BufReader},
    sync::mpsc,
};

use self::{
    lines::{Line, Lines},
    report::Report,
    writer::{Aside, Job},
};
use super::{Unusable, output::print, prepare};
use crate::{
    app::books::{self, Schema},
    clock::Clock,
    config::{Config, DATABASE, Flags, LIMITS, LOGS, Purpose, WRITING},
    copies::Copies,
    domain::{Submission, Work},
    envelope::{self, Arrival, Header, Origin},
    ledger::Ledger,
    store::Store,
    tasks::Tasks,
    telemetry::Metrics,
};

/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;

/// How long the counts of copies may take to be written at the end.
const LAST_FLUSH: Duration = Duration::from_secs(5);

/// Apply events from a file, one JSON object a line (NDJSON)
///
/// Each line takes the same path as a message from a queue: applied once, however
/// often the file is applied. Events of an account are applied in the order of the
/// file. A line that is no event becomes a dead letter of the queue "apply", with
/// file and line. Where the database goes away in the middle, this waits for it.
///
/// The source is the line's own "source", else "cli".
///
/// Examples:
///   onceledger apply events.ndjson
///   zcat events.ndjson.gz | onceledger apply - --strict
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Apply {
    /// The file; - is standard input
    #[arg(default_value = "-", value_name = "FILE|-")]
    file: String,

    /// Exit with 1 where an event was rejected or a line became a dead letter
    #[arg(long)]
    strict: bool,

    /// Whose ledger the events are for
    #[arg(long, default_value = "default", value_name = "NAME")]
    tenant: String,

    #[command(flatten)]
    flags: Flags<{ DATABASE | WRITING | LIMITS | LOGS }>,
}

type Input = Box<dyn AsyncBufRead + Unpin>;

impl Apply {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let config = prepare(&self.flags.0, Purpose::Write)?.config;
        if !(1..=128).contains(&self.tenant.len()) {
            return Err(Unusable("--tenant: 1 to 128 bytes are allowed".to_owned()).into());
        }
        let (input, bytes) = self.input().await?;
        let store = books::open(&config, Schema::Check).await?;
        let started = Instant::now();
        let report = RefCell::new(Report::new(bytes));
        let read = self.apply(&config, &store, input, &report).await;
        store.close().await;
        let report = report.into_inner();
        report.end();
        self.tell(&report, started.elapsed())?;
        read?;
        let clean = report.summary.nothing_refused() || !self.strict;
        Ok(if clean && report.lost == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// What to read, and how long it is where that is known.
    async fn input(&self) -> anyhow::Result<(Input, Option<u64>)> {
        if self.file == "-" {
            if io::stdin().is_terminal() {
                eprintln!("reading events from the terminal, one a line; Ctrl-D ends");
            }
            let input = BufReader::with_capacity(READ_BYTES, tokio::io::stdin());
            return Ok((Box::new(input), None));
        }
        let unreadable = |error| Unusable(format!("{} can't be read: {error}", self.file));
        let file = File::open(&self.file).await.map_err(unreadable)?;
        let about = file.metadata().await.map_err(unreadable)?;
        if about.is_dir() {
            return Err(Unusable(format!("{} is a directory", self.file)).into());
        }
        let bytes = about.is_file().then_some(about.len());
        Ok((Box::new(BufReader::with_capacity(READ_BYTES, file)), bytes))
    }

    /// Reads and writes side by side until the input ends.
    async fn apply(
        &self,
        config: &Config,
        store: &Arc<dyn Store>,
        input: Input,
        report: &RefCell<Report>,
    ) -> anyhow::Result<()> {
        let (clock, copies, metrics) = (Clock::system(), Copies::default(), Metrics::default());
        let tasks = Tasks::new();
        let flushing = copies
            .clone()
            .run(store.clone(), clock.clone(), tasks.stopping());
        tasks.spawn("copies", flushing);
        let ledgers = Ledger::for_lanes(config.lanes, store, &clock, &metrics, &copies);
        let (senders, writers): (Vec<_>, Vec<_>) = ledgers
            .into_iter()
            .map(|ledger| {
                let (sender, jobs) = mpsc::channel(config.batch_max * 2);
                let writer = writer::write(ledger, jobs, config.batch_max, report);
                (sender, writer)
            })
            .unzip();
        let aside = Aside::new(&**store, &clock, report);
        let reader = self.read(config, input, senders, aside, report);
        let (read, _) = tokio::join!(reader, join_all(writers));
        tasks.stop(LAST_FLUSH).await;
        read
    }

    /// Hands each event to the writer of its account. Ends the writers by
    /// dropping what they listen to.
    async fn read(
        &self,
        config: &Config,
        input: Input,
        writers: Vec<mpsc::Sender<Job>>,
        mut aside: Aside<'_>,
        report: &RefCell<Report>,
    ) -> anyhow::Result<()> {
        let origin = Origin {
            tenant: self.tenant.as_str().into(),
            queue: "apply".into(),
            source: "cli".into(),
            scope: None,
            kind: None,
            body_names_source: true,
            event_bytes_max: config.event_bytes_max,
        };
        let mut lines = Lines::new(input, config.event_bytes_max);
        let mut broken = None;
        loop {
            let line = match lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    broken = Some(Unusable(format!("{} can't be read on: {error}", self.file)));
                    break;
                }
            };
            report.borrow().read(line.length);
            if line.is_blank() {
                continue;
            }
            match envelope::read(&self.arrival(&line), &origin) {
                Ok(reading) => {
                    let work = Work::submit(Submission {
                        event: reading.event,
                        raw: reading.raw,
                        if_version: None,
                        strict: false,
                    });
                    let writer = &writers[work.account.share(writers.len())];
                    let job = Job {
                        line: line.number,
                        work,
                    };
                    // A writer ends only after its sender is dropped.
                    let _ = writer.send(job).await;
                }
                Err(malformed) => {
                    report.borrow_mut().dead(
                        line.number,
                        malformed.reason.as_str(),
                        &malformed.message,
                    );
                    aside
                        .put(line.number, malformed.letter(origin.tenant.clone()))
                        .await;
                }
            }
        }
        drop(writers);
        aside.flush().await;
        broken.map_or(Ok(()), |error| Err(error.into()))
    }

    fn arrival<'a>(&self, line: &'a Line) -> Arrival<'a> {
        let number = |number: u64| Header::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        let mut headers = vec![
            ("file".to_owned(), Header::Text(self.file.clone())),
            ("line".to_owned(), number(line.number)),
        ];
        if line.length > line.bytes.len() as u64 + 2 {
            headers.push(("line_bytes".to_owned(), number(line.length)));
        }
        Arrival {
            body: &line.bytes,
            content_type: Some("application/json"),
            headers,
            ..Arrival::default()
        }
    }

    fn tell(&self, report: &Report, took: Duration) -> io::Result<()> {
        for line in report.summary.bad_lines() {
            eprintln!("{line}");
        }
        print(&format!(
            "{} lines from {} in {:.1} s\n{}",
            report.summary.total(),
            if self.file == "-" {
                "standard input"
            } else {
                &self.file
            },
            took.as_secs_f64(),
            report.summary
        ))
    }
}
