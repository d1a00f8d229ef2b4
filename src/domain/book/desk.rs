//! The rules, at work on the sheet of one account.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::json;

use super::{Line, Sheet, Waiter};
use crate::domain::{
    Account, AccountKey, AccountStatus, Answer, Audit, Content, Event, EventKey, Judgement, Letter,
    OpenRefusal, Opening, Patch, PatchRefusal, Raw, Reason, Record, Status, Submission, Timestamp,
    Told, Unmet, Verdict, Work,
};

/// One account's sheet, with the lines of every identity in the batch.
pub(super) struct Desk<'a> {
    pub(super) now: Timestamp,
    pub(super) key: &'a AccountKey,
    pub(super) sheet: &'a mut Sheet,
    pub(super) lines: &'a mut FxHashMap<EventKey, Line>,
}

impl Desk<'_> {
    /// Row 1 of the table of outcomes, then the others. Also says whether the
    /// event is a copy of one that was decided or parked before.
    pub(super) fn submit(&mut self, submission: &Submission) -> (Told, bool) {
        let event = &submission.event;
        let Some(line) = self.lines.get(&event.identity.key()) else {
            let record = Record::fresh(event.clone(), Some(submission.raw.clone()), self.now);
            return (self.judge(submission, record), false);
        };
        let record = line.record.clone();
        let first = &record.event;
        if first.identity != event.identity {
            // Two identities with one key: never seen, and never to be mixed up.
            return (
                self.set_aside(submission, first, Reason::EventIdReused),
                false,
            );
        }
        if record.knows(&event.content) {
            return match record.status {
                Status::Pending | Status::Dead => {
                    (self.judge_again(submission, &record, false), false)
                }
                Status::Applied | Status::Rejected | Status::Parked | Status::Discarded => {
                    self.sheet.copies.push(event.identity.key());
                    (Told::of(&record, event.clone(), true), true)
                }
            };
        }
        if first.derived && first.content.account_id == event.content.account_id {
            // A derived identity names a place, not an intent: who has the place
            // keeps it, and a place nobody has is free.
            let told = match (record.holds(), event.derived) {
                (false, _) => self.judge_again(submission, &record, true),
                (true, true) => self.set_aside(submission, first, Reason::VersionConflict),
                (true, false) => self.set_aside(submission, first, Reason::EventIdReused),
            };
            return (told, false);
        }
        let conflict =
            record.status == Status::Rejected && record.reason == Some(Reason::VersionConflict);
        if conflict && first.content.agrees_but_for_version(&event.content) {
            // The producer has read the account again: the natural optimistic retry.
            return (self.judge_again(submission, &record, false), false);
        }
        (
            self.set_aside(submission, first, Reason::EventIdReused),
            false,
        )
    }

    /// Whether the identity was decided in this batch on another account. What is
    /// said here would hang on that account's proof; so it is said afterwards.
    pub(super) fn stands_elsewhere(&self, work: &Work) -> bool {
        let line = work.key().and_then(|key| self.lines.get(&key));
        line.is_some_and(|line| {
            line.changed && line.record.event.content.account_id != work.account.id
        })
    }

    /// Lets apply what is due, in version order, until nothing is or the
    /// transaction has released enough.
    pub(super) fn release(&mut self) {
        while let Some(version) = self.opened_version() {
            let Some(place) = self.next_due(version) else {
                return;
            };
            if self.sheet.budget == 0 {
                self.sheet.unfinished = true;
                return;
            }
            self.sheet.budget -= 1;
            if let Some(waiter) = self.sheet.waiting.remove(place) {
                self.settle_waiter(waiter.key);
            }
        }
    }

    /// The place of the next one due: versioned ones first, and no unversioned
    /// one as long as a versioned one might be due behind the loaded window.
    fn next_due(&mut self, version: i64) -> Option<usize> {
        let versioned = self.sheet.versioned();
        match self
            .sheet
            .waiting
            .front()
            .and_then(|waiter| waiter.expected)
        {
            Some(expected) if expected <= version => return Some(0),
            None if self.sheet.more_versioned => {
                self.sheet.unfinished = true;
                return None;
            }
            _ => {}
        }
        if versioned < self.sheet.waiting.len() {
            return Some(versioned);
        }
        self.sheet.unfinished |= self.sheet.more_unversioned;
        None
    }

    /// Judges everything that waits by the account as it is now: after an
    /// opening what waited for the account may wait for a version, or be refused.
    pub(super) fn judge_waiting_anew(&mut self) {
        // That nothing is due is an answer too: on a stale page it would be repeated
        // for ever.
        self.sheet.answered = true;
        if self.opened_version().is_none() || self.sheet.unfinished {
            return;
        }
        let keys: Vec<EventKey> = self.sheet.waiting.iter().map(|waiter| waiter.key).collect();
        for key in keys {
            let Some(line) = self.lines.get_mut(&key) else {
                continue;
            };
            match Account::judge(self.sheet.account.as_ref(), &line.record.event.content) {
                Judgement::Park(reason) if line.record.reason == Some(reason) => {}
                Judgement::Park(reason) => {
                    Arc::make_mut(&mut line.record).reason = Some(reason);
                    self.sheet.revised = true;
                    self.note_change(key);
                }
                Judgement::Apply { .. } | Judgement::Reject(_) => {
                    self.sheet.waiting.retain(|waiter| waiter.key != key);
                    self.settle_waiter(key);
                }
            }
        }
    }

    /// Lets a parked event die that waits since before a moment.
    pub(super) fn expire(&mut self, key: EventKey, before: Timestamp, raw: &Arc<Raw>) -> bool {
        let Some(line) = self.lines.get(&key) else {
            return false;
        };
        let record = line.record.clone();
        if record.status != Status::Parked || record.decided_at > before {
            return false;
        }
        self.sheet.waiting.retain(|waiter| waiter.key != key);
        let content = &record.event.content;
        let Judgement::Park(reason) = Account::judge(self.sheet.account.as_ref(), content) else {
            self.settle_waiter(key);
            return false;
        };
        let reason = reason.expired();
        self.sheet.revised = true;
        let mut dead = self.next_of(&record);
        dead.status = Status::Dead;
        dead.reason = Some(reason);
        dead.found = self
            .sheet
            .account
            .as_ref()
            .filter(|a| a.is_opened())
            .map(Account::found);
        dead.decided_at = self.now;
        dead.decision += 1;
        self.write(dead);
        self.sheet.letters.push(Letter {
            tenant: self.key.tenant.clone(),
            reason,
            detail: json!({
                "parked_at": record.decided_at.rfc3339(),
                "expected_version": content.expected_version,
                "account_version": self.opened_version(),
            }),
            source: Some(record.event.identity.source.clone()),
            event_id: Some(record.event.identity.event_id.clone()),
            account_id: Some(content.account_id.clone()),
            event: Some(key),
            raw: raw.clone(),
        });
        true
    }

    /// Opens the account, or says that it is open already.
    pub(super) fn open(&mut self, opening: &Opening) -> Answer {
        self.sheet.answered = true;
        let event = opening.event(self.key);
        let key = event.identity.key();
        if let Some(account) = self.sheet.account.clone().filter(Account::is_opened) {
            let first = self.lines.get(&key).map(|line| &line.record);
            let same = first.is_some_and(|first| {
                first.event.content.agrees(&event.content)
                    && first.floor == opening.floor
                    && same_json(first.event.metadata.as_deref(), opening.metadata.as_deref())
            });
            return match same {
                true => Answer::Opened {
                    account,
                    fresh: false,
                },
                false => Answer::OpenRefused(OpenRefusal::Exists(account)),
            };
        }
        let (row, revision) = self
            .sheet
            .account
            .as_ref()
            .map_or((0, 0), |awaited| (awaited.row, awaited.revision));
        let account = Account {
            row,
            currency: Some(opening.currency.clone()),
            balance: opening.balance,
            version: 1,
            revision,
            settings_revision: 0,
            floor: opening.floor,
            status: AccountStatus::Open,
            metadata: opening.metadata.clone(),
            opened_at: self.now,
            updated_at: self.now,
        };
        let mut record = Record::fresh(Arc::new(event), None, self.now);
        record.status = Status::Applied;
        record.version = Some(1);
        record.balance_after = Some(opening.balance);
        record.floor = opening.floor;
        record.decision = 1;
        self.sheet.account = Some(account.clone());
        self.write(record);
        self.release();
        self.judge_waiting_anew();
        Answer::Opened {
            account: self.sheet.account.clone().unwrap_or(account),
            fresh: true,
        }
    }

    /// Changes the account's settings.
    pub(super) fn patch(&mut self, patch: &Patch) -> Answer {
        self.sheet.answered = true;
        let Some(account) = self.sheet.account.clone().filter(Account::is_opened) else {
            return Answer::PatchRefused(PatchRefusal::NotFound);
        };
        if patch
            .if_match
            .as_ref()
            .is_some_and(|tags| !tags.contains(&account.tag()))
        {
            return Answer::PatchRefused(PatchRefusal::Stale(account));
        }
        let mut after = account.clone();
        after.status = patch.status.unwrap_or(account.status);
        after.floor = patch.floor.unwrap_or(account.floor);
        after.metadata = patch
            .metadata
            .clone()
            .unwrap_or_else(|| account.metadata.clone());
        let changes = after != account;
        if changes && account.status == AccountStatus::Closed {
            return Answer::PatchRefused(PatchRefusal::Closed(account));
        }
        let closes = after.status == AccountStatus::Closed && account.status != after.status;
        if closes && account.balance != 0 {
            return Answer::PatchRefused(PatchRefusal::NotEmpty(account));
        }
        if changes {
            after.settings_revision += 1;
            after.updated_at = self.now.max(account.updated_at);
            self.sheet.revised = true;
        }
        self.sheet.audits.push(Audit {
            tenant: self.key.tenant.clone(),
            subject: patch.subject.clone(),
            action: "account.patched",
            account_id: Some(self.key.id.clone()),
            detail: json!({
                "status": {"from": account.status.as_str(), "to": after.status.as_str()},
                "floor": {"from": account.floor, "to": after.floor},
                "metadata_replaced": patch.metadata.is_some(),
            }),
            note: patch.note.clone(),
        });
        self.sheet.account = Some(after.clone());
        // The revision moves when the sheet is finished; the answer shows none.
        Answer::Patched(after)
    }

    fn opened_version(&self) -> Option<i64> {
        self.sheet
            .account
            .as_ref()
            .filter(|a| a.is_opened())
            .map(|account| account.version)
    }

    /// Judges an event that nobody decided yet, under the conditions of its call.
    fn judge(&mut self, submission: &Submission, record: Record) -> Told {
        let event = &submission.event;
        self.sheet.answered = true;
        let found = self
            .sheet
            .account
            .as_ref()
            .filter(|a| a.is_opened())
            .map(Account::found);
        let unmet = |unmet| Told {
            event: event.clone(),
            verdict: Verdict::Unmet(unmet),
            version: None,
            balance: None,
            found,
        };
        if submission
            .if_version
            .is_some_and(|v| found.is_none_or(|found| found.version != v))
        {
            return unmet(Unmet::Version);
        }
        let judgement = Account::judge(self.sheet.account.as_ref(), &event.content);
        if let (Judgement::Park(reason), true) = (judgement, submission.strict) {
            return unmet(Unmet::Strict(reason));
        }
        let record = self.settle(record, judgement);
        let told = Told::of(&record, event.clone(), false);
        if record.status == Status::Applied {
            self.release();
        }
        told
    }

    /// Evaluates a known identity afresh, in the form that came now.
    fn judge_again(&mut self, submission: &Submission, record: &Record, displaced: bool) -> Told {
        let mut next = record.clone();
        next.trail.push(record.past(displaced));
        if displaced {
            for past in &mut next.trail {
                past.displaced = true;
            }
        }
        next.event = submission.event.clone();
        next.raw = Some(submission.raw.clone());
        self.judge(submission, next)
    }

    /// A waiting event's turn: it applies or is refused.
    fn settle_waiter(&mut self, key: EventKey) {
        self.sheet.revised = true;
        let Some(line) = self.lines.get(&key) else {
            return;
        };
        let record = line.record.clone();
        if record.status != Status::Parked {
            return;
        }
        let next = self.next_of(&record);
        let judgement = Account::judge(self.sheet.account.as_ref(), &record.event.content);
        let settled = self.settle(next, judgement);
        if line_is_stored(self.lines.get(&key)) {
            self.sheet.released.push((settled.status, settled.reason));
        }
    }

    /// The record with its last judgement in the trail; a parking that was never
    /// stored leaves no trace.
    fn next_of(&self, record: &Record) -> Record {
        let mut next = record.clone();
        if line_is_stored(self.lines.get(&record.event.identity.key())) {
            next.trail.push(record.past(false));
        }
        next
    }

    /// Writes a judgement into the record and, where it applies, the account.
    fn settle(&mut self, mut record: Record, judgement: Judgement) -> Record {
        record.found = self
            .sheet
            .account
            .as_ref()
            .filter(|a| a.is_opened())
            .map(Account::found);
        record.reason = None;
        record.decided_at = self.now;
        match judgement {
            Judgement::Apply { balance_after } => {
                record.status = Status::Applied;
                record.decision += 1;
                record.found = None;
                if let Some(account) = &mut self.sheet.account {
                    account.balance = balance_after;
                    account.version += 1;
                    account.updated_at = account.updated_at.max(self.now);
                    record.version = Some(account.version);
                    record.balance_after = Some(balance_after);
                    record.floor = account.floor;
                    record.decided_at = account.updated_at;
                }
            }
            Judgement::Park(reason) => {
                record.status = Status::Parked;
                record.reason = Some(reason);
                self.sheet
                    .account
                    .get_or_insert_with(|| Account::awaited(self.now));
                self.sheet.revised = true;
                self.sheet.enqueue(Waiter {
                    expected: record.event.content.expected_version,
                    key: record.event.identity.key(),
                });
            }
            Judgement::Reject(reason) => {
                record.status = Status::Rejected;
                record.reason = Some(reason);
                record.decision += 1;
            }
        }
        self.write(record.clone());
        record
    }

    /// Refuses a newcomer whose identity belongs to another event: it is kept as
    /// a dead letter with both contents, and the first stays untouched.
    fn set_aside(&mut self, submission: &Submission, first: &Event, reason: Reason) -> Told {
        // The answer names the account as it is: that must be proven like any other.
        self.sheet.answered = true;
        let event = &submission.event;
        let newcomer = &event.content;
        self.sheet.letters.push(Letter {
            tenant: self.key.tenant.clone(),
            reason,
            detail: json!({
                "first": content_json(&first.content),
                "newcomer": content_json(newcomer),
                "differs": first.content.differing(newcomer),
            }),
            source: Some(event.identity.source.clone()),
            event_id: Some(event.identity.event_id.clone()),
            account_id: Some(newcomer.account_id.clone()),
            event: None,
            raw: submission.raw.clone(),
        });
        Told {
            event: event.clone(),
            verdict: Verdict::Rejected(reason),
            version: None,
            balance: None,
            found: self
                .sheet
                .account
                .as_ref()
                .filter(|a| a.is_opened())
                .map(Account::found),
        }
    }

    fn write(&mut self, record: Record) {
        let key = record.event.identity.key();
        let record = Arc::new(record);
        self.lines
            .entry(key)
            .and_modify(|line| line.record = record.clone())
            .or_insert_with(|| Line {
                stored: None,
                record,
                changed: false,
            });
        self.note_change(key);
    }

    fn note_change(&mut self, key: EventKey) {
        if let Some(line) = self.lines.get_mut(&key)
            && !std::mem::replace(&mut line.changed, true)
        {
            self.sheet.changed.push(key);
        }
    }
}

