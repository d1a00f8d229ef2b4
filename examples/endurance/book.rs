//! The producer's own books: what was sent, what is to be sent when, and so what
//! must stand in the ledger at the end. What must not live here: how it is sent.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::message::{Account, Fate, Group, Identity, Kind, Sent};

/// What one publisher takes at once.
const TAKE_MAX: usize = 200;

/// The books, shared by everybody who sends.
#[derive(Debug)]
pub(crate) struct Book {
    began: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    /// Everything, by its number.
    pub(crate) sent: Vec<Sent>,
    /// Accounts that are open, or will be before the end.
    pub(crate) accounts: Vec<Account>,
    /// Numbers to publish, by when.
    due: BinaryHeap<Reverse<(Duration, u32)>>,
    /// Accounts that events came for, and that are not open yet.
    pub(crate) late: Vec<Account>,
    /// Things confirmed.
    pub(crate) confirmed: u64,
}

impl Book {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            inner: Mutex::default(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a thing before it is sent for the first time, and gives it a number.
    pub(crate) fn note(&self, sent: Sent) -> u32 {
        let mut inner = self.lock();
        inner.sent.push(sent);
        u32::try_from(inner.sent.len() - 1).unwrap_or(u32::MAX)
    }

    /// Has a number published after a while.
    pub(crate) fn publish_in(&self, after: Duration, number: u32) {
        let due = self.began.elapsed() + after;
        self.lock().due.push(Reverse((due, number)));
    }

    /// What is due, to publish it now. With `all`, also what would be due later.
    pub(crate) fn take_due(&self, all: bool) -> Vec<u32> {
        let now = self.began.elapsed();
        let mut inner = self.lock();
        let mut taken = Vec::new();
        while taken.len() < TAKE_MAX
            && let Some(Reverse((due, number))) = inner.due.peek().copied()
            && (all || due <= now)
        {
            inner.due.pop();
            taken.push(number);
        }
        taken
    }

    /// How many publications wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().due.len()
    }

    /// Notes that whoever took it has it for good.
    pub(crate) fn confirm(&self, number: u32) {
        let mut inner = self.lock();
        if let Some(sent) = inner.sent.get_mut(number as usize)
            && !sent.confirmed
        {
            sent.confirmed = true;
            inner.confirmed += 1;
        }
    }

    /// A thing, with the identity that it takes from another.
    pub(crate) fn get(&self, number: u32) -> Option<(Sent, Option<Identity>)> {
        let inner = self.lock();
        let sent = *inner.sent.get(number as usize)?;
        let first = match sent.kind {
            Kind::Reused(first) => inner.sent.get(first as usize)?.identity(first),
            _ => None,
        };
        Some((sent, first))
    }
}

/// What must stand in the ledger for one identity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) fate: Fate,
    pub(crate) sent: Sent,
}

impl Inner {
    /// Every identity that must be recorded.
    pub(crate) fn identities(&self) -> HashMap<(String, String), Expected> {
        let mut identities = HashMap::with_capacity(self.sent.len());
        for (number, sent) in self.numbered() {
            if let Some((source, id)) = sent.identity(number) {
                let fate = sent.fate();
                identities.insert((source.to_owned(), id), Expected { fate, sent });
            }
        }
        identities
    }

    /// Every dead letter that must be there: its body, and its reason.
    pub(crate) fn letters(&self) -> HashMap<Vec<u8>, &'static str> {
        let mut letters = HashMap::new();
        for (number, sent) in self.numbered() {
            if let Fate::Letter(reason) = sent.fate() {
                let first = match sent.kind {
                    Kind::Reused(first) => self
                        .sent
                        .get(first as usize)
                        .and_then(|sent| sent.identity(first)),
                    _ => None,
                };
                letters.insert(sent.publication(number, first).0, reason);
            }
        }
        letters
    }

    /// Every account on which nothing depends on arrival, with the balance and
    /// the version that it must end with.
    pub(crate) fn balances(&self) -> HashMap<String, (i64, i64)> {
        let exact = |account: &Account| account.group != Group::Tight;
        let accounts = self.accounts.iter().filter(|account| exact(account));
        let mut balances: HashMap<Account, (i64, i64)> = accounts
            .map(|account| (*account, (account.opening(), 1)))
            .collect();
        for sent in &self.sent {
            if sent.fate() == Fate::Applied
                && let Some((balance, version)) = balances.get_mut(&sent.account)
            {
                *balance += sent.amount;
                *version += 1;
            }
        }
        let named = balances.into_iter();
        named.map(|(account, end)| (account.id(), end)).collect()
    }

    pub(crate) fn unconfirmed(&self) -> usize {
        self.sent.iter().filter(|sent| !sent.confirmed).count()
    }

    fn numbered(&self) -> impl Iterator<Item = (u32, Sent)> {
        (0..).zip(self.sent.iter().copied())
    }
}
