//! What a ledger remembers of accounts between batches, and whether that is worth
//! trusting.
//!
//! Where another process writes the same accounts, pages go stale: each wrong one
//! costs its events a second round. While that happens often, all pages are read at
//! the head of their batch instead, and what is remembered is only compared with
//! them, to see when it can be trusted again. What must not live here: proof; the
//! commit has that.

use quick_cache::unsync::Cache;

use crate::domain::{AccountKey, Page};

/// So many pages back it looks, more or less.
const WINDOW: u32 = 4_096;

/// Among how many remembered pages one wrong one is too many, and among how many it
/// is none to speak of.
const WARY_FROM: u32 = 100;
const CALM_FROM: u32 = 400;

/// Pages of accounts as they were left.
pub(super) struct Memory {
    pages: Cache<AccountKey, Page>,
    /// Pages that were put to the test lately, and those that were wrong.
    tested: u32,
    wrong: u32,
    wary: bool,
}

impl Memory {
    /// Room for so many accounts.
    pub(super) fn of(accounts: usize) -> Self {
        Self {
            pages: Cache::new(accounts.max(1)),
            tested: 0,
            wrong: 0,
            wary: false,
        }
    }

    /// The account's page as it was left, where that can be trusted.
    pub(super) fn recall(&self, account: &AccountKey) -> Option<Page> {
        match self.wary {
            true => None,
            false => self.pages.get(account).cloned(),
        }
    }

    /// A page was read. Where one was remembered but not trusted, this tells whether
    /// it could have been.
    pub(super) fn read(&mut self, account: &AccountKey, page: &Page) {
        if !self.wary {
            return;
        }
        if let Some(remembered) = self.pages.peek(account) {
            let right = state(remembered) == state(page);
            self.tested(right);
        }
    }

    /// A page that was recalled went into a commit, and was right or stale.
    pub(super) fn tested(&mut self, right: bool) {
        self.tested += 1;
        self.wrong += u32::from(!right);
        let share = if self.wary { CALM_FROM } else { WARY_FROM };
        // A few wrong ones among the first prove nothing.
        self.wary = self.wrong * share > self.tested.max(WINDOW / 4);
        if self.tested >= WINDOW {
            self.tested /= 2;
            self.wrong /= 2;
        }
    }

    /// The account was left like this.
    pub(super) fn keep(&mut self, account: AccountKey, page: Page) {
        self.pages.insert(account, page);
    }

    /// Nobody knows how the account was left.
    pub(super) fn forget(&mut self, account: &AccountKey) {
        self.pages.remove(account);
    }

    /// Nobody knows how anything was left.
    pub(super) fn forget_all(&mut self) {
        self.pages.clear();
    }
}

/// What moves with everything that happens to an account.
fn state(page: &Page) -> Option<(i64, i64)> {
    let account = page.account.as_ref();
    account.map(|account| (account.version, account.revision))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Account, Timestamp};

    fn key(number: u32) -> AccountKey {
        AccountKey::new("t", number.to_string())
    }

    fn page(version: i64) -> Page {
        let mut account = Account::awaited(Timestamp(0));
        account.version = version;
        Page {
            account: Some(account),
            ..Page::default()
        }
    }

    fn memory(accounts: u32) -> Memory {
        let mut memory = Memory::of(accounts as usize * 2);
        for number in 0..accounts {
            memory.keep(key(number), page(1));
        }
        memory
    }

    #[test]
    fn it_recalls_what_was_kept_until_it_is_forgotten() {
        let mut memory = memory(3);
        assert_eq!(memory.recall(&key(1)), Some(page(1)));
        memory.keep(key(1), page(2));
        assert_eq!(memory.recall(&key(1)), Some(page(2)));
        memory.forget(&key(1));
        assert_eq!(memory.recall(&key(1)), None);
        memory.forget_all();
        assert_eq!(memory.recall(&key(2)), None);
    }

    #[test]
    fn one_wrong_in_fifty_makes_it_wary_and_one_in_a_thousand_does_not() {
        let mut memory = memory(1);
        (0..20_000).for_each(|n| memory.tested(n % 1_000 != 0));
        assert!(memory.recall(&key(0)).is_some());
        (0..WINDOW).for_each(|n| memory.tested(n % 50 != 0));
        assert_eq!(memory.recall(&key(0)), None);
    }

    #[test]
    fn once_wary_it_compares_what_is_read_and_trusts_again_when_that_agrees() {
        let mut memory = memory(1);
        (0..WINDOW).for_each(|_| memory.tested(false));
        memory.read(&key(0), &page(7));
        assert_eq!(memory.recall(&key(0)), None);
        (0..20 * WINDOW).for_each(|_| memory.read(&key(0), &page(1)));
        assert_eq!(memory.recall(&key(0)), Some(page(1)));
    }

    #[test]
    fn a_handful_of_wrong_ones_at_the_start_proves_nothing() {
        let mut memory = memory(1);
        (0..10).for_each(|_| memory.tested(false));
        assert!(memory.recall(&key(0)).is_some());
    }

    #[test]
    fn it_forgets_the_least_used_when_there_is_no_room() {
        let mut memory = Memory::of(1_000);
        for number in 0..20_000 {
            memory.keep(key(number), page(1));
        }
        let kept = (0..20_000).filter(|number| memory.recall(&key(*number)).is_some());
        assert!(kept.count() <= 1_000);
    }
}
