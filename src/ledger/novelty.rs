//! Which identities need no look-up, since they are new beyond reasonable doubt.
//!
//! What lives here: the guess. What must not: proof. Every new identity is inserted
//! under a unique key, so a wrong guess fails its batch as a whole, and the batch is
//! decided again, with a look-up. It costs time, never a second effect.

use rustc_hash::FxHashSet;

use crate::domain::{Ask, EventKey, Work};

/// Identities that are remembered as seen lately: at least so many, at most twice
/// as many.
const REMEMBERED: usize = 50_000;

/// So many new events without a single copy that was not seen lately, and copies are
/// rare enough: a wrong guess costs about as much as 5,000 look-ups.
const TRUST_AFTER: u64 = 20_000;

/// What one ledger has seen lately.
#[derive(Debug)]
pub(super) struct Novelty {
    /// The younger and the older half.
    lately: [FxHashSet<EventKey>; 2],
    /// New events since the last wrong guess, or since what would have been one.
    calm: u64,
    trust_after: u64,
}

impl Novelty {
    pub(super) fn new() -> Self {
        Self {
            lately: Default::default(),
            calm: 0,
            trust_after: TRUST_AFTER,
        }
    }

    /// Trusts from the start, and again one new event after each mistake.
    pub(super) fn trusting() -> Self {
        Self {
            calm: 1,
            trust_after: 1,
            ..Self::new()
        }
    }

    /// The identities that must be looked up to decide these asks, sorted, each
    /// once.
    pub(super) fn doubtful(&self, works: &[&Work]) -> Vec<EventKey> {
        let mut keys: Vec<EventKey> = works
            .iter()
            .filter_map(|work| Some((work, work.key()?)))
            .filter(|(work, key)| !self.is_new(work, key))
            .map(|(_, key)| key)
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn is_new(&self, work: &Work, key: &EventKey) -> bool {
        let trusted = self.calm >= self.trust_after && !self.saw(key);
        // A refusal by a condition of the call writes nothing, so nothing would tell
        // a wrong guess.
        let guarded = matches!(&work.ask, Ask::Submit(submission)
            if submission.if_version.is_none() && !submission.strict);
        trusted && guarded
    }

    fn saw(&self, key: &EventKey) -> bool {
        self.lately.iter().any(|some| some.contains(key))
    }

    /// A look-up found these. One that was not seen lately would have been taken for
    /// new.
    pub(super) fn found(&mut self, known: impl IntoIterator<Item = EventKey>) {
        for key in known {
            if !self.saw(&key) {
                self.mistaken();
                self.see(key);
            }
        }
    }

    /// These are decided, and so no longer new.
    pub(super) fn decided(&mut self, keys: impl IntoIterator<Item = EventKey>) {
        for key in keys {
            self.calm = self.calm.saturating_add(1);
            self.see(key);
        }
    }

    /// A guess was wrong, or may have been.
    pub(super) fn mistaken(&mut self) {
        self.calm = 0;
    }

    fn see(&mut self, key: EventKey) {
        if self.lately[0].len() >= REMEMBERED {
            self.lately.swap(0, 1);
            self.lately[0].clear();
        }
        self.lately[0].insert(key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::{Content, Event, Identity, Kind, Raw, Submission};

    fn work(number: u64, strict: bool) -> Work {
        Work::submit(Submission {
            event: Arc::new(Event {
                identity: Identity::new("t", "s", number.to_string()),
                derived: false,
                content: Content {
                    account_id: "1".into(),
                    kind: Kind::Debit,
                    amount: 1,
                    currency: None,
                    expected_version: None,
                },
                reference: None,
                occurred_at: None,
                metadata: None,
            }),
            raw: Arc::new(Raw::default()),
            if_version: None,
            strict,
        })
    }

    fn key(number: u64) -> EventKey {
        work(number, false).key().unwrap()
    }

    fn doubtful(novelty: &Novelty, works: &[Work]) -> Vec<EventKey> {
        novelty.doubtful(&works.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_fresh_one_looks_everything_up_and_each_once() {
        let mut expected = vec![key(1), key(2)];
        expected.sort_unstable();
        let works = [work(1, false), work(2, false), work(1, false)];
        assert_eq!(doubtful(&Novelty::new(), &works), expected);
    }

    /// Trusts after so many new events.
    fn after(events: u64) -> Novelty {
        Novelty {
            trust_after: events,
            ..Novelty::new()
        }
    }

    #[test]
    fn after_many_new_ones_only_what_was_seen_lately_is_looked_up() {
        let mut novelty = after(3);
        novelty.decided([key(1), key(2)]);
        assert_eq!(doubtful(&novelty, &[work(9, false)]), [key(9)]);
        novelty.decided([key(3)]);
        assert!(doubtful(&novelty, &[work(9, false)]).is_empty());
        assert_eq!(doubtful(&novelty, &[work(2, false)]), [key(2)]);
    }

    #[test]
    fn an_ask_that_may_be_refused_without_a_trace_is_always_looked_up() {
        let novelty = Novelty::trusting();
        assert_eq!(doubtful(&novelty, &[work(9, true)]), [key(9)]);
        assert!(doubtful(&novelty, &[work(9, false)]).is_empty());
    }

    #[test]
    fn an_old_copy_ends_the_trust_and_one_seen_lately_does_not() {
        let mut novelty = after(2);
        novelty.decided([key(1), key(2)]);
        novelty.found([key(1)]);
        assert!(doubtful(&novelty, &[work(9, false)]).is_empty());
        novelty.found([key(7)]);
        assert_eq!(doubtful(&novelty, &[work(9, false)]), [key(9)]);
        novelty.decided([key(4), key(5)]);
        novelty.mistaken();
        assert_eq!(doubtful(&novelty, &[work(9, false)]), [key(9)]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut novelty = Novelty::trusting();
        let count = REMEMBERED as u64 * 3;
        novelty.decided((0..count).map(key));
        assert!(novelty.lately.iter().all(|some| some.len() <= REMEMBERED));
        assert!(novelty.saw(&key(count - 1)) && !novelty.saw(&key(0)));
    }
}
