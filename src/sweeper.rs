//! The back-stop behind parked events: releases what is due, and lets die what
//! waited too long.
//!
//! What lives here: when an event may expire, and one bounded step of sweeping.
//! What must not: rules (a release or an expiry is decided in
//! [`crate::domain`]), and SQL. Everything is asked through the lanes.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    domain::{Answer, Ask, Work},
    lane::Lanes,
    ledger::Failure,
    store::{Store, StoreError},
};

/// Most accounts released and most events expired at a time.
const AT_A_TIME: i64 = 500;

/// How often one step asks for what is due before it leaves the rest to the next.
const ROUNDS_MAX: usize = 20;

/// What the queues look like to somebody who wonders whether an event may die:
/// what it waits for may still be in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// No broker is configured: nothing can be waiting anywhere.
    None,
    /// A broker or a consumer is away.
    Away,
    /// They are consumed.
    Consumed {
        /// How long without an interruption.
        undisturbed: Duration,
        /// Whether each was seen empty since the start or the last interruption.
        seen_empty: bool,
    },
}

/// Looks at the queues.
pub type LookAtQueues = Box<dyn Fn() -> Queues + Send + Sync>;

/// When a parked event dies.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// It has waited so long, in seconds.
    pub park_limit_secs: u64,
    /// The queues are consumed for so long, in seconds, or were seen empty.
    pub expiry_grace_secs: u64,
}

/// Sweeps, step by step.
pub struct Sweeper {
    store: Arc<dyn Store>,
    lanes: Lanes,
    clock: Clock,
    limits: Limits,
    queues: LookAtQueues,
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Accounts on which something was due.
    pub released: usize,
    /// Events that died.
    pub expired: usize,
}

impl Sweeper {
    /// A sweeper.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        lanes: Lanes,
        clock: Clock,
        limits: Limits,
        queues: LookAtQueues,
    ) -> Self {
        Self {
            store,
            lanes,
            clock,
            limits,
            queues,
        }
    }

    /// Releases what is due; then, if nothing is due any more and the queues are
    /// calm, lets die what waited too long.
    ///
    /// # Errors
    /// [`Failure`], where the store or a lane did not do what was asked. Whatever
    /// was not done is found again by the next step.
    pub async fn step(&self) -> Result<Swept, Failure> {
        let calm = self.is_calm();
        let mut swept = Swept::default();
        let all_released = self.release(&mut swept).await?;
        if all_released && calm {
            self.expire(&mut swept).await?;
        }
        Ok(swept)
    }

    /// Steps for ever, `every` so often.
    pub async fn run(self, every: Duration, stop: CancellationToken) {
        while stop
            .run_until_cancelled(tokio::time::sleep(every))
            .await
            .is_some()
        {
            match self.step().await {
                Ok(swept) if swept == Swept::default() => {}
                Ok(swept) => tracing::info!(
                    accounts_released = swept.released,
                    events_expired = swept.expired,
                    "swept"
                ),
                // The database's watcher tells of an outage; once is enough.
                Err(Failure::Unavailable(StoreError::Away(_)) | Failure::Stopping) => {}
                Err(error) => tracing::warn!(%error, "a sweep was not finished; the next goes on"),
            }
        }
    }

    /// Answers whether nothing is due any more.
    async fn release(&self, swept: &mut Swept) -> Result<bool, Failure> {
        let mut before = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let due = self.store.due(AT_A_TIME).await;
            let due = due.map_err(Failure::Unavailable)?;
            if due.is_empty() {
                return Ok(true);
            }
            if due == before {
                // More than one transaction releases, or a fault: the next step
                // goes on, and nothing dies until then.
                tracing::debug!(accounts = due.len(), "still due after a release");
                return Ok(false);
            }
            let asks = due.iter().map(|account| {
                let (account, ask) = (account.clone(), Ask::Release);
                self.lanes.ask(Work { account, ask })
            });
            for answer in join_all(asks).await {
                answer?;
                swept.released += 1;
            }
            before = due;
        }
        Ok(false)
    }

    async fn expire(&self, swept: &mut Swept) -> Result<(), Failure> {
        let parked_before = self.clock.now().minus_secs(self.limits.park_limit_secs);
        let waiting = self.store.expired(parked_before, AT_A_TIME).await;
        let asks = waiting
            .map_err(Failure::Unavailable)?
            .into_iter()
            .map(|waiting| {
                let ask = Ask::Expire {
                    key: waiting.key,
                    parked_before,
                    raw: waiting.raw,
                };
                let account = waiting.account;
                self.lanes.ask(Work { account, ask })
            });
        for answer in join_all(asks).await {
            if let Answer::Expired(Some(_)) = answer? {
                swept.expired += 1;
            }
        }
        Ok(())
    }

    /// Whether what an event waits for can't be on its way any more, or has had
    /// its time.
    fn is_calm(&self) -> bool {
        match (self.queues)() {
            Queues::None => true,
            Queues::Away => false,
            Queues::Consumed {
                undisturbed,
                seen_empty,
            } => seen_empty || undisturbed.as_secs() >= self.limits.expiry_grace_secs,
        }
    }
}
