//! Which deliveries of one channel are in hand, which are done, and what may be
//! acknowledged: a pure table, without a channel and without a clock.
//!
//! What must not live here: I/O, waiting, and any knowledge of what a delivery
//! says. When to acknowledge is decided in [`super::session`].

use std::collections::VecDeque;

use tokio::time::Instant;

/// A delivery of one channel. Numbers start afresh on every channel, so a number
/// alone means nothing: the same one names another message after a reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// Which channel it came on, counted by the consumer.
    pub(super) generation: u64,
    /// The delivery tag of that channel.
    pub(super) number: u64,
}

/// The deliveries of one channel that are not acknowledged yet, oldest first.
#[derive(Debug)]
pub(super) struct Acks {
    generation: u64,
    entries: VecDeque<Entry>,
    /// Leading entries that are not open any more.
    prefix: usize,
    /// Done ones among the leading entries: one multiple ack covers them.
    ready: usize,
    /// Done ones behind the first open one.
    behind: usize,
    /// Entries that nobody has finished.
    open: usize,
    last: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    taken_at: Instant,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    Done,
    /// Acknowledged singly while an older one was still open.
    Acked,
}

impl Acks {
    /// The empty table of a new channel.
    pub(super) fn new(generation: u64) -> Self {
        Self {
            generation,
            entries: VecDeque::new(),
            prefix: 0,
            ready: 0,
            behind: 0,
            open: 0,
            last: 0,
        }
    }

    /// A delivery arrived. A channel counts upwards by one (AMQP 0-9-1, section
    /// "delivery tag"). A number that does not go up is never acknowledged; one that
    /// leaves others out says that those were lost on their way here: they stand as
    /// open, so that no ack covers them, and go back to the queue with the channel.
    pub(super) fn taken(&mut self, number: u64, at: Instant) -> Tag {
        if number > self.last {
            if self.lost(number) > 0 {
                self.open(number - 1, at);
            }
            self.last = number;
            self.open(number, at);
        }
        Tag {
            generation: self.generation,
            number,
        }
    }

    /// How many deliveries were left out before this one.
    pub(super) fn lost(&self, number: u64) -> u64 {
        number.saturating_sub(self.last).saturating_sub(1)
    }

    fn open(&mut self, number: u64, taken_at: Instant) {
        self.open += 1;
        self.entries.push_back(Entry {
            number,
            taken_at,
            state: State::Open,
        });
    }

    /// Whether the tag is of this channel and nobody has finished it.
    pub(super) fn is_open(&self, tag: Tag) -> bool {
        self.place(tag)
            .is_some_and(|place| self.entries[place].state == State::Open)
    }

    /// A delivery is recorded and may be acknowledged. False where it is of
    /// another channel or was done before.
    pub(super) fn done(&mut self, tag: Tag) -> bool {
        let Some(place) = self.place(tag) else {
            return false;
        };
        let entry = &mut self.entries[place];
        if entry.state != State::Open {
            return false;
        }
        entry.state = State::Done;
        self.open -= 1;
        self.behind += 1;
        self.advance();
        true
    }

    fn advance(&mut self) {
        while let Some(entry) = self.entries.get(self.prefix) {
            match entry.state {
                State::Open => return,
                State::Done => {
                    self.behind -= 1;
                    self.ready += 1;
                }
                State::Acked => {}
            }
            self.prefix += 1;
        }
    }

    /// How many one multiple ack would cover.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    /// How many are done behind the first open one.
    pub(super) fn behind(&self) -> usize {
        self.behind
    }

    /// How many the broker still counts as ours.
    pub(super) fn in_hand(&self) -> usize {
        self.open + self.ready + self.behind
    }

    /// The oldest one that nobody has finished, and when it arrived.
    pub(super) fn oldest_open(&self) -> Option<(u64, Instant)> {
        self.entries
            .get(self.prefix)
            .map(|entry| (entry.number, entry.taken_at))
    }

    /// The number to acknowledge with `multiple`: everything up to it is done,
    /// and it itself is not acknowledged yet (an unknown number would close the
    /// channel, <https://www.rabbitmq.com/docs/confirms#consumer-acks-double-acking>).
    pub(super) fn ack_up_to(&mut self) -> Option<u64> {
        let number = self
            .entries
            .drain(..self.prefix)
            .rev()
            .find(|entry| entry.state == State::Done)
            .map(|entry| entry.number);
        self.prefix = 0;
        self.ready = 0;
        number
    }

    /// The numbers to acknowledge singly: done ones behind the first open one.
    pub(super) fn ack_behind(&mut self) -> Vec<u64> {
        self.behind = 0;
        self.entries
            .iter_mut()
            .skip(self.prefix)
            .filter(|entry| entry.state == State::Done)
            .map(|entry| {
                entry.state = State::Acked;
                entry.number
            })
            .collect()
    }

