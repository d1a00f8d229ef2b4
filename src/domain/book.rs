//! The fold: a batch of asks in arrival order, over the pages of the accounts
//! they touch, becomes answers and one plan of what to write.
//!
//! It guesses freely, since whatever it says is only true once the store has
//! proven, in the transaction that writes it, that the pages were current.

mod desk;
mod operator;
mod settings;
mod waiting;

use std::{collections::VecDeque, sync::Arc};

use rustc_hash::FxHashMap;

use self::desk::Desk;
use super::{
    Account, AccountChange, AccountKey, Answer, Ask, Audit, EventKey, Letter, Page, Plan, Proof,
    RELEASE_MAX, Reason, Record, RecordUpdate, Resolution, Status, Timestamp, Told, Verdict, Work,
};

/// All that a batch may look at.
#[derive(Debug)]
pub struct Book {
    now: Timestamp,
    sheets: Vec<(AccountKey, Sheet)>,
    lines: FxHashMap<EventKey, Line>,
}

/// What became of a batch, as long as the plan commits.
#[derive(Debug, Default)]
pub struct Decided {
    /// What to write.
    pub plan: Plan,
    /// For each account of the plan, in its order: what follows once it is written.
    pub sequels: Vec<Sequel>,
    /// An answer for each ask; `None`: it must be asked again once this plan is
    /// written, since its account has more to release first.
    pub answers: Vec<Option<Answer>>,
    /// For each ask, the place of its account in the plan.
    pub account_of: Vec<usize>,
}

/// What follows for one account once its change is written.
#[derive(Debug, Default)]
pub struct Sequel {
    /// The account's page then.
    pub page: Page,
    /// Whether more is due than the page carries: it must be loaded again.
    pub unfinished: bool,
    /// Identities of which a copy was seen.
    pub copies: Vec<EventKey>,
    /// Waiting events that were settled on the way, for which nobody waits.
    pub released: Vec<(Status, Option<Reason>)>,
}

/// One identity, with the status that the store holds of it.
#[derive(Debug)]
struct Line {
    /// Status and number of decisions in the store; `None`: it is new.
    stored: Option<(Status, i64)>,
    record: Arc<Record>,
    changed: bool,
}

/// One account while the batch works on it.
#[derive(Debug)]
struct Sheet {
    before: Option<Account>,
    account: Option<Account>,
    /// By expected version, unversioned ones last.
    waiting: VecDeque<Waiter>,
    more_versioned: bool,
    more_unversioned: bool,
    /// Something was answered on the account's state.
    answered: bool,
    /// Something other than an entry changed.
    revised: bool,
    /// More is due than one transaction may release.
    unfinished: bool,
    budget: usize,
    changed: Vec<EventKey>,
    letters: Vec<Letter>,
    resolutions: Vec<Resolution>,
    audits: Vec<Audit>,
    copies: Vec<EventKey>,
    released: Vec<(Status, Option<Reason>)>,
}

/// A parked event in its place in the queue of its account.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    expected: Option<i64>,
    key: EventKey,
}

impl Book {
    /// Decides a batch: pages of every account and records of every known
    /// identity that the asks name, then the asks in arrival order.
    #[must_use]
    pub fn decide(
        pages: Vec<(AccountKey, Page)>,
        known: Vec<Record>,
        works: &[&Work],
        now: Timestamp,
    ) -> Decided {
        let account_of = places(&pages, works);
        let mut book = Self::new(pages, known, now);
        let mut answers = Vec::with_capacity(works.len());
        let mut copies = Vec::with_capacity(works.len());
        for (work, place) in works.iter().zip(&account_of) {
            let (answer, copy) = book.take(work, *place);
            answers.push(answer);
            copies.push(copy);
        }
        book.tell_again(works, &mut answers, &copies);
        book.finish(answers, account_of)
    }

    fn new(pages: Vec<(AccountKey, Page)>, known: Vec<Record>, now: Timestamp) -> Self {
        let mut lines = FxHashMap::default();
        for record in known {
            lines.insert(record.event.identity.key(), Line::stored(Arc::new(record)));
        }
        let mut sheets = Vec::with_capacity(pages.len());
        for (key, page) in pages {
            for record in &page.waiting {
                lines
                    .entry(record.event.identity.key())
                    .or_insert_with(|| Line::stored(record.clone()));
            }
            sheets.push((key, Sheet::new(page)));
        }
        Self { now, sheets, lines }
    }

    /// The answer, and whether the ask was a copy of an event seen before.
    fn take(&mut self, work: &Work, place: usize) -> (Option<Answer>, bool) {
        let Some((_, sheet)) = self.sheets.get_mut(place) else {
            return (None, false);
        };
        let mut desk = Desk {
            now: self.now,
            key: &work.account,
            sheet,
            lines: &mut self.lines,
        };
        desk.release();
        if desk.sheet.unfinished {
            return (None, false);
        }
        if desk.stands_elsewhere(work) {
            return (None, false);
        }
        match &work.ask {
            Ask::Submit(submission) => {
                let (told, copy) = desk.submit(submission);
                (Some(Answer::Event(told)), copy)
            }
            Ask::Replay(replay) => (Some(desk.replay(replay)), false),
            Ask::Discard(discard) => (Some(desk.discard(discard)), false),
            Ask::Open(opening) => (Some(desk.open(opening)), false),
            Ask::Patch(patch) => (Some(desk.patch(patch)), false),
            Ask::Release => {
                desk.judge_waiting_anew();
                (Some(Answer::Released), false)
            }
            Ask::Expire {
                key,
                parked_before,
                raw,
            } => (
                Some(Answer::Expired(desk.expire(*key, *parked_before, raw))),
                false,
            ),
        }
    }