impl Told {
    /// What a sender is told of a record: the recorded outcome again where it
    /// sent a copy.
    pub(super) fn of(record: &Record, event: Arc<Event>, copy: bool) -> Self {
        let reason = record.reason.unwrap_or(Reason::Discarded);
        let verdict = match record.status {
            Status::Applied if copy => Verdict::Duplicate,
            Status::Applied => Verdict::Applied,
            Status::Parked | Status::Pending => Verdict::Parked(reason),
            Status::Rejected | Status::Dead => Verdict::Rejected(reason),
            Status::Discarded => Verdict::Rejected(Reason::Discarded),
        };
        Self {
            event,
            verdict,
            version: record.version,
            balance: record.balance_after,
            found: record.found,
        }
    }
}

fn line_is_stored(line: Option<&Line>) -> bool {
    line.is_some_and(|line| line.stored.is_some())
}

fn content_json(content: &Content) -> serde_json::Value {
    json!({
        "account_id": &*content.account_id,
        "type": content.kind.as_str(),
        "amount": content.amount,
        "currency": content.currency.as_ref().map(crate::domain::Currency::as_str),
        "version": content.expected_version,
    })
}

/// Whether two optional JSON texts mean the same, however they are spaced.
fn same_json(a: Option<&str>, b: Option<&str>) -> bool {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b || read(a).is_some() && read(a) == read(b),
        _ => false,
    }
}