    fn place(&self, tag: Tag) -> Option<usize> {
        if tag.generation != self.generation {
            return None;
        }
        self.entries
            .binary_search_by_key(&tag.number, |entry| entry.number)
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use proptest::prelude::*;

    use super::*;

    fn table(count: u64) -> (Acks, Vec<Tag>) {
        let mut acks = Acks::new(7);
        let now = Instant::now();
        let tags = (1..=count).map(|number| acks.taken(number, now)).collect();
        (acks, tags)
    }

    #[test]
    fn one_ack_covers_everything_up_to_the_first_open_one() {
        let (mut acks, tags) = table(5);
        for place in [1, 0, 3] {
            assert!(acks.done(tags[place]));
        }
        assert_eq!((acks.ready(), acks.behind(), acks.open), (2, 1, 2));
        assert_eq!(acks.ack_up_to(), Some(2));
        assert_eq!(acks.ack_up_to(), None);
        assert_eq!(acks.oldest_open().map(|(number, _)| number), Some(3));
        assert_eq!(acks.in_hand(), 3);
    }

    #[test]
    fn what_was_acknowledged_behind_a_held_one_is_not_acknowledged_again() {
        let (mut acks, tags) = table(3);
        acks.done(tags[1]);
        acks.done(tags[2]);
        assert_eq!(acks.ack_behind(), vec![2, 3]);
        acks.done(tags[0]);
        assert_eq!(
            acks.ack_up_to(),
            Some(1),
            "3 would be unknown to the broker"
        );
        assert_eq!(acks.in_hand(), 0);
    }

    #[test]
    fn a_tag_of_another_channel_means_nothing() {
        let (mut acks, tags) = table(1);
        let old = Tag {
            generation: 6,
            ..tags[0]
        };
        assert!(!acks.done(old));
        assert!(!acks.is_open(old));
        assert_eq!(acks.ack_up_to(), None);
        assert!(acks.done(tags[0]));
        assert!(!acks.done(tags[0]), "done once");
    }

    #[test]
    fn what_never_arrived_is_never_acknowledged() {
        let (mut acks, tags) = table(2);
        let now = Instant::now();
        assert_eq!((acks.lost(3), acks.lost(2), acks.lost(6)), (0, 0, 3));
        let late = acks.taken(6, now);
        for tag in tags.into_iter().chain([late]) {
            assert!(acks.done(tag));
        }
        assert_eq!(acks.ack_up_to(), Some(2), "3 to 5 never came");
        assert_eq!(acks.ack_behind(), vec![6]);
        assert!(acks.oldest_open().is_some(), "the channel ends for it");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u64),
        Done(usize),
        DoneOfAnotherChannel(usize),
        AckUpTo,
        AckBehind,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => prop_oneof![9 => Just(1), 1 => 2..4_u64].prop_map(Step::Take),
            4 => (0..64_usize).prop_map(Step::Done),
            1 => (0..64_usize).prop_map(Step::DoneOfAnotherChannel),
            1 => Just(Step::AckUpTo),
            1 => Just(Step::AckBehind),
        ]
    }

    proptest! {
        /// Against a broker that knows what it delivered: every ack names a
        /// number that is still unacknowledged there, covers only what is done,
        /// and in the end everything done is acknowledged exactly once.
        #[test]
        fn every_ack_is_true_and_happens_once(steps in prop::collection::vec(step(), 0..200)) {
            let now = Instant::now();
            let mut acks = Acks::new(2);
            let mut unacked = BTreeSet::new();
            let mut done = HashSet::new();
            let mut tags = Vec::new();
            let (mut last, mut lost, mut gaps) = (0, 0, 0);
            let settle = |acks: &mut Acks, unacked: &mut BTreeSet<u64>, done: &HashSet<u64>, multiple: bool| {
                if multiple {
                    if let Some(up_to) = acks.ack_up_to() {
                        prop_assert!(unacked.contains(&up_to), "unknown number {up_to}");
                        let kept = unacked.split_off(&(up_to + 1));
                        for number in std::mem::replace(unacked, kept) {
                            prop_assert!(done.contains(&number), "{number} was not done");
                        }
                    }
                } else {
                    for number in acks.ack_behind() {
                        prop_assert!(unacked.remove(&number), "unknown number {number}");
                        prop_assert!(done.contains(&number), "{number} was not done");
                    }
                }
                Ok(())
            };
            for step in steps {
                match step {
                    Step::Take(gap) => {
                        // What is left out was delivered as well, as the broker knows.
                        unacked.extend(last + 1..=last + gap);
                        last += gap;
                        if gap > 1 {
                            lost += gap - 1;
                            gaps += 1;
                        }
                        tags.push(acks.taken(last, now));
                    }
                    Step::Done(which) if !tags.is_empty() => {
                        let tag = tags[which % tags.len()];
                        prop_assert_eq!(acks.done(tag), done.insert(tag.number));
                    }
                    Step::DoneOfAnotherChannel(which) if !tags.is_empty() => {
                        let tag = Tag { generation: 1, ..tags[which % tags.len()] };
                        prop_assert!(!acks.done(tag));
                    }
                    Step::AckUpTo => settle(&mut acks, &mut unacked, &done, true)?,
                    Step::AckBehind => settle(&mut acks, &mut unacked, &done, false)?,
                    _ => {}
                }
                prop_assert_eq!(acks.in_hand() + lost as usize, unacked.len() + gaps);
                prop_assert_eq!(acks.open, tags.len() + gaps - done.len());
            }
            for tag in &tags {
                acks.done(*tag);
                done.insert(tag.number);
            }
            settle(&mut acks, &mut unacked, &done, true)?;
            settle(&mut acks, &mut unacked, &done, false)?;
            prop_assert_eq!(unacked.len(), lost as usize, "all but what never came");
            prop_assert_eq!((acks.in_hand(), acks.oldest_open().is_some()), (gaps, gaps > 0));
        }
    }
}
