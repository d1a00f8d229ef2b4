//! What is sent: the same made-up payments for every case, decided by a seed.
//!
//! What must not live here: sending.

use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::SliceRandom};
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};
use strum::{EnumIter, IntoStaticStr};
use uuid::Uuid;

/// Versions of one account that are shuffled among those of the others. An event
/// then stands in its place by chance about once in six times; the others wait.
const SHUFFLED: u32 = 20;

/// How far back a copy may lie behind the message that it repeats.
const COPY_DISTANCE: usize = 10_000;

/// How the events of a sample are spread over accounts.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    EnumIter,
    IntoStaticStr,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Workload {
    /// Every account equally often.
    Spread,
    /// Few accounts often, many rarely (Zipf's law with exponent 1).
    Zipf,
    /// One account.
    Hot,
    /// Every other message is a copy of one sent before.
    Duplicates,
    /// Events name versions, and those of an account come in no order.
    Shuffled,
}

impl Workload {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One event to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    /// Counted through the whole run; a copy has the number of what it repeats.
    pub(super) number: u64,
    /// Its account, counted within its [`Accounts`].
    pub(super) account: u32,
    /// Minor units.
    pub(super) amount: i64,
    /// The version at which it wants to find the account.
    pub(super) version: Option<i64>,
}

/// A set of accounts that one kind of case has for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accounts {
    /// First part of their ids.
    pub(super) prefix: &'static str,
    /// How many they are.
    pub(super) count: u32,
}

impl Accounts {
    /// The id of one of them.
    pub(super) fn id(self, account: u32) -> String {
        format!("{}-{account:07}", self.prefix)
    }
}

/// Makes drafts, sample after sample, and never the same number twice.
#[derive(Debug)]
pub(super) struct Workshop {
    run: u64,
    random: Xoshiro256PlusPlus,
    next: u64,
    accounts: Accounts,
    /// For each account of the shuffled kind the version it will have.
    versions: Vec<i64>,
    /// Where the next shuffled sample begins.
    turn: u32,
}

impl Workshop {
    /// `run` tells the ids of this run from those of others.
    pub(super) fn new(run: u64, seed: u64, accounts: Accounts) -> Self {
        Self {
            run,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            next: 0,
            accounts,
            versions: vec![1; accounts.count as usize],
            turn: 0,
        }
    }

    /// The accounts that the drafts are for.
    pub(super) fn accounts(&self) -> Accounts {
        self.accounts
    }

    /// The next sample.
    pub(super) fn sample(&mut self, workload: Workload, count: usize) -> Vec<Draft> {
        match workload {
            Workload::Spread => self.drafts(count, |random, count| random.random_range(0..count)),
            Workload::Hot => self.drafts(count, |_, _| 0),
            Workload::Zipf => {
                // Only a count of 0 or a negative exponent would be refused.
                let zipf = Zipf::new(f64::from(self.accounts.count.max(1)), 1.0).ok();
                self.drafts(count, |random, _| {
                    zipf.map_or(0, |zipf| zipf.sample(random) as u32 - 1)
                })
            }
            Workload::Duplicates => self.with_copies(count),
            Workload::Shuffled => self.shuffled(count),
        }
    }

    fn drafts(
        &mut self,
        count: usize,
        account: impl Fn(&mut Xoshiro256PlusPlus, u32) -> u32,
    ) -> Vec<Draft> {
        let accounts = self.accounts.count;
        (0..count)
            .map(|_| {
                let account = account(&mut self.random, accounts);
                self.draft(account, None)
            })
            .collect()
    }

    fn draft(&mut self, account: u32, version: Option<i64>) -> Draft {
        let number = self.next;
        self.next += 1;
        Draft {
            number,
            account,
            amount: self.random.random_range(1..=1_000),
            version,
        }
    }

