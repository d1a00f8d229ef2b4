//! How long an event takes from being published to being committed, while they
//! come at a steady pace whatever becomes of those before.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior};

use super::{broker::Publisher, service::Told, workload::number_of};

/// How often the publisher looks what is due.
const TICK: Duration = Duration::from_millis(1);

/// A message that is sent later than this after its turn counts from its turn:
/// the wait was the system's, not the timer's.
const LATE: Duration = Duration::from_millis(3);

/// How long events took, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Events asked for in a second.
    pub rate: f64,
    /// Events that were published in a second.
    pub reached: f64,
    /// How many were measured.
    pub events: u64,
    /// Half of them took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// 999 of 1000 took no longer.
    pub p999: f64,
    /// None took longer.
    pub max: f64,
    /// The distribution: a share of all events, and how long they took at most.
    pub curve: Vec<(f64, f64)>,
}

/// When each event of a sample was sent, and how long each took.
#[derive(Debug)]
pub(super) struct Stopwatch {
    began: Instant,
    first: u64,
    /// By number: nanoseconds after `began`; 0: not sent.
    sent: Vec<AtomicU64>,
    took: Mutex<Histogram<u64>>,
}

impl Stopwatch {
    /// For events with so many numbers from the first.
    pub(super) fn new(first: u64, count: usize) -> anyhow::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            began: Instant::now(),
            first,
            sent: (0..count).map(|_| AtomicU64::new(0)).collect(),
            // From a microsecond to ten minutes, to three figures.
            took: Mutex::new(Histogram::new_with_bounds(1, 600_000_000, 3)?),
        }))
    }

    /// What is to be told of each committed event.
    pub(super) fn told(self: &Arc<Self>) -> Told {
        let watch = self.clone();
        Box::new(move |event_id| watch.committed(event_id))
    }

    fn committed(&self, event_id: &str) {
        let now = self.nanos(Instant::now());
        let Some(sent) = number_of(event_id)
            .and_then(|number| number.checked_sub(self.first))
            .and_then(|place| self.sent.get(usize::try_from(place).ok()?))
        else {
            return;
        };
        // A second answer to the same event is none to measure.
        let sent = sent.swap(0, Ordering::AcqRel);
        if sent > 0 {
            let micros = now.saturating_sub(sent) / 1_000;
            let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
            took.saturating_record(micros.max(1));
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Publishes bodies at a steady rate; says how many a second it came to.
    pub(super) async fn publish(
        &self,
        publisher: &mut Publisher,
        bodies: &[Vec<u8>],
        rate: f64,
    ) -> anyhow::Result<f64> {
        let began = Instant::now();
        let turn = |place: usize| began + Duration::from_secs_f64(place as f64 / rate);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut place = 0;
        while place < bodies.len() {
            ticks.tick().await;
            while place < bodies.len() && turn(place) <= Instant::now() {
                let now = Instant::now();
                let at = if now > turn(place) + LATE {
                    turn(place)
                } else {
                    now
                };
                self.sent[place].store(self.nanos(at).max(1), Ordering::Release);
                publisher.send(&bodies[place]).await?;
                place += 1;
            }
        }
        publisher.finish().await?;
        Ok(bodies.len() as f64 / began.elapsed().as_secs_f64())
    }

    /// What was measured.
    pub(super) fn latency(&self, rate: f64, reached: f64) -> Latency {
        let took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        let millis = |micros: u64| micros as f64 / 1_000.0;
        let at = |share: f64| millis(took.value_at_quantile(share));
        let curve = took.iter_quantiles(4);
        Latency {
            rate,
            reached,
            events: took.len(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: millis(took.max()),
            curve: curve
                .map(|it| (it.quantile(), millis(it.value_iterated_to())))
                .collect(),
        }
    }
}
