//! What an operator does by hand with a stored event: evaluate it afresh, or give
//! it up. The identity stays guarded: what has taken effect does so once.

use std::sync::Arc;

use serde_json::json;

use super::desk::Desk;
use crate::domain::{
    Account, AccountKey, Answer, Audit, Discard, Event, Form, Judgement, LetterStatus, Operator,
    Reason, Record, Replay, Resolution, Status, Step, Told,
};

impl Desk<'_> {
    /// Evaluates a stored event afresh, by the same rules as any other.
    pub(super) fn replay(&mut self, replay: &Replay) -> Answer {
        let key = replay.identity.key();
        let Some(line) = self.lines.get(&key) else {
            return match &replay.form {
                Form::Reversal(event) => {
                    let record = Record::fresh(event.clone(), None, self.now);
                    self.evaluate(replay, record, None)
                }
                _ => Answer::Elsewhere(None),
            };
        };
        let record = line.record.clone();
        if record.event.identity != replay.identity {
            return Answer::Elsewhere(None);
        }
        if record.status == Status::Applied {
            self.sheet.answered = true;
            return Answer::Replayed(Told::of(&record, record.event.clone(), true));
        }
        let home = record.event.account();
        let event = form(&record, &replay.form);
        let target = event.account();
        let parked = record.status == Status::Parked;
        if parked && home != target && home == *self.key {
            // It waits here and is to be judged there: it leaves this account first,
            // and each of the two has a proof of its own.
            self.withdraw(&record);
            return Answer::Elsewhere(Some(target));
        }
        if *self.key != target {
            return Answer::Elsewhere(Some(target));
        }
        if parked && home != target {
            return Answer::Elsewhere(Some(home));
        }
        if parked {
            let judgement = Account::judge(self.sheet.account.as_ref(), &event.content);
            if event == record.event && judgement_is(judgement, record.reason) {
                // It waits as before, in its place.
                self.sheet.answered = true;
                let told = Told::of(&record, event, false);
                self.audit(replay_action(&replay.form), &told, &record, &replay.by);
                return Answer::Replayed(told);
            }
            self.sheet.waiting.retain(|waiter| waiter.key != key);
            self.sheet.revised = true;
        }
        let mut next = Record::clone(&record);
        next.trail.push(record.past(Some(Step::Replayed)));
        next.event = event;
        if let Form::Corrected { body, .. } = &replay.form {
            next.correction = Some(body.clone());
        }
        self.evaluate(replay, next, Some(&record))
    }

    fn evaluate(&mut self, replay: &Replay, next: Record, before: Option<&Record>) -> Answer {
        self.sheet.answered = true;
        let event = next.event.clone();
        let key = event.identity.key();
        let judgement = Account::judge(self.sheet.account.as_ref(), &event.content);
        let record = self.settle(next, judgement);
        if before.is_some() {
            self.resolve(key, LetterStatus::Replayed);
        }
        let told = Told::of(&record, event, false);
        let before = before.unwrap_or(&record);
        self.audit(replay_action(&replay.form), &told, before, &replay.by);
        if record.status == Status::Applied {
            self.release();
        }
        Answer::Replayed(told)
    }

    /// Gives a stored event up, unless it has taken effect.
    pub(super) fn discard(&mut self, discard: &Discard) -> Answer {
        let key = discard.identity.key();
        let Some(line) = self.lines.get(&key) else {
            return Answer::Elsewhere(None);
        };
        let record = line.record.clone();
        if record.event.identity != discard.identity {
            return Answer::Elsewhere(None);
        }
        let home = record.event.account();
        if home != *self.key {
            return Answer::Elsewhere(Some(home));
        }
        self.sheet.answered = true;
        if matches!(record.status, Status::Applied | Status::Discarded) {
            return Answer::Discarded {
                told: Told::of(&record, record.event.clone(), true),
                fresh: false,
            };
        }
        if record.status == Status::Parked {
            self.sheet.waiting.retain(|waiter| waiter.key != key);
            self.sheet.revised = true;
        }
        let mut next = Record::clone(&record);
        next.trail.push(record.past(Some(Step::Discarded)));
        next.status = Status::Discarded;
        next.reason = Some(Reason::Discarded);
        next.found = self.found();
        next.decided_at = self.now;
        next.decision += 1;
        let told = Told::of(&next, next.event.clone(), false);
        self.write(next);
        self.resolve(key, LetterStatus::Discarded);
        self.audit("event.discarded", &told, &record, &discard.by);
        Answer::Discarded { told, fresh: true }
    }

    /// Takes a parked event away from the account that it waits for, undecided.
    fn withdraw(&mut self, record: &Record) {
        let key = record.event.identity.key();
        self.sheet.answered = true;
        self.sheet.revised = true;
        self.sheet.waiting.retain(|waiter| waiter.key != key);
        let mut next = record.clone();
        next.trail.push(record.past(Some(Step::Replayed)));
        next.status = Status::Pending;
        next.reason = None;
        next.found = None;
        next.decided_at = self.now;
        self.write(next);
    }

    /// The open letters of an event become this, and nothing else.
    fn resolve(&mut self, event: crate::domain::EventKey, status: LetterStatus) {
        self.sheet.resolutions.retain(|it| it.event != event);
        self.sheet.resolutions.push(Resolution { event, status });
    }

    fn audit(&mut self, action: &'static str, told: &Told, before: &Record, by: &Operator) {
        let identity = &told.event.identity;
        let AccountKey { tenant, id } = self.key;
        let (outcome, reason) = told.label();
        self.sheet.audits.push(Audit {
            tenant: tenant.clone(),
            subject: by.subject.clone(),
            action: action.into(),
            account_id: Some(id.clone()),
            detail: json!({
                "source": &*identity.source,
                "event_id": &*identity.event_id,
                "outcome": outcome,
                "reason": reason.map(Reason::as_str),
                "version": told.version,
                "before": {
                    "status": before.status.as_str(),
                    "reason": before.reason.map(Reason::as_str),
                },
            }),
            note: by.note.clone(),
        });
    }
}

/// What the audit calls it.
fn replay_action(form: &Form) -> &'static str {
    match form {
        Form::Reversal(_) => "entry.reversed",
        Form::Stored(_) | Form::Corrected { .. } => "event.replayed",
    }
}

/// The event in the form in which it is evaluated now.
fn form(record: &Record, form: &Form) -> Arc<Event> {
    match form {
        Form::Stored(None) => record.event.clone(),
        Form::Stored(Some(version)) if record.event.content.expected_version == *version => {
            record.event.clone()
        }
        Form::Stored(Some(version)) => {
            let mut event = Event::clone(&record.event);
            event.content.expected_version = *version;
            Arc::new(event)
        }
        Form::Corrected { event, .. } | Form::Reversal(event) => event.clone(),
    }
}

fn judgement_is(judgement: Judgement, reason: Option<Reason>) -> bool {
    matches!(judgement, Judgement::Park(parked) if reason == Some(parked))
}
