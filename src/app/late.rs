//! A store that may not be there yet: until the database is reached, every call
//! fails as it does in any other outage, and everything else can start.
//!
//! What lives here: passing calls on. What must not: opening, waiting, retrying.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    domain::{Account, AccountKey, EventKey, Identity, Letter, Page, Plan, Record, Timestamp},
    store::{
        AccountFilter, Committed, Direction, EventFilter, EventView, EventsFound, LetterFilter,
        LetterView, Result, Store, StoreError, Totals, Verified, Waiting,
    },
};

/// The place where the store will be.
#[derive(Default)]
pub(super) struct LateStore {
    store: OnceLock<Arc<dyn Store>>,
}

impl LateStore {
    /// Puts the store in its place. Only the first one counts.
    pub(super) fn arrived(&self, store: Arc<dyn Store>) {
        let _ = self.store.set(store);
    }

    fn store(&self) -> Result<&dyn Store> {
        match self.store.get() {
            Some(store) => Ok(&**store),
            None => Err(StoreError::Away("it was not reached yet".to_owned())),
        }
    }
}

#[async_trait]
impl Store for LateStore {
    async fn load(&self, accounts: &[AccountKey]) -> Result<Vec<Page>> {
        self.store()?.load(accounts).await
    }

    async fn lookup(&self, keys: &[EventKey]) -> Result<Vec<Record>> {
        self.store()?.lookup(keys).await
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        self.store()?.commit(plan).await
    }

    async fn locked(&self, accounts: &[AccountKey]) -> Result<Vec<AccountKey>> {
        self.store()?.locked(accounts).await
    }

    async fn set_aside(&self, letters: &[Letter], at: Timestamp) -> Result<()> {
        self.store()?.set_aside(letters, at).await
    }

    async fn count_copies(&self, copies: &[(EventKey, i64)], at: Timestamp) -> Result<()> {
        self.store()?.count_copies(copies, at).await
    }

    async fn due(&self, limit: i64) -> Result<Vec<AccountKey>> {
        self.store()?.due(limit).await
    }

    async fn expired(&self, parked_before: Timestamp, limit: i64) -> Result<Vec<Waiting>> {
        self.store()?.expired(parked_before, limit).await
    }

    async fn account(&self, key: &AccountKey) -> Result<Option<Account>> {
        self.store()?.account(key).await
    }

    async fn accounts(
        &self,
        tenant: &str,
        filter: &AccountFilter,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<(Arc<str>, Account)>> {
        self.store()?.accounts(tenant, filter, after, limit).await
    }

    async fn entry(&self, key: &AccountKey, version: i64) -> Result<Option<Record>> {
        self.store()?.entry(key, version).await
    }

    async fn version_at(&self, key: &AccountKey, at: Timestamp) -> Result<Option<i64>> {
        self.store()?.version_at(key, at).await
    }

    async fn history(
        &self,
        key: &AccountKey,
        after: Option<i64>,
        direction: Direction,
        limit: i64,
    ) -> Result<Vec<Record>> {
        self.store()?.history(key, after, direction, limit).await
    }

    async fn event(&self, identity: &Identity) -> Result<Option<EventView>> {
        self.store()?.event(identity).await
    }

    async fn events_of(&self, identities: &[Identity]) -> Result<Vec<EventView>> {
        self.store()?.events_of(identities).await
    }

    async fn events(
        &self,
        tenant: &str,
        filter: &EventFilter,
        before: Option<i64>,
        limit: i64,
    ) -> Result<EventsFound> {
        self.store()?.events(tenant, filter, before, limit).await
    }

    async fn letters(
        &self,
        tenant: &str,
        filter: &LetterFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<LetterView>> {
        self.store()?.letters(tenant, filter, before, limit).await
    }

    async fn letter(&self, tenant: &str, id: Uuid) -> Result<Option<LetterView>> {
        self.store()?.letter(tenant, id).await
    }

    async fn ping(&self) -> Result<()> {
        self.store()?.ping().await
    }

    async fn totals(&self, tenant: &str, at: Option<Timestamp>) -> Result<Vec<Totals>> {
        self.store()?.totals(tenant, at).await
    }

    async fn verify(&self) -> Result<Verified> {
        self.store()?.verify().await
    }

    async fn close(&self) {
        if let Ok(store) = self.store() {
            store.close().await;
        }
    }
}
