//! THE path, on one screen: load what the batch touches, decide, commit; where
//! what was decided on turned out stale, load and decide again.

mod foresee;
mod memory;
mod novelty;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backon::{BackoffBuilder, ExponentialBuilder};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;

pub use self::foresee::foresee;
use self::{memory::Memory, novelty::Novelty};
use crate::{
    clock::Clock,
    copies::Copies,
    domain::{AccountKey, Answer, Ask, Book, Decided, Letter, Page, Reason, Status, Verdict, Work},
    store::{Committed, Store, StoreError},
    telemetry::{EventLabels, LetterLabels, Metrics},
};

/// Accounts that the ledgers of a process remember together between batches; one
/// takes about 250 bytes.
const CACHED_ACCOUNTS: usize = 120_000;

/// How long an account that somebody else holds is left alone before it is
/// looked at again.
const LOCKED_RECHECK: Duration = Duration::from_millis(500);

/// How often a batch is decided again without any progress.
const ATTEMPTS: usize = 12;

/// Decides and commits batches, one after the other. A process has one for each
/// of its lanes; between them and other processes stands only the store.
pub struct Ledger {
    store: Arc<dyn Store>,
    clock: Clock,
    metrics: Metrics,
    copies: Copies,
    memory: Memory,
    novelty: Novelty,
    /// Accounts that somebody else holds, and until when nobody asks again.
    locked: FxHashMap<AccountKey, Instant>,
}

/// Why an ask has no answer. Nothing of it was recorded, or, after
/// [`Failure::Unavailable`], perhaps: then the same ask again finds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Still stale, or still locked, after all attempts.
    #[error("the account is too busy right now; send the same again")]
    Busy,
    /// The database is away, full or broken.
    #[error(transparent)]
    Unavailable(StoreError),
    /// The database refuses this event for ever; it is kept as a dead letter.
    #[error("the database refuses this event for ever (code {code}); it is kept as a dead letter")]
    Refused {
        /// The database's code.
        code: String,
    },
    /// The service is shutting down.
    #[error("the service is shutting down; send the same again")]
    Stopping,
}

