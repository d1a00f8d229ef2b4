//! Makes up what is published, at a steady rate: mostly plain events, chains of
//! versions shuffled within a window, copies, and a little of everything that
//! is wrong. What must not live here: how it is sent.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{
    message::{Account, Format, Group, Kind, Sent},
    rng::Rng,
    world::{World, count},
};

/// Accounts of each group that are open from the start.
pub(crate) const OPEN: [(Group, u32); 5] = [
    (Group::Plain, 1000),
    (Group::Chain, 40),
    (Group::Bare, 10),
    (Group::Poor, 10),
    (Group::Tight, 10),
];

const TICKS_A_SECOND: u64 = 10;
/// No more is made up while so much waits to be published.
const WAITING_MAX: usize = 50_000;
/// Versions of one chain that are made at once, and over how long they are strewn.
const BURST: u32 = 20;
const BURST_WITHIN_MS: u64 = 2_000;
/// Copies come within so long.
const COPY_WITHIN_MS: u64 = 30_000;
const COPIES_PERMILLE: u64 = 100;

/// Runs until the load ends.
pub(crate) async fn run(world: Arc<World>, rate: u64) {
    let mut generator = Generator {
        rng: Rng::new(world.seed, 1),
        versions: [0; 50],
        late: 0,
        world,
    };
    let mut ticks = interval(Duration::from_millis(1000 / TICKS_A_SECOND));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (began, mut made) = (Instant::now(), 0);
    while !generator.world.ending() {
        ticks.tick().await;
        // By the clock, so that a missed tick is made up for, within limits.
        let owed = began.elapsed().as_millis() as u64 * rate / 1000;
        made = made.max(owed.saturating_sub(rate));
        while made < owed && generator.world.book.waiting() < WAITING_MAX {
            made += generator.make();
        }
    }
}

#[derive(Debug)]
struct Generator {
    world: Arc<World>,
    rng: Rng,
    /// The version that each chain has come to, beyond the first.
    versions: [u32; 50],
    late: u32,
}

impl Generator {
    /// Makes something up; answers how many messages.
    fn make(&mut self) -> u64 {
        match self.rng.below(1000) {
            // A burst each: 12 % and 3 % of the messages.
            0..7 => self.chain(Group::Chain),
            7..9 => self.chain(Group::Bare),
            9..29 => self.event(Group::Tight, Kind::Event, 400),
            29 => self.event(Group::Poor, Kind::Event, 0),
            30 => self.event(Group::Plain, Kind::Foreign, 500),
            31 => self.event(Group::Plain, Kind::Undecodable, 500),
            32 => self.event(Group::Plain, Kind::Invalid, 500),
            33 => self.late(),
            _ => self.event(Group::Plain, Kind::Event, 500),
        }
    }

    fn event(&mut self, group: Group, kind: Kind, most: u64) -> u64 {
        let accounts = OPEN.iter().find(|(open, _)| *open == group);
        let index = self
            .rng
            .below(accounts.map_or(1, |(_, count)| u64::from(*count))) as u32;
        let amount = match group {
            // Above what it was opened with.
            Group::Poor => -1000,
            _ => self.amount(most),
        };
        let sent = self.sent(kind, Account { group, index }, amount, 0);
        self.send(sent, 0)
    }

    fn amount(&mut self, most: u64) -> i64 {
        let amount = self.rng.between(1, most) as i64;
        if self.rng.permille(500) {
            -amount
        } else {
            amount
        }
    }

    fn sent(&mut self, kind: Kind, account: Account, amount: i64, version: u32) -> Sent {
        let formats = [
            Format::Native,
            Format::Native,
            Format::MessageId,
            Format::Structured,
            Format::Binary,
        ];
        let format = match (account.group, kind) {
            // A bare event has no other form.
            (Group::Bare, Kind::Event) => Format::Native,
            _ => *self.rng.pick(&formats).unwrap_or(&Format::Native),
        };
        Sent {
            kind,
            account,
            amount,
            version,
            format,
            confirmed: false,
        }
    }

    /// Has it published within so many milliseconds, and perhaps again later.
    fn send(&mut self, sent: Sent, within_ms: u64) -> u64 {
        let world = self.world.clone();
        let number = world.book.note(sent);
        let mut after = |most| Duration::from_millis(self.rng.below(most));
        world.book.publish_in(after(within_ms), number);
        if self.rng.permille(COPIES_PERMILLE) {
            let later = Duration::from_millis(self.rng.below(COPY_WITHIN_MS));
            world.book.publish_in(later, number);
            count(&world.figures.copies);
            return 2;
        }
        1
    }

    /// The next versions of one chain, in any order.
    fn chain(&mut self, group: Group) -> u64 {
        // Bare chains stand behind the others in the table.
        let (first, many) = if group == Group::Chain {
            (0, 40)
        } else {
            (40, 10)
        };
        let index = self.rng.below(many) as u32;
        let mut made = 0;
        for _ in 0..BURST {
            let version = &mut self.versions[(first + index) as usize];
            *version += 1;
            let version = *version;
            // The bare form has no direction: a debit.
            let amount = match group {
                Group::Bare => -(self.rng.between(1, 500) as i64),
                _ => self.amount(500),
            };
            let sent = self.sent(Kind::Event, Account { group, index }, amount, version);
            made += self.send(sent, BURST_WITHIN_MS);
        }
        made
    }

    /// Events for an account that will be opened later.
    fn late(&mut self) -> u64 {
        let account = Account {
            group: Group::Late,
            index: self.late,
        };
        self.late += 1;
        let mut made = 0;
        for _ in 0..3 {
            let amount = self.amount(500);
            let sent = self.sent(Kind::Event, account, amount, 0);
            made += self.send(sent, 1_000);
        }
        self.world.book.lock().late.push(account);
        made
    }
}
