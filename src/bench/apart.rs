//! What is measured once, apart from the rounds: growth, latency, memory, sizes.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{bail, ensure};
use tokio::time::Instant;

use super::{
    Progress,
    cases::{fill, needed},
    latency::{Latency, Stopwatch},
    memory,
    report::Memory,
    rig::{Bench, STOP_MAX},
    seed,
    service::Watch,
    workload::Workload,
};

/// Entries that are added at once while the books grow.
const GROWTH_STEP: u64 = 250_000;

/// After so long consumers have subscribed.
const SUBSCRIBED: Duration = Duration::from_millis(500);

impl Bench {
    /// Adds entries until the books hold so many; says at how many rows which rate
    /// was reached.
    pub(super) async fn grow(
        &mut self,
        history: u64,
        progress: &Progress,
    ) -> anyhow::Result<Vec<(u64, f64)>> {
        let mut growth = Vec::new();
        while self.entries < history {
            progress.say(&format!(
                "growing the books: {} of {history} entries",
                self.entries
            ));
            let count = GROWTH_STEP.min(history - self.entries);
            let sample = self.ledger(self.config.lanes, count as usize).await?;
            growth.push((self.entries, sample.rate()));
        }
        Ok(growth)
    }

    /// Events a second that are published and committed at the same time.
    pub(super) async fn throughput(&mut self, events: usize) -> anyhow::Result<f64> {
        let drafts = self.main.workshop.sample(Workload::Spread, events);
        let broker = needed(self.broker.as_ref())?;
        let watch = Watch::new(events, None);
        let consuming = self.groups.group();
        self.main.services[0].consume(&watch, &consuming)?;
        tokio::time::sleep(SUBSCRIBED).await;
        let began = Instant::now();
        fill(broker, &self.queue, &self.main.workshop, &drafts).await?;
        watch.finished().await?;
        let took = began.elapsed();
        ensure!(
            consuming.stop(STOP_MAX).await,
            "the consumers did not stop in time"
        );
        self.entries += events as u64;
        Ok(events as f64 / took.as_secs_f64())
    }

    /// How long events take that come at a steady rate.
    pub(super) async fn latency(
        &mut self,
        rate: f64,
        secs: u64,
        seed: bool,
    ) -> anyhow::Result<Latency> {
        let events = (rate * secs as f64) as usize;
        let (workshop, queue) = if seed {
            (&mut self.alone, &self.other_queue)
        } else {
            (&mut self.main.workshop, &self.queue)
        };
        let drafts = workshop.sample(Workload::Spread, events);
        let first = drafts.first().map_or(0, |draft| draft.number);
        let bodies: Vec<Vec<u8>> = drafts.iter().map(|draft| workshop.body(draft)).collect();
        let stopwatch = Stopwatch::new(first, events)?;
        let broker = needed(self.broker.as_ref())?;
        let mut publisher = broker.publisher(queue).await?;
        let reached = if seed {
            let entries = self
                .standing
                .entries(&drafts, &self.alone, self.clock.now());
            let consuming =
                seed::consume(broker, queue, &self.books, entries, Some(stopwatch.told()));
            let publishing = stopwatch.publish(&mut publisher, &bodies, rate);
            tokio::try_join!(consuming, publishing)?.1
        } else {
            let watch = Watch::new(events, Some(stopwatch.told()));
            let consuming = self.groups.group();
            self.main.services[0].consume(&watch, &consuming)?;
            tokio::time::sleep(SUBSCRIBED).await;
            let reached = stopwatch.publish(&mut publisher, &bodies, rate).await?;
            watch.finished().await?;
            consuming.stop(STOP_MAX).await;
            reached
        };
        self.entries += events as u64;
        Ok(stopwatch.latency(rate, reached))
    }

    /// The memory of a service that works off a backlog.
    pub(super) async fn memory(&mut self, backlog: usize) -> anyhow::Result<Option<Memory>> {
        let Some(broker) = &self.broker else {
            return Ok(None);
        };
        let mut left = backlog;
        while left > 0 {
            let some = left.min(50_000);
            let drafts = self.main.workshop.sample(Workload::Spread, some);
            fill(broker, &self.queue, &self.main.workshop, &drafts).await?;
            left -= some;
        }
        let measured = memory::measure(
            &self.config,
            broker,
            &self.queue,
            &mut self.machine,
            backlog,
        );
        measured.await.map(Some)
    }

    /// What an event takes on the disk, by table and index.
    pub(super) async fn bytes_per_event(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let (rows, sizes) = self.books.sizes().await?;
        let each = |(name, bytes): (String, u64)| (name, bytes as f64 / rows.max(1) as f64);
        Ok(sizes.into_iter().map(each).collect())
    }

    /// Whether the books add up after all that.
    pub(super) async fn verify(&self) -> anyhow::Result<String> {
        let verified = self.store.verify().await?;
        if let Some(offence) = verified.offences.first() {
            bail!(
                "the books do not add up: account {}: {}",
                offence.account_id,
                offence.what
            );
        }
        Ok(format!(
            "{} entries of {} accounts add up",
            verified.entries, verified.accounts
        ))
    }
}
