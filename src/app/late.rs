//! A store that may not be there: until the database is reached, and while it is known
//! to be away, every call fails at once instead of waiting for it anew.
//!
//! What lives here: passing calls on. What must not: opening, retrying, and finding
//! out whether the database is back; whoever watches it says so.

use std::{
    future::Future,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use crate::{
    domain::{Account, AccountKey, EventKey, Identity, Letter, Page, Plan, Record, Timestamp},
    store::{
        AccountFilter, AuditFilter, AuditView, Committed, Direction, EventFilter, EventView,
        EventsFound, LetterFilter, LetterView, Result, Store, StoreError, Totals, Verified,
        Waiting,
    },
};

/// The place where the store will be.
#[derive(Default)]
pub(super) struct LateStore {
    store: OnceLock<Arc<dyn Store>>,
    /// Why it is away, while it is known to be.
    away: watch::Sender<Option<StoreError>>,
    /// A call found it away.
    suspected: Notify,
}

impl LateStore {
    /// Puts the store in its place. Only the first one counts.
    pub(super) fn arrived(&self, store: Arc<dyn Store>) {
        let _ = self.store.set(store);
    }

    /// Says how the database stands. One that takes no writes still answers.
    pub(super) fn stands(&self, state: std::result::Result<(), &StoreError>) {
        let away = match state {
            Err(error @ StoreError::Away(_)) => Some(error.clone()),
            _ => None,
        };
        self.away.send_if_modified(|known| {
            let changed = known.is_some() != away.is_some();
            *known = away;
            changed
        });
    }

    /// Waits until a call finds the database away that is not known to be.
    pub(super) async fn suspected(&self) {
        self.suspected.notified().await;
    }

    fn store(&self) -> Result<&dyn Store> {
        match self.store.get() {
            Some(store) => Ok(&**store),
            None => Err(StoreError::Away("it was not reached yet".to_owned())),
        }
    }

    /// Passes a call on that can be given up: as soon as the database is known to be
    /// away, it is not waited for any longer.
    async fn read<'a, T, F>(&'a self, call: impl FnOnce(&'a dyn Store) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let store = self.reachable()?;
        let mut away = self.away.subscribe();
        tokio::select! {
            answer = call(store) => self.noted(answer),
            known = away.wait_for(Option::is_some) => match known.as_deref() {
                Ok(Some(error)) => Err(error.clone()),
                _ => Err(StoreError::Away("the service is stopping".to_owned())),
            },
        }
    }

    /// Passes a call on that is never given up half-way.
    async fn write<'a, T, F>(&'a self, call: impl FnOnce(&'a dyn Store) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let store = self.reachable()?;
        self.noted(call(store).await)
    }

    fn reachable(&self) -> Result<&dyn Store> {
        match &*self.away.borrow() {
            Some(error) => Err(error.clone()),
            None => self.store(),
        }
    }

    fn noted<T>(&self, answer: Result<T>) -> Result<T> {
        if matches!(answer, Err(StoreError::Away(_))) {
            self.suspected.notify_one();
        }
        answer
    }
}

#[async_trait]
impl Store for LateStore {
    async fn load(&self, accounts: &[AccountKey]) -> Result<Vec<Page>> {
        self.read(|store| store.load(accounts)).await
    }

    async fn lookup(&self, keys: &[EventKey]) -> Result<Vec<Record>> {
        self.read(|store| store.lookup(keys)).await
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        self.write(|store| store.commit(plan)).await
    }

    async fn locked(&self, accounts: &[AccountKey]) -> Result<Vec<AccountKey>> {
        self.read(|store| store.locked(accounts)).await
    }

    async fn set_aside(&self, letters: &[Letter], at: Timestamp) -> Result<()> {
        self.write(|store| store.set_aside(letters, at)).await
    }

    async fn count_copies(&self, copies: &[(EventKey, i64)], at: Timestamp) -> Result<()> {
        self.write(|store| store.count_copies(copies, at)).await
    }

    async fn due(&self, limit: i64) -> Result<Vec<AccountKey>> {
        self.read(|store| store.due(limit)).await
    }

    async fn expired(&self, parked_before: Timestamp, limit: i64) -> Result<Vec<Waiting>> {
        self.read(|store| store.expired(parked_before, limit)).await
    }

    async fn account(&self, key: &AccountKey) -> Result<Option<Account>> {
        self.read(|store| store.account(key)).await
    }

    async fn accounts(
        &self,
        tenant: &str,
        filter: &AccountFilter,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<(Arc<str>, Account)>> {
        self.read(|store| store.accounts(tenant, filter, after, limit))
            .await
    }

    async fn entry(&self, key: &AccountKey, version: i64) -> Result<Option<Record>> {
        self.read(|store| store.entry(key, version)).await
    }

    async fn version_at(&self, key: &AccountKey, at: Timestamp) -> Result<Option<i64>> {
        self.read(|store| store.version_at(key, at)).await
    }

    async fn history(
        &self,
        key: &AccountKey,
        after: Option<i64>,
        direction: Direction,
        limit: i64,
    ) -> Result<Vec<Record>> {
        self.read(|store| store.history(key, after, direction, limit))
            .await
    }

    async fn event(&self, identity: &Identity) -> Result<Option<EventView>> {
        self.read(|store| store.event(identity)).await
    }

    async fn events_of(&self, identities: &[Identity]) -> Result<Vec<EventView>> {
        self.read(|store| store.events_of(identities)).await
    }

    async fn events(
        &self,
        tenant: &str,
        filter: &EventFilter,
        before: Option<i64>,
        limit: i64,
    ) -> Result<EventsFound> {
        self.read(|store| store.events(tenant, filter, before, limit))
            .await
    }

    async fn letters(
        &self,
        tenant: &str,
        filter: &LetterFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<LetterView>> {
        self.read(|store| store.letters(tenant, filter, before, limit))
            .await
    }

    async fn letter(&self, tenant: &str, id: Uuid) -> Result<Option<LetterView>> {
        self.read(|store| store.letter(tenant, id)).await
    }

    async fn audits(
        &self,
        tenant: &str,
        filter: &AuditFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<AuditView>> {
        self.read(|store| store.audits(tenant, filter, before, limit))
            .await
    }

    async fn ping(&self) -> Result<()> {
        self.store()?.ping().await
    }

    async fn totals(&self, tenant: &str, at: Option<Timestamp>) -> Result<Vec<Totals>> {
        self.read(|store| store.totals(tenant, at)).await
    }

    async fn verify(&self) -> Result<Verified> {
        self.write(|store| store.verify()).await
    }

    async fn close(&self) {
        if let Ok(store) = self.store() {
            store.close().await;
        }
    }
}
