//! A store that can be taken away, in which accounts can be locked, and that
//! counts what is read.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use onceledger::{
    domain::{Account, AccountKey, EventKey, Identity, Letter, Page, Plan, Record, Timestamp},
    store::{
        AccountFilter, AuditFilter, AuditView, Committed, Direction, EventFilter, EventView,
        EventsFound, LetterFilter, LetterView, Result, Store, StoreError, Totals, Verified,
        Waiting,
    },
};
use uuid::Uuid;

/// A store behind a switch.
pub struct Flaky {
    inner: Arc<dyn Store>,
    away: AtomicBool,
    locked: Mutex<Vec<AccountKey>>,
    pages: AtomicUsize,
}

impl Flaky {
    /// A store that is there.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            away: AtomicBool::new(false),
            locked: Mutex::default(),
            pages: AtomicUsize::new(0),
        })
    }

    /// Takes it away, or brings it back.
    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// Locks these accounts, and no others.
    pub fn lock(&self, accounts: &[AccountKey]) {
        *self.locked.lock().unwrap() = accounts.to_vec();
    }

    /// How many pages of a history were read.
    pub fn pages(&self) -> usize {
        self.pages.load(Ordering::SeqCst)
    }

    fn there(&self) -> Result<()> {
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::Away("taken away by a test".to_owned()));
        }
        Ok(())
    }

    fn is_locked(&self, account: &AccountKey) -> bool {
        self.locked.lock().unwrap().contains(account)
    }
}

#[async_trait]
impl Store for Flaky {
    async fn load(&self, accounts: &[AccountKey]) -> Result<Vec<Page>> {
        self.there()?;
        self.inner.load(accounts).await
    }

    async fn lookup(&self, keys: &[EventKey]) -> Result<Vec<Record>> {
        self.there()?;
        self.inner.lookup(keys).await
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        self.there()?;
        if plan
            .accounts
            .iter()
            .any(|change| self.is_locked(&change.key))
        {
            return Err(StoreError::Locked);
        }
        self.inner.commit(plan).await
    }

    async fn locked(&self, accounts: &[AccountKey]) -> Result<Vec<AccountKey>> {
        self.there()?;
        let locked = accounts.iter().filter(|account| self.is_locked(account));
        Ok(locked.cloned().collect())
    }

    async fn set_aside(&self, letters: &[Letter], at: Timestamp) -> Result<()> {
        self.there()?;
        self.inner.set_aside(letters, at).await
    }

    async fn count_copies(&self, copies: &[(EventKey, i64)], at: Timestamp) -> Result<()> {
        self.there()?;
        self.inner.count_copies(copies, at).await
    }

    async fn due(&self, limit: i64) -> Result<Vec<AccountKey>> {
        self.inner.due(limit).await
    }

    async fn expired(&self, parked_before: Timestamp, limit: i64) -> Result<Vec<Waiting>> {
        self.inner.expired(parked_before, limit).await
    }

    async fn account(&self, key: &AccountKey) -> Result<Option<Account>> {
        self.inner.account(key).await
    }

    async fn accounts(
        &self,
        tenant: &str,
        filter: &AccountFilter,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<(Arc<str>, Account)>> {
        self.inner.accounts(tenant, filter, after, limit).await
    }

    async fn entry(&self, key: &AccountKey, version: i64) -> Result<Option<Record>> {
        self.inner.entry(key, version).await
    }

    async fn version_at(&self, key: &AccountKey, at: Timestamp) -> Result<Option<i64>> {
        self.inner.version_at(key, at).await
    }

    async fn history(
        &self,
        key: &AccountKey,
        after: Option<i64>,
        direction: Direction,
        limit: i64,
    ) -> Result<Vec<Record>> {
        self.there()?;
        self.pages.fetch_add(1, Ordering::SeqCst);
        self.inner.history(key, after, direction, limit).await
    }

    async fn event(&self, identity: &Identity) -> Result<Option<EventView>> {
        self.inner.event(identity).await
    }

    async fn events_of(&self, identities: &[Identity]) -> Result<Vec<EventView>> {
        self.inner.events_of(identities).await
    }

    async fn events(
        &self,
        tenant: &str,
        filter: &EventFilter,
        before: Option<i64>,
        limit: i64,
    ) -> Result<EventsFound> {
        self.inner.events(tenant, filter, before, limit).await
    }

    async fn letters(
        &self,
        tenant: &str,
        filter: &LetterFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<LetterView>> {
        self.inner.letters(tenant, filter, before, limit).await
    }

    async fn letter(&self, tenant: &str, id: Uuid) -> Result<Option<LetterView>> {
        self.inner.letter(tenant, id).await
    }

    async fn audits(
        &self,
        tenant: &str,
        filter: &AuditFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<AuditView>> {
        self.there()?;
        self.inner.audits(tenant, filter, before, limit).await
    }

    async fn ping(&self) -> Result<()> {
        self.there()?;
        self.inner.ping().await
    }

    async fn totals(&self, tenant: &str, at: Option<Timestamp>) -> Result<Vec<Totals>> {
        self.inner.totals(tenant, at).await
    }

    async fn verify(&self) -> Result<Verified> {
        self.inner.verify().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
