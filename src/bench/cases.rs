//! One sample of each case.
//!
//! What must not live here: the order of the rounds, and what is made of samples.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, bail, ensure};

use super::{
    books::Shape,
    broker::Broker,
    kind::{Kind, Sample},
    machine::Spent,
    rig::Bench,
    seed,
    service::{Counted, Outcomes, Watch},
    workload::{Draft, Workload, Workshop},
};

impl Bench {
    /// Measures one case once.
    pub(super) async fn sample(&mut self, kind: Kind, events: usize) -> anyhow::Result<Sample> {
        let events = kind.events(events);
        match kind {
            Kind::Drain => self.drained(events).await,
            Kind::Alone { shape, connections } => self.alone(shape, connections, events).await,
            Kind::Seed => self.one_by_one(events).await,
            Kind::Queue(workload) => self.queue(workload, events).await,
            Kind::Two => self.two(events).await,
            Kind::Ledger { lanes } => self.ledger(lanes, events).await,
        }
    }

    async fn drained(&mut self, events: usize) -> anyhow::Result<Sample> {
        let drafts = self.alone.sample(Workload::Spread, events);
        let broker = needed(self.broker.as_ref())?;
        fill(broker, &self.other_queue, &self.alone, &drafts).await?;
        let before = self.machine.spent();
        let took = broker
            .drain(&self.other_queue, events, self.config.prefetch)
            .await?;
        Ok(self.taken(events, took, &before))
    }

    async fn alone(
        &mut self,
        shape: Shape,
        connections: usize,
        events: usize,
    ) -> anyhow::Result<Sample> {
        let drafts = self.alone.sample(Workload::Spread, events);
        let minimal = shape == Shape::Minimal;
        let standing = if minimal {
            &mut self.minimal
        } else {
            &mut self.standing
        };
        let entries = standing.entries(&drafts, &self.alone, self.clock.now());
        let before = self.machine.spent();
        let took = self
            .books
            .write(shape, entries, self.batch, connections)
            .await?;
        if !minimal {
            self.entries += events as u64;
        }
        Ok(self.taken(events, took, &before))
    }

    async fn one_by_one(&mut self, events: usize) -> anyhow::Result<Sample> {
        let drafts = self.alone.sample(Workload::Spread, events);
        let broker = needed(self.broker.as_ref())?;
        fill(broker, &self.other_queue, &self.alone, &drafts).await?;
        let entries = self
            .standing
            .entries(&drafts, &self.alone, self.clock.now());
        let before = self.machine.spent();
        let took = seed::consume(broker, &self.other_queue, &self.books, entries, None).await?;
        self.entries += events as u64;
        Ok(self.taken(events, took, &before))
    }

    async fn queue(&mut self, workload: Workload, events: usize) -> anyhow::Result<Sample> {
        let workshop = match workload {
            Workload::Shuffled => &mut self.shuffled,
            _ => &mut self.main.workshop,
        };
        let drafts = workshop.sample(workload, events);
        let broker = needed(self.broker.as_ref())?;
        fill(broker, &self.queue, workshop, &drafts).await?;
        let service = &self.main.services[0];
        let watch = Watch::new(events, None);
        let counted = service.counted();
        let before = self.machine.spent();
        let took = service.drain(&watch).await?;
        let sample = self.taken(events, took, &before);
        self.entries += watch.outcomes().entries();
        checked(
            sample,
            watch.outcomes(),
            self.main.services[0].counted() - counted,
        )
    }

    async fn two(&mut self, events: usize) -> anyhow::Result<Sample> {
        let drafts = self.pair.workshop.sample(Workload::Spread, events);
        let broker = needed(self.broker.as_ref())?;
        fill(broker, &self.queue, &self.pair.workshop, &drafts).await?;
        let [one, other] = self.pair.services.as_slice() else {
            bail!("there are not two instances");
        };
        let watch = Watch::new(events, None);
        let counted = one.counted() + other.counted();
        let before = self.machine.spent();
        let (first, second) = tokio::try_join!(one.drain(&watch), other.drain(&watch))?;
        let counted = one.counted() + other.counted() - counted;
        let sample = self.taken(events, first.max(second), &before);
        self.entries += watch.outcomes().entries();
        checked(sample, watch.outcomes(), counted)
    }

    pub(super) async fn ledger(&mut self, lanes: usize, events: usize) -> anyhow::Result<Sample> {
        let team = match &mut self.narrow {
            Some(narrow) if lanes == 1 => narrow,
            _ => &mut self.main,
        };
        let drafts = team.workshop.sample(Workload::Spread, events);
        let bodies: Vec<Vec<u8>> = drafts
            .iter()
            .map(|draft| team.workshop.body(draft))
            .collect();
        let service = &team.services[0];
        let counted = service.counted();
        let before = self.machine.spent();
        let (took, outcomes) = service.feed(&bodies).await?;
        let counted = service.counted() - counted;
        self.entries += outcomes.entries();
        checked(self.taken(events, took, &before), outcomes, counted)
    }

    fn taken(&mut self, events: usize, took: Duration, before: &Spent) -> Sample {
        Sample {
            events,
            took,
            cpu: self.machine.since(before),
            counts: BTreeMap::new(),
        }
    }
}

pub(super) fn needed(broker: Option<&Broker>) -> anyhow::Result<&Broker> {
    broker.context("no broker is configured")
}

/// Fills a queue, and waits until the broker has it all.
pub(super) async fn fill(
    broker: &Broker,
    queue: &str,
    workshop: &Workshop,
    drafts: &[Draft],
) -> anyhow::Result<()> {
    let mut publisher = broker.publisher(queue).await?;
    for draft in drafts {
        publisher.send(&workshop.body(draft)).await?;
    }
    publisher.finish().await
}

/// A sample counts only where everything took effect that should.
fn checked(mut sample: Sample, outcomes: Outcomes, counted: Counted) -> anyhow::Result<Sample> {
    ensure!(
        outcomes.rejected == 0,
        "{} made-up events were refused",
        outcomes.rejected
    );
    sample.counts = [
        ("applied", outcomes.applied as u64),
        ("duplicates", outcomes.duplicate as u64),
        ("parked", outcomes.parked as u64),
        ("batches", counted.batches),
        ("decided again", counted.decided_again),
    ]
    .into();
    Ok(sample)
}
