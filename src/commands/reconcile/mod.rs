//! `onceledger reconcile`: a producer's own list against the ledger.
//!
//! What lives here: the comparison, in bounded memory whatever the length of list
//! and ledger. What must not: reading the list ([`list`]) and the words ([`finding`]).

mod finding;
mod list;

use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    io::{self, BufReader},
    process::ExitCode,
    sync::Arc,
};

use clap::Args;

use self::{
    finding::{Finding, Kind, Summary},
    list::{BadLine, Claim},
};
use super::{Unusable, output::print, prepare};
use crate::{
    app::books::{self, Schema},
    clock::Clock,
    config::{DATABASE, Flags, LOGS, Purpose},
    domain::{EventKey, Identity, RESERVED_PREFIX, Reason, Status, Timestamp},
    store::{EventFilter, EventView, Store},
};

/// Lines that are looked up in one statement, and events of one page.
const CHUNK: usize = 500;

/// Compare a producer's own list of events with the ledger
///
/// The list is CSV with a header (source, event_id, account_id, amount; type and
/// currency where known; other columns are passed over) or one JSON object a line with
/// the same names. Told is what is missing (it took no effect here, and why), what
/// differs, and what took effect here for the same sources and is not in the list. Keeps
/// about 24 bytes a line in memory. Changes nothing.
///
/// Exits with 0 where all agrees, with 1 where anything does not, and with 2 where the
/// list or the database can't be read.
///
/// Examples:
///   onceledger reconcile orders.csv --source orders
///   onceledger reconcile - --since 2026-11-01T00:00:00Z --json < november.ndjson
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Reconcile {
    /// The list; - is standard input
    #[arg(value_name = "FILE|-")]
    file: String,

    /// The source of lines that name none
    #[arg(long, value_name = "NAME")]
    source: Option<String>,

    /// Whose ledger is compared
    #[arg(long, default_value = "default", value_name = "NAME")]
    tenant: String,

    /// Extra is only what was applied from this moment on (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,

    /// Extra is only what was applied before this moment (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,

    /// Print JSON, an object a line, the summary last
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    flags: Flags<{ DATABASE | LOGS }>,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text)
        .ok_or_else(|| "a time with an offset is needed, such as 2026-11-30T08:00:00Z".to_owned())
}

impl Reconcile {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let config = prepare(&self.flags.0, Purpose::Look)?.config;
        let unusable = |error: &dyn std::fmt::Display| Unusable(error.to_string());
        let claims = self
            .claims()
            .map_err(|error| Unusable(format!("{} can't be read: {error}", self.file)))?;
        let store = books::open(&config, Schema::Check)
            .await
            .map_err(|error| unusable(&error))?;
        let mut comparison = Comparison {
            store: store.clone(),
            tenant: self.tenant.as_str().into(),
            since: self.since.unwrap_or(Timestamp(i64::MIN)),
            // What is applied while this works is nobody's omission.
            until: self.until.unwrap_or_else(|| Clock::system().now()),
            json: self.json,
            seen: Vec::new(),
            sources: self.source.iter().cloned().collect(),
            summary: Summary::default(),
        };
        let compared = comparison.run(claims).await;
        store.close().await;
        compared.map_err(|error| unusable(&error))?;
        let summary = comparison.summary;
        print(&match self.json {
            true => serde_json::to_string(&summary)? + "\n",
            false => summary.text(),
        })?;
        Ok(match summary.agrees() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    fn claims(&self) -> anyhow::Result<list::Claims> {
        match self.file.as_str() {
            "-" => list::read(BufReader::new(io::stdin()), self.source.clone()),
            file => list::read(BufReader::new(File::open(file)?), self.source.clone()),
        }
    }
}

/// One comparison at work.
struct Comparison {
    store: Arc<dyn Store>,
    tenant: Arc<str>,
    since: Timestamp,
    until: Timestamp,
    json: bool,
    /// Every identity of the list with its line.
    seen: Vec<(EventKey, u64)>,
    sources: BTreeSet<String>,
    summary: Summary,
}

impl Comparison {
    async fn run(&mut self, claims: list::Claims) -> anyhow::Result<()> {
        let mut chunk = Vec::with_capacity(CHUNK);
        for claim in claims {
            self.summary.lines += 1;
            match claim {
                Ok(claim) => chunk.push(claim),
                Err(BadLine { line, what }) => self.tell(Finding {
                    finding: Kind::Unreadable,
                    line: Some(line),
                    source: None,
                    event_id: None,
                    what,
                })?,
            }
            if chunk.len() == CHUNK {
                self.look_up(&chunk).await?;
                chunk.clear();
            }
        }
        self.look_up(&chunk).await?;
        self.twice()?;
        for source in self.sources.clone() {
            self.extra(&source).await?;
        }
        Ok(())
    }

