//! How many deliveries a consumer asks the broker for: slowly at first, and
//! less where messages are large. Pure figures.
//!
//! What must not live here: channels and subscriptions.

/// Most unacknowledged deliveries: RabbitMQ cuts more than that on quorum
/// queues (<https://www.rabbitmq.com/docs/quorum-queues#global-qos>).
const PREFETCH_MAX: u16 = 2_000;

/// The second step of a slow start.
const SECOND_STEP: u16 = 32;

/// A message that was handed out so often before, and never settled, may be what ends
/// the process. Once may be anybody's restart.
const SUSPICIOUS: i64 = 2;

/// Most bytes of bodies that one queue's deliveries should hold in memory, by
/// their average size. RabbitMQ does not implement a prefetch in bytes.
const PREFETCHED_BYTES_MAX: f64 = 32.0 * 1024.0 * 1024.0;

/// How much one more message weighs in the average.
const WEIGHT: f64 = 1.0 / 64.0;

/// How many deliveries to ask for, learned over the life of one process.
///
/// A message that kills the process is counted by the broker together with all
/// that were delivered with it (delivery limit). So a fresh process takes one,
/// then a few, then all it can.
///
/// That alone would not save the neighbours: whatever stands right behind such a
/// message would be taken together with it each time, and reach the limit with it. So
/// what was handed out twice already and never settled is taken one by one. Then the
/// broker hands the next one out only when it has the ack of the one before, which
/// would otherwise be lost with the process: a neighbour is counted no more. Only a
/// fresh process does so: one that has settled others shows that it can,
/// and what must wait for a locked account would hold up the whole queue.
#[derive(Debug)]
pub(super) struct Appetite {
    full: u16,
    survived: u64,
    /// Whether the last delivery was a suspicious one.
    suspicious: bool,
    average_bytes: f64,
}

impl Appetite {
    pub(super) fn new(prefetch: u16) -> Self {
        Self {
            full: prefetch.clamp(1, PREFETCH_MAX),
            survived: 0,
            suspicious: false,
            average_bytes: 0.0,
        }
    }

    /// A delivery was settled, and the process is still there. After a suspicious one
    /// the next may be another.
    pub(super) fn settled(&mut self) {
        if self.survived > 0 || !self.suspicious {
            self.outlived();
        }
    }

    /// A delivery was read and tried, and must wait: the process outlived it, and
    /// nothing else may have to wait with it.
    pub(super) fn outlived(&mut self) {
        self.survived = self.survived.saturating_add(1);
    }

    /// A body of this size arrived, which was handed out so often before. Larger ones
    /// count at once, smaller ones slowly: memory is spent faster than regained.
    pub(super) fn saw(&mut self, bytes: usize, handed_out_before: i64) {
        self.suspicious = handed_out_before >= SUSPICIOUS;
        let bytes = bytes as f64;
        let weight = if bytes > self.average_bytes * 8.0 {
            0.5
        } else {
            WEIGHT
        };
        self.average_bytes += (bytes - self.average_bytes) * weight;
    }

    /// How many deliveries to ask for now.
    pub(super) fn wanted(&self) -> u16 {
        let step = match self.survived {
            0 => 1,
            n if n < u64::from(SECOND_STEP) => SECOND_STEP,
            _ => PREFETCH_MAX,
        };
        let by_bytes = (PREFETCHED_BYTES_MAX / self.average_bytes.max(1.0)) as u16;
        self.full.min(step).min(by_bytes.max(1))
    }

    /// The prefetch to subscribe again with, where the present one is wrong by
    /// so much that subscribing again is worth it.
    pub(super) fn change_from(&self, present: u16) -> Option<u16> {
        let wanted = self.wanted();
        let grown =
            wanted > present && (wanted >= present.saturating_mul(2) || wanted == self.full);
        let shrunk = wanted <= present / 2;
        (grown || shrunk).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(appetite: &mut Appetite, count: usize) {
        for _ in 0..count {
            appetite.settled();
        }
    }

    #[test]
    fn a_fresh_process_takes_one_then_a_few_then_all() {
        let mut appetite = Appetite::new(500);
        assert_eq!(appetite.wanted(), 1);
        appetite.settled();
        assert_eq!(appetite.change_from(1), Some(32));
        settle(&mut appetite, 31);
        assert_eq!(appetite.change_from(32), Some(500));
        assert_eq!(appetite.change_from(500), None);
    }

    #[test]
    fn a_fresh_process_takes_what_was_handed_out_twice_one_by_one() {
        let mut appetite = Appetite::new(500);
        for _ in 0..40 {
            appetite.saw(100, SUSPICIOUS);
            appetite.settled();
            assert_eq!(appetite.change_from(1), None);
        }
        appetite.saw(100, SUSPICIOUS - 1);
        appetite.settled();
        assert_eq!(appetite.change_from(1), Some(32));
        appetite.saw(100, SUSPICIOUS);
        settle(&mut appetite, 31);
        assert_eq!(appetite.change_from(32), Some(500), "not fresh any more");
    }

    #[test]
    fn a_suspicious_one_that_must_wait_holds_nothing_up() {
        let mut appetite = Appetite::new(500);
        appetite.saw(100, SUSPICIOUS);
        appetite.outlived();
        assert_eq!(appetite.change_from(1), Some(32));
        appetite.saw(100, SUSPICIOUS);
        assert_eq!(appetite.change_from(32), None);
    }

    #[test]
    fn a_small_setting_is_kept_and_a_huge_one_is_cut() {
        let mut small = Appetite::new(4);
        small.settled();
        assert_eq!(small.change_from(1), Some(4));
        let mut huge = Appetite::new(u16::MAX);
        settle(&mut huge, 1_000);
        assert_eq!(huge.wanted(), 2_000);
        assert_eq!(Appetite::new(0).wanted(), 1);
    }

    #[test]
    fn large_messages_make_it_ask_for_fewer_and_small_ones_for_more_again() {
        let mut appetite = Appetite::new(2_000);
        settle(&mut appetite, 1_000);
        for _ in 0..100 {
            appetite.saw(1024 * 1024, 0);
        }
        assert!(appetite.wanted() <= 64, "{}", appetite.wanted());
        assert!(appetite.change_from(2_000).is_some());
        for _ in 0..2_000 {
            appetite.saw(200, 0);
        }
        assert_eq!(appetite.change_from(64), Some(2_000));
    }
}
