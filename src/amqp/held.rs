//! What waits to be tried again: each delivery by itself, with a growing delay.
//!
//! Nack with requeue is never the retry: the broker would hand the message out
//! again at once and count it (<https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling>).
//! What must not live here: trying; that is done in [`super::session`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::acks::Tag;
use crate::domain::{AccountKey, Event, Letter, Work};

/// The longest a delivery waits before it is tried again, without jitter.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// What is to be done with a delivery.
#[derive(Clone, Debug)]
pub(super) enum Errand {
    /// Bring the event to its lane.
    Submit(Work),
    /// Keep the message, which is no event.
    SetAside(Box<Letter>),
    /// Keep what the broker gave up, unless its event is known.
    Bury(Box<Grave>),
}

/// A message of the broker's dead-letter queue.
#[derive(Clone, Debug)]
pub(super) struct Grave {
    /// What would keep it.
    pub(super) letter: Letter,
    /// The event that it is, where it is one.
    pub(super) event: Option<Arc<Event>>,
}

/// A delivery with what is to be done with it.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) tag: Tag,
    pub(super) errand: Errand,
    /// How often it was tried in vain.
    pub(super) attempts: usize,
}

impl Task {
    /// The account of which an event is held.
    fn account(&self) -> Option<&AccountKey> {
        match &self.errand {
            Errand::Submit(work) => Some(&work.account),
            Errand::SetAside(_) | Errand::Bury(_) => None,
        }
    }
}

/// Deliveries by the moment at which they are due. Those of one account are due
/// together, so that they come back in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Held {
    tasks: BTreeMap<(Instant, u64), Task>,
    lines: FxHashMap<AccountKey, Line>,
}

/// What is held of one account.
#[derive(Debug)]
struct Line {
    due: Instant,
    length: usize,
}

impl Held {
    /// Holds a delivery that was tried in vain once more.
    pub(super) fn put(&mut self, mut task: Task, now: Instant) {
        let delay = delay(task.attempts);
        task.attempts += 1;
        self.insert(task, now + delay);
    }

    /// Holds a delivery that was never tried, where older ones of its account are
    /// held: it must not overtake them. Otherwise gives it back.
    pub(super) fn join(&mut self, task: Task) -> Option<Task> {
        let line = task.account().and_then(|it| self.lines.get(it));
        let Some(due) = line.map(|line| line.due) else {
            return Some(task);
        };
        self.insert(task, due);
        None
    }

    fn insert(&mut self, task: Task, mut due: Instant) {
        if let Some(account) = task.account() {
            let line = self.lines.entry(account.clone());
            let line = line.or_insert(Line { due, length: 0 });
            line.length += 1;
            due = line.due;
        }
        self.tasks.insert((due, task.tag.number), task);
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// When the next one is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.tasks.keys().next().map(|(due, _)| *due)
    }

    /// The next one that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Task> {
        let first = self.tasks.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let task = first.remove();
        if let Some(account) = task.account()
            && let Some(line) = self.lines.get_mut(account)
        {
            line.length -= 1;
            if line.length == 0 {
                self.lines.remove(account);
            }
        }
        Some(task)
    }
}

/// The delay before the next try after so many vain ones, with jitter, so that
/// what failed together does not come back together.
pub(super) fn delay(attempts: usize) -> Duration {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(DELAY_MAX)
        .without_max_times()
        .with_jitter()
        .build()
        // Past this the delay is at its maximum anyway.
        .nth(attempts.min(10))
        .unwrap_or(DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Ask;

    fn task(number: u64) -> Task {
        task_of("1", number)
    }

    fn task_of(account: &str, number: u64) -> Task {
        Task {
            tag: Tag {
                generation: 1,
                number,
            },
            errand: Errand::Submit(Work {
                account: AccountKey::new("default", account),
                ask: Ask::Release,
            }),
            attempts: 0,
        }
    }

    #[test]
    fn a_delivery_comes_back_when_it_is_due_and_counts_its_attempts() {
        let now = Instant::now();
        let mut held = Held::default();
        held.put(task(1), now);
        held.put(task(2), now);
        assert_eq!(held.len(), 2);
        assert!(held.take_due(now).is_none());
        let later = now + Duration::from_secs(1);
        let first = held.take_due(later).unwrap();
        assert_eq!(first.attempts, 1);
        assert!(held.take_due(later).is_some());
        assert_eq!(held.next_due(), None);
    }

    #[test]
    fn those_of_one_account_come_back_in_order_and_newer_ones_wait_behind_them() {
        let now = Instant::now();
        let mut held = Held::default();
        for number in [7, 3, 5] {
            held.put(task_of("a", number), now);
        }
        assert!(held.join(task_of("b", 8)).is_some(), "nothing to wait for");
        assert!(held.join(task_of("a", 9)).is_none());
        let due = held.next_due().unwrap();
        let mut numbers = Vec::new();
        while let Some(task) = held.take_due(due) {
            numbers.push(task.tag.number);
        }
        assert_eq!(numbers, [3, 5, 7, 9], "all at once");
        assert!(held.join(task_of("a", 10)).is_some(), "the line is gone");
    }

    #[test]
    fn delays_grow_and_stay_bounded() {
        assert!(delay(0) <= Duration::from_millis(100));
        for attempts in [8, 10, 1_000] {
            let delay = delay(attempts);
            assert!((DELAY_MAX..=DELAY_MAX * 2).contains(&delay), "{delay:?}");
        }
    }
}