    /// The claims against the ledger.
    async fn look_up(&mut self, claims: &[Claim]) -> anyhow::Result<()> {
        let identity =
            |it: &Claim| Identity::new(&*self.tenant, it.source.as_str(), it.event_id.as_str());
        let identities: Vec<Identity> = claims.iter().map(identity).collect();
        let views = self.store.events_of(&identities).await?;
        let known: HashMap<EventKey, &EventView> = views
            .iter()
            .map(|view| (view.record.event.identity.key(), view))
            .collect();
        for (claim, identity) in claims.iter().zip(&identities) {
            self.seen.push((identity.key(), claim.line));
            if !self.sources.contains(&claim.source) {
                self.sources.insert(claim.source.clone());
            }
            let found = known.get(&identity.key());
            match disagreement(claim, found.copied()) {
                None => self.summary.agreeing += 1,
                Some((finding, what)) => self.tell(Finding {
                    finding,
                    line: Some(claim.line),
                    source: Some(claim.source.clone()),
                    event_id: Some(claim.event_id.clone()),
                    what,
                })?,
            }
        }
        Ok(())
    }

    /// Identities that stand more than once in the list.
    fn twice(&mut self) -> anyhow::Result<()> {
        self.seen.sort_unstable();
        let mut lines: Vec<(u64, u64)> = self
            .seen
            .windows(2)
            .filter(|pair| pair[0].0 == pair[1].0)
            .map(|pair| (pair[1].1, pair[0].1))
            .collect();
        lines.sort_unstable();
        for (line, before) in lines {
            self.tell(Finding {
                finding: Kind::Twice,
                line: Some(line),
                source: None,
                event_id: None,
                what: format!("the same event stands on line {before}"),
            })?;
        }
        Ok(())
    }

    /// What took effect for a source and is not in the list.
    async fn extra(&mut self, source: &str) -> anyhow::Result<()> {
        if source.starts_with(RESERVED_PREFIX) {
            return Ok(());
        }
        let filter = EventFilter {
            status: Some(Status::Applied),
            source: Some(source.to_owned()),
            ..EventFilter::default()
        };
        let mut before = None;
        loop {
            let limit = i64::try_from(CHUNK)?;
            let page = self
                .store
                .events(&self.tenant, &filter, before, limit)
                .await?;
            for view in &page.views {
                let record = &view.record;
                let key = record.event.identity.key();
                let within = (self.since..self.until).contains(&record.decided_at);
                if within
                    && self
                        .seen
                        .binary_search_by_key(&key, |(key, _)| *key)
                        .is_err()
                {
                    let content = &record.event.content;
                    self.tell(Finding {
                        finding: Kind::Extra,
                        line: None,
                        source: Some(source.to_owned()),
                        event_id: Some(record.event.identity.event_id.to_string()),
                        what: format!(
                            "a {} over {} on account {}, applied at {}, is not in the list",
                            content.kind.as_str(),
                            content.amount,
                            content.account_id,
                            record.decided_at.rfc3339()
                        ),
                    })?;
                }
            }
            before = page.before;
            if before.is_none() {
                return Ok(());
            }
        }
    }

    fn tell(&mut self, finding: Finding) -> anyhow::Result<()> {
        self.summary.count(finding.finding);
        print(&match self.json {
            true => serde_json::to_string(&finding)? + "\n",
            false => finding.text(),
        })?;
        Ok(())
    }
}

/// What a claim and the ledger disagree in.
fn disagreement(claim: &Claim, found: Option<&EventView>) -> Option<(Kind, String)> {
    let Some(view) = found else {
        return Some((Kind::Missing, "the ledger knows no such event".to_owned()));
    };
    let record = &view.record;
    let content = &record.event.content;
    let mut differing = Vec::new();
    let mut compare = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            differing.push(format!("{what} {theirs} in the list, {ours} in the ledger"));
        }
    };
    compare(
        "account",
        content.account_id.to_string(),
        claim.account.clone(),
    );
    compare(
        "amount",
        content.amount.to_string(),
        claim.amount.to_string(),
    );
    if let Some(kind) = claim.kind {
        compare(
            "type",
            content.kind.as_str().to_owned(),
            kind.as_str().to_owned(),
        );
    }
    let currency = content.currency.as_ref().or(view.currency.as_ref());
    if let (Some(theirs), Some(ours)) = (&claim.currency, currency) {
        compare("currency", ours.to_string(), theirs.to_string());
    }
    if !differing.is_empty() {
        return Some((Kind::Differing, differing.join("; ")));
    }
    if record.status == Status::Applied {
        return None;
    }
    let reason = record.reason.map_or("", Reason::as_str);
    let status = record.status.as_str();
    let since = record.decided_at.rfc3339();
    Some((
        Kind::Missing,
        format!("it took no effect: {status} {reason} since {since}"),
    ))
}