impl Ledger {
    /// One ledger alone, with an empty cache.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, metrics: Metrics, copies: Copies) -> Self {
        Self::remembering(CACHED_ACCOUNTS, store, clock, metrics, copies)
    }

    /// A ledger for each lane, with empty caches.
    #[must_use]
    pub fn for_lanes(
        lanes: usize,
        store: &Arc<dyn Store>,
        clock: &Clock,
        metrics: &Metrics,
        copies: &Copies,
    ) -> Vec<Self> {
        let each = CACHED_ACCOUNTS / lanes.max(1);
        (0..lanes)
            .map(|_| {
                let (store, clock) = (store.clone(), clock.clone());
                Self::remembering(each, store, clock, metrics.clone(), copies.clone())
            })
            .collect()
    }

    fn remembering(
        accounts: usize,
        store: Arc<dyn Store>,
        clock: Clock,
        metrics: Metrics,
        copies: Copies,
    ) -> Self {
        Self {
            store,
            clock,
            metrics,
            copies,
            memory: Memory::of(accounts),
            novelty: Novelty::new(),
            locked: FxHashMap::default(),
        }
    }

    /// The same, but it takes events for new without a look-up from the start, and
    /// again right after each mistake: for tests of wrong guesses.
    #[must_use]
    pub fn trusting(mut self) -> Self {
        self.novelty = Novelty::trusting();
        self
    }

    /// Settles a batch in arrival order and answers each ask, in the same order.
    pub async fn settle(&mut self, works: &[Work]) -> Vec<Result<Answer, Failure>> {
        let mut answers = self.busy(works).await;
        let mut delays = delays();
        loop {
            let open: Vec<usize> = (0..works.len()).filter(|i| answers[*i].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let batch: Vec<&Work> = open.iter().map(|i| &works[*i]).collect();
            let harvest = match self.round(&batch).await {
                Ok(harvest) => harvest,
                Err(error) => self.after(error, &batch).await,
            };
            for (place, answer) in open.iter().zip(harvest.answers) {
                answers[*place] = answer;
            }
            if harvest.progress {
                delays = self::delays();
            } else if let Some(delay) = delays.next() {
                tokio::time::sleep(delay).await;
            } else {
                break;
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or(Err(Failure::Busy)))
            .collect()
    }

    /// Answers those at once whose accounts are known to be held by somebody else:
    /// a batch that waits for one of them again and again would hold up all its
    /// neighbours. Every [`LOCKED_RECHECK`] one cheap look tells whether they are
    /// still held.
    async fn busy(&mut self, works: &[Work]) -> Vec<Option<Result<Answer, Failure>>> {
        if self.locked.is_empty() {
            return vec![None; works.len()];
        }
        let now = Instant::now();
        let due: Vec<AccountKey> = self
            .locked
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(account, _)| account.clone())
            .collect();
        if !due.is_empty() {
            // A store that can't say will say so when it is written.
            let still = self.store.locked(&due).await.unwrap_or_default();
            for account in due {
                self.locked.remove(&account);
            }
            self.hold(still);
        }
        let busy = |work: &Work| self.locked.contains_key(&work.account);
        works
            .iter()
            .map(|work| busy(work).then_some(Err(Failure::Busy)))
            .collect()
    }

    /// Remembers accounts that somebody else holds.
    fn hold(&mut self, accounts: impl IntoIterator<Item = AccountKey>) {
        let until = Instant::now() + LOCKED_RECHECK;
        self.locked
            .extend(accounts.into_iter().map(|account| (account, until)));
    }

    /// Load, decide, commit.
    async fn round(&mut self, works: &[&Work]) -> Result<Harvest, StoreError> {
        let (pages, recalled) = self.pages(works).await?;
        let doubtful = self.novelty.doubtful(works);
        let known = if doubtful.is_empty() {
            Vec::new()
        } else {
            self.store.lookup(&doubtful).await?
        };
        let found = known.iter().map(|record| record.event.identity.key());
        self.novelty.found(found);
        let decided = Book::decide(pages, known, works, self.clock.now());
        let committed = if decided.plan.is_empty() {
            Committed::default()
        } else {
            self.metrics.batches.inc();
            let committed = self.store.commit(&decided.plan).await?;
            for place in 0..recalled {
                self.memory.tested(!committed.stale.contains(&place));
            }
            committed
        };
        let harvest = self.conclude(decided, &committed);
        let answered = works.iter().zip(&harvest.answers);
        let decided = answered.filter(|(_, answer)| answer.is_some());
        self.novelty
            .decided(decided.filter_map(|(work, _)| work.key()));
        Ok(harvest)
    }

    /// The pages of all accounts that the batch names, and how many of them, the
    /// first ones, are as they were left and not read anew.
    async fn pages(
        &mut self,
        works: &[&Work],
    ) -> Result<(Vec<(AccountKey, Page)>, usize), StoreError> {
        let mut named = FxHashSet::default();
        let mut pages = Vec::with_capacity(works.len());
        let mut missing = Vec::new();
        for work in works {
            if !named.insert(&work.account) {
                continue;
            }
            match self.memory.recall(&work.account) {
                Some(page) => pages.push((work.account.clone(), page)),
                None => missing.push(work.account.clone()),
            }
        }
        let recalled = pages.len();
        if !missing.is_empty() {
            let read = self.store.load(&missing).await?;
            for (account, page) in missing.into_iter().zip(read) {
                self.memory.read(&account, &page);
                pages.push((account, page));
            }
        }
        Ok((pages, recalled))
    }

    /// After the commit: remembers pages, counts, and gives out the answers of
    /// those accounts that were not stale.
    fn conclude(&mut self, decided: Decided, committed: &Committed) -> Harvest {
        let stale: FxHashSet<usize> = committed.stale.iter().copied().collect();
        let mut sequels = decided.sequels;
        for (place, row) in &committed.rows {
            if let Some(account) = &mut sequels[*place].page.account {
                account.row = *row;
            }
        }
        // What a batch comes to is few different things, each counted once.
        let mut tally: FxHashMap<(&'static str, Option<Reason>), u64> = FxHashMap::default();
        let mut count = |outcome, reason| *tally.entry((outcome, reason)).or_default() += 1;
        for (place, (change, sequel)) in decided.plan.accounts.iter().zip(sequels).enumerate() {
            if stale.contains(&place) {
                self.memory.forget(&change.key);
                continue;
            }
            self.copies.note(&sequel.copies);
            for (status, reason) in sequel.released {
                count(status.as_str(), reason);
            }
            for letter in &change.letters {
                self.metrics
                    .letters
                    .get_or_create(&LetterLabels::of(letter))
                    .inc();
            }
            if sequel.unfinished {
                // What waits behind the page must be read before anything else is judged.
                self.memory.forget(&change.key);
            } else {
                self.memory.keep(change.key.clone(), sequel.page);
            }
        }
        let answers: Vec<Option<Answer>> = decided
            .answers
            .into_iter()
            .zip(&decided.account_of)
            .map(|(answer, place)| answer.filter(|_| !stale.contains(place)))
            .collect();
        for answer in answers.iter().flatten() {
            match answer {
                Answer::Event(told) => {
                    let (outcome, reason) = told.label();
                    count(outcome, reason);
                }
                // A replay of what has taken effect is no copy that was sent.
                Answer::Replayed(told) if told.verdict != Verdict::Duplicate => {
                    let (outcome, reason) = told.label();
                    count(outcome, reason);
                }
                Answer::Discarded { fresh: true, .. } => {
                    count(Status::Discarded.as_str(), Some(Reason::Discarded));
                }
                Answer::Expired(Some(reason)) => {
                    count(Status::Dead.as_str(), Some(*reason));
                }
                _ => {}
            }
        }
        for ((outcome, reason), count) in tally {
            self.count(outcome, reason, count);
        }
        let stale_asks = decided
            .account_of
            .iter()
            .filter(|place| stale.contains(place))
            .count();
        self.metrics.decided_again.inc_by(stale_asks as u64);
        let wrote = !decided.plan.is_empty() && stale.len() < decided.plan.accounts.len();
        Harvest {
            progress: wrote || answers.iter().any(Option::is_some),
            answers: answers.into_iter().map(|answer| answer.map(Ok)).collect(),
        }
    }

    /// What to do after a failed round. Whatever was remembered of its accounts
    /// may be wrong now.
    async fn after(&mut self, error: StoreError, works: &[&Work]) -> Harvest {
        for work in works {
            self.memory.forget(&work.account);
        }
        match error {
            StoreError::Raced => {
                self.novelty.mistaken();
                Harvest::again(works)
            }
            StoreError::Conflicted(_) => {
                self.metrics.conflicts.inc();
                Harvest::again(works)
            }
            StoreError::Locked => self.part_from_locked(works).await,
            StoreError::Refused { .. } | StoreError::Other(_) if works.len() > 1 => {
                // The culprit is found by halves, and its neighbours go through.
                let (first, second) = works.split_at(works.len() / 2);
                let mut answers = Box::pin(self.settle_part(first)).await;
                answers.extend(Box::pin(self.settle_part(second)).await);
                Harvest {
                    answers,
                    progress: true,
                }
            }
            StoreError::Refused { code, message } => {
                let failure = self.refused(works[0], code, &message).await;
                Harvest::failed(works, &failure)
            }
            away => {
                self.memory.forget_all();
                Harvest::failed(works, &Failure::Unavailable(away))
            }
        }
    }

    async fn settle_part(&mut self, works: &[&Work]) -> Vec<Option<Result<Answer, Failure>>> {
        let part: Vec<Work> = works.iter().map(|work| (*work).clone()).collect();
        self.settle(&part).await.into_iter().map(Some).collect()
    }

    /// Lets those go on whose accounts nobody else holds; the others are busy.
    async fn part_from_locked(&mut self, works: &[&Work]) -> Harvest {
        let accounts: FxHashSet<AccountKey> =
            works.iter().map(|work| work.account.clone()).collect();
        let accounts: Vec<AccountKey> = accounts.into_iter().collect();
        let locked: FxHashSet<AccountKey> = match self.store.locked(&accounts).await {
            Ok(locked) => locked.into_iter().collect(),
            Err(error) => return Harvest::failed(works, &Failure::Unavailable(error)),
        };
        self.hold(locked.iter().cloned());
        let answers = works
            .iter()
            .map(|work| locked.contains(&work.account).then_some(Err(Failure::Busy)))
            .collect();
        Harvest {
            answers,
            progress: !locked.is_empty(),
        }
    }

    /// An event that the database refuses for ever, standing alone.
    async fn refused(&self, work: &Work, code: String, message: &str) -> Failure {
        if let Ask::Submit(submission) = &work.ask {
            let event = &submission.event;
            let letter = Letter {
                tenant: work.account.tenant.clone(),
                reason: Reason::StoreRefused,
                detail: json!({"code": code, "message": message}),
                source: Some(event.identity.source.clone()),
                event_id: Some(event.identity.event_id.clone()),
                account_id: Some(work.account.id.clone()),
                event: None,
                raw: submission.raw.clone(),
            };
            self.metrics
                .letters
                .get_or_create(&LetterLabels::of(&letter))
                .inc();
            if let Err(error) = self.store.set_aside(&[letter], self.clock.now()).await {
                return Failure::Unavailable(error);
            }
        }
        tracing::warn!(account = %work.account.id, code, message, "the database refuses an event for ever");
        Failure::Refused { code }
    }

    fn count(&self, outcome: &'static str, reason: Option<Reason>, times: u64) {
        let reason = reason.map_or("", Reason::as_str);
        self.metrics
            .events
            .get_or_create(&EventLabels { outcome, reason })
            .inc_by(times);
    }
}

/// What one round brought in.
struct Harvest {
    /// For each ask its answer; `None`: it must be asked again.
    answers: Vec<Option<Result<Answer, Failure>>>,
    /// Whether something moved, so that asking again is no mere repetition.
    progress: bool,
}

impl Harvest {
    fn again(works: &[&Work]) -> Self {
        Self {
            answers: vec![None; works.len()],
            progress: false,
        }
    }

    fn failed(works: &[&Work], failure: &Failure) -> Self {
        Self {
            answers: vec![Some(Err(failure.clone())); works.len()],
            progress: true,
        }
    }
}

/// Delays between rounds without progress: a few milliseconds, growing, with
/// jitter, so that two instances do not meet again at once.
fn delays() -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(1))
        .with_max_delay(Duration::from_millis(250))
        .with_max_times(ATTEMPTS)
        .with_jitter()
        .build()
}