    fn with_copies(&mut self, count: usize) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::with_capacity(count);
        for place in 0..count {
            let draft = if place % 2 == 0 {
                let account = self.random.random_range(0..self.accounts.count);
                self.draft(account, None)
            } else {
                let from = place.saturating_sub(COPY_DISTANCE);
                drafts[self.random.random_range(from..place)]
            };
            drafts.push(draft);
        }
        drafts
    }

    fn shuffled(&mut self, count: usize) -> Vec<Draft> {
        let mut drafts = Vec::with_capacity(count);
        while drafts.len() < count {
            let account = self.turn;
            self.turn = (self.turn + 1) % self.accounts.count;
            for _ in 0..SHUFFLED.min((count - drafts.len()) as u32) {
                let version = self.versions[account as usize];
                self.versions[account as usize] += 1;
                drafts.push(self.draft(account, Some(version)));
            }
        }
        drafts.shuffle(&mut self.random);
        drafts
    }

    /// The id that the event of a number has.
    pub(super) fn event_id(&self, number: u64) -> String {
        Uuid::from_u64_pair(self.run, number)
            .hyphenated()
            .to_string()
    }

    /// The message of a draft, about 200 bytes.
    pub(super) fn body(&self, draft: &Draft) -> Vec<u8> {
        let version = draft
            .version
            .map_or_else(String::new, |version| format!(r#""version":{version},"#));
        format!(
            r#"{{"event_id":"{}","type":"debit","account_id":"{}","amount":{},"currency":"EUR",{version}"reference":"order-{:012}","occurred_at":"2026-11-30T08:00:00Z"}}"#,
            self.event_id(draft.number),
            self.accounts.id(draft.account),
            draft.amount,
            draft.number
        )
        .into_bytes()
    }
}

/// The number in an event's id.
pub(super) fn number_of(event_id: &str) -> Option<u64> {
    Some(Uuid::parse_str(event_id).ok()?.as_u64_pair().1)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn workshop() -> Workshop {
        let accounts = Accounts {
            prefix: "a",
            count: 1_000,
        };
        Workshop::new(7, 1, accounts)
    }

    fn numbers(drafts: &[Draft]) -> BTreeSet<u64> {
        drafts.iter().map(|draft| draft.number).collect()
    }

    #[test]
    fn samples_have_the_length_asked_for_and_share_no_number() {
        let mut workshop = workshop();
        let mut seen = BTreeSet::new();
        for workload in [
            Workload::Spread,
            Workload::Zipf,
            Workload::Hot,
            Workload::Shuffled,
        ] {
            let drafts = workshop.sample(workload, 510);
            let numbers = numbers(&drafts);
            assert_eq!((drafts.len(), numbers.len()), (510, 510), "{workload:?}");
            assert!(seen.is_disjoint(&numbers));
            seen.extend(numbers);
        }
    }

    #[test]
    fn every_other_message_is_a_copy_of_an_earlier_one() {
        let drafts = workshop().sample(Workload::Duplicates, 1_000);
        assert_eq!(numbers(&drafts).len(), 500);
        for (place, draft) in drafts.iter().enumerate().skip(1).step_by(2) {
            assert!(drafts[..place].contains(draft));
        }
    }

    #[test]
    fn shuffled_versions_of_an_account_have_no_holes_over_all_samples() {
        let mut workshop = workshop();
        let mut versions: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for _ in 0..60 {
            for draft in workshop.sample(Workload::Shuffled, 500) {
                let versions = versions.entry(draft.account).or_default();
                versions.push(draft.version.unwrap());
            }
        }
        assert!(versions.values().any(|them| !them.is_sorted()));
        for mut of_account in versions.into_values() {
            of_account.sort_unstable();
            let expected: Vec<i64> = (1..=of_account.len() as i64).collect();
            assert_eq!(of_account, expected);
        }
    }

    #[test]
    fn an_id_tells_its_number_and_a_body_is_about_two_hundred_bytes() {
        let mut workshop = workshop();
        let draft = workshop.sample(Workload::Shuffled, 20)[3];
        assert_eq!(
            number_of(&workshop.event_id(draft.number)),
            Some(draft.number)
        );
        let length = workshop.body(&draft).len();
        assert!((180..=220).contains(&length), "{length}");
    }
}
