//! What waits for one account: its release, its new judgement, its death.

use std::sync::Arc;

use serde_json::json;

use super::desk::{Desk, line_is_stored};
use crate::domain::{
    Account, EventKey, Judgement, Letter, Raw, Reason, Record, Status, Step, Timestamp,
};

impl Desk<'_> {
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

    /// Lets a parked event die that waits since before a moment, and says why.
    pub(super) fn expire(
        &mut self,
        key: EventKey,
        before: Timestamp,
        raw: &Arc<Raw>,
    ) -> Option<Reason> {
        let record = self.lines.get(&key)?.record.clone();
        if record.status != Status::Parked || record.decided_at > before {
            return None;
        }
        self.sheet.waiting.retain(|waiter| waiter.key != key);
        let content = &record.event.content;
        let Judgement::Park(reason) = Account::judge(self.sheet.account.as_ref(), content) else {
            self.settle_waiter(key);
            return None;
        };
        let reason = reason.expired();
        self.sheet.revised = true;
        let mut dead = self.next_of(&record, Step::Expired);
        dead.status = Status::Dead;
        dead.reason = Some(reason);
        dead.found = self.found();
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
        Some(reason)
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
        let next = self.next_of(&record, Step::Released);
        let judgement = Account::judge(self.sheet.account.as_ref(), &record.event.content);
        let settled = self.settle(next, judgement);
        if line_is_stored(self.lines.get(&key)) {
            self.sheet.released.push((settled.status, settled.reason));
        }
    }

    /// The record with its last judgement in the trail; a parking that was never
    /// stored leaves no trace.
    fn next_of(&self, record: &Record, then: Step) -> Record {
        let mut next = record.clone();
        if line_is_stored(self.lines.get(&record.event.identity.key())) {
            next.trail.push(record.past(Some(then)));
        }
        next
    }
}
