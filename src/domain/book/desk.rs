//! The rules, at work on the sheet of one account.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::json;

use super::{Line, Sheet, Waiter};
use crate::domain::{
    Account, AccountKey, Content, Event, EventKey, Found, Judgement, Letter, LetterStatus, Past,
    Reason, Record, Resolution, Status, Step, Submission, Timestamp, Told, Unmet, Verdict, Work,
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
        let conflict =
            record.status == Status::Rejected && record.reason == Some(Reason::VersionConflict);
        if conflict && first.content.agrees_but_for_version(&event.content) {
            // The producer has read the account again: the natural optimistic retry.
            return (self.judge_again(submission, &record, false), false);
        }
        if first.derived {
            // A derived identity names a place, not an intent: who has the place
            // keeps it, and a place nobody has is free.
            let told = match (record.holds(), event.derived) {
                (false, _) => self.judge_again(submission, &record, true),
                (true, true) => self.set_aside(submission, first, Reason::VersionConflict),
                (true, false) => self.set_aside(submission, first, Reason::EventIdReused),
            };
            return (told, false);
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

    /// The account's version and balance; none where there is no account.
    pub(super) fn found(&self) -> Option<Found> {
        self.sheet
            .account
            .as_ref()
            .filter(|a| a.is_opened())
            .map(Account::found)
    }

    /// The account's version; none where there is no account.
    pub(super) fn opened_version(&self) -> Option<i64> {
        self.found().map(|found| found.version)
    }

    /// Judges an event that nobody decided yet, under the conditions of its call.
    fn judge(&mut self, submission: &Submission, record: Record) -> Told {
        let event = &submission.event;
        self.sheet.answered = true;
        let found = self.found();
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
        let then = if displaced {
            Step::TakenOver
        } else {
            Step::SentAgain
        };
        next.trail.push(record.past(Some(then)));
        if displaced {
            for past in &mut next.trail {
                past.displaced = true;
            }
        }
        next.event = submission.event.clone();
        next.raw = Some(submission.raw.clone());
        self.judge(submission, next)
    }

    /// Writes a judgement into the record and, where it applies, the account.
    pub(super) fn settle(&mut self, mut record: Record, judgement: Judgement) -> Record {
        record.found = self.found();
        record.reason = None;
        record.decided_at = self.now;
        match judgement {
            Judgement::Apply { balance_after } => {
                record.status = Status::Applied;
                record.decision += 1;
                record.found = None;
                // Its letters are one with it, but not those of content that it displaced.
                let dead = |past: &Past| past.status == Status::Dead.as_str();
                if record.trail.iter().any(dead) && !record.trail.iter().any(|it| it.displaced) {
                    self.sheet.resolutions.push(Resolution {
                        event: record.event.identity.key(),
                        status: LetterStatus::Superseded,
                    });
                }
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
                let key = record.event.identity.key();
                // Among those that wait for the same version the first seen wins. One that
                // the store knows was seen before some of them: only the store can tell.
                self.sheet.unfinished |= line_is_stored(self.lines.get(&key));
                self.sheet.enqueue(Waiter {
                    expected: record.event.content.expected_version,
                    key,
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
            found: self.found(),
        }
    }

    pub(super) fn write(&mut self, record: Record) {
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

    pub(super) fn note_change(&mut self, key: EventKey) {
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

pub(super) fn line_is_stored(line: Option<&Line>) -> bool {
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