    /// What was parked and then released within the batch is told as it stands
    /// at the end: nothing was ever parked in the store.
    fn tell_again(&self, works: &[&Work], answers: &mut [Option<Answer>], copies: &[bool]) {
        for ((work, answer), copy) in works.iter().zip(answers).zip(copies) {
            let Some(Answer::Event(told) | Answer::Replayed(told)) = answer else {
                continue;
            };
            if !matches!(told.verdict, Verdict::Parked(_)) {
                continue;
            }
            let line = work.key().and_then(|key| self.lines.get(&key));
            if let Some(line) = line.filter(|line| line.record.status != Status::Parked) {
                *told = Told::of(&line.record, told.event.clone(), *copy);
            }
        }
    }

    fn finish(self, answers: Vec<Option<Answer>>, account_of: Vec<usize>) -> Decided {
        let mut decided = Decided {
            answers,
            account_of,
            ..Decided::default()
        };
        decided.plan.at = self.now;
        decided.plan.accounts.reserve_exact(self.sheets.len());
        decided.sequels.reserve_exact(self.sheets.len());
        for (key, sheet) in self.sheets {
            let (change, sequel) = sheet.finish(key, &self.lines);
            decided.plan.accounts.push(change);
            decided.sequels.push(sequel);
        }
        decided
    }
}

/// For each ask, the place of its account's page; past the last one where there is
/// none.
fn places(pages: &[(AccountKey, Page)], works: &[&Work]) -> Vec<usize> {
    let places: FxHashMap<&AccountKey, usize> = pages
        .iter()
        .enumerate()
        .map(|(place, (key, _))| (key, place))
        .collect();
    let place = |work: &&Work| places.get(&work.account).copied().unwrap_or(pages.len());
    works.iter().map(place).collect()
}

impl Line {
    fn stored(record: Arc<Record>) -> Self {
        Self {
            stored: Some((record.status, record.decision)),
            record,
            changed: false,
        }
    }
}

impl Sheet {
    fn new(page: Page) -> Self {
        Self {
            before: page.account.clone(),
            account: page.account,
            waiting: page
                .waiting
                .iter()
                .map(|record| Waiter {
                    expected: record.event.content.expected_version,
                    key: record.event.identity.key(),
                })
                .collect(),
            more_versioned: page.more_versioned,
            more_unversioned: page.more_unversioned,
            answered: false,
            revised: false,
            unfinished: false,
            budget: RELEASE_MAX,
            changed: Vec::new(),
            letters: Vec::new(),
            resolutions: Vec::new(),
            audits: Vec::new(),
            copies: Vec::new(),
            released: Vec::new(),
        }
    }

    /// How many of those that wait name a version; they stand first.
    fn versioned(&self) -> usize {
        self.waiting
            .partition_point(|waiter| waiter.expected.is_some())
    }

    /// Puts a parked event into its place. Where the loaded window is not all
    /// there is, what belongs behind it is left to the store.
    fn enqueue(&mut self, waiter: Waiter) {
        let versioned = self.versioned();
        let (from, to, more) = match waiter.expected {
            Some(_) => (0, versioned, &mut self.more_versioned),
            None => (versioned, self.waiting.len(), &mut self.more_unversioned),
        };
        let place = match waiter.expected {
            Some(expected) => self
                .waiting
                .partition_point(|other| other.expected.is_some_and(|other| other <= expected)),
            None => to,
        };
        if *more && place == to {
            return;
        }
        self.waiting.insert(place, waiter);
        if to + 1 - from > RELEASE_MAX {
            *more = true;
            self.waiting.remove(to);
        }
    }

    fn finish(
        mut self,
        key: AccountKey,
        lines: &FxHashMap<EventKey, Line>,
    ) -> (AccountChange, Sequel) {
        if let (Some(account), true) = (&mut self.account, self.revised) {
            account.revision += 1;
        }
        let changed = self.account != self.before;
        let proof = match self.before {
            None if changed => Proof::Insert,
            None if self.answered => Proof::Absent,
            Some(before) if changed => Proof::Update(before),
            Some(before) if self.answered => Proof::Unchanged(before),
            _ => Proof::Nothing,
        };
        let mut inserts = Vec::new();
        let mut updates = Vec::new();
        for line in self.changed.iter().filter_map(|key| lines.get(key)) {
            let record = line.record.clone();
            match line.stored {
                None => inserts.push(record),
                Some((status_before, decision_before)) => {
                    updates.push(RecordUpdate {
                        status_before,
                        decision_before,
                        record,
                    });
                }
            }
        }
        let page = Page {
            account: self.account.clone(),
            waiting: self
                .waiting
                .iter()
                .filter_map(|waiter| lines.get(&waiter.key))
                .map(|line| line.record.without_raw())
                .collect(),
            more_versioned: self.more_versioned,
            more_unversioned: self.more_unversioned,
        };
        let change = AccountChange {
            key,
            proof,
            after: self.account,
            inserts,
            updates,
            letters: self.letters,
            resolutions: self.resolutions,
            audits: self.audits,
        };
        (
            change,
            Sequel {
                page,
                unfinished: self.unfinished,
                copies: self.copies,
                released: self.released,
            },
        )
    }
}
