//! The way to a store that may be away: before the database is reached, and
//! whenever it is known not to answer, every call fails at once, as it does in any
//! other outage, and nobody but the one prober asks ([`super`]).
//!
//! What lives here: what is known of the database, and passing calls on. What must
//! not: opening, probing, retrying.

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
        AccountFilter, Committed, Direction, EventFilter, EventView, EventsFound, LetterFilter,
        LetterView, Result, Store, StoreError, Totals, Verified, Waiting,
    },
};

/// The place where the store will be, and what is known of it.
pub(super) struct LateStore {
    store: OnceLock<Arc<dyn Store>>,
    /// What the last probe found wrong. [`StoreError::Away`] shuts the way.
    trouble: watch::Sender<Option<StoreError>>,
    /// Wakes the prober.
    asked: Notify,
}

impl Default for LateStore {
    fn default() -> Self {
        Self {
            store: OnceLock::new(),
            trouble: watch::Sender::new(Some(unreached())),
            asked: Notify::new(),
        }
    }
}

impl LateStore {
    /// Puts the store in its place. Only the first one counts.
    pub(super) fn arrived(&self, store: Arc<dyn Store>) {
        let _ = self.store.set(store);
        self.found(None);
    }

    /// Asks the database itself, whatever is known of it.
    pub(super) async fn probe(&self) -> Result<()> {
        match self.store.get() {
            Some(store) => store.ping().await,
            None => Err(unreached()),
        }
    }

    /// Notes what a probe found. While that is that nobody answers, calls fail at
    /// once, also those that wait already: they would wait in vain, and what
    /// became of them nobody could say either way.
    pub(super) fn found(&self, trouble: Option<StoreError>) {
        self.trouble.send_replace(trouble);
    }

    /// Ends when a call failed in a way that wants a probe.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    fn trouble(&self) -> Option<StoreError> {
        self.trouble.borrow().clone()
    }

    fn store(&self) -> Result<&dyn Store> {
        let away = |error: &StoreError| matches!(error, StoreError::Away(_));
        match (self.store.get(), self.trouble()) {
            (Some(store), trouble) if !trouble.as_ref().is_some_and(away) => Ok(&**store),
            (_, trouble) => Err(trouble.unwrap_or_else(unreached)),
        }
    }

    /// Waits for a call, but no longer than the database is there.
    async fn pass<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let mut trouble = self.trouble.subscribe();
        let away = async {
            let away = trouble.wait_for(|it| matches!(it, Some(StoreError::Away(_))));
            // The sender lives as long as this.
            let found = away.await.ok().and_then(|it| it.clone());
            match found {
                Some(error) => error,
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = call => answer,
            error = away => return Err(error),
        };
        if let Err(StoreError::Away(_) | StoreError::Unwritable(_)) = &answer {
            self.asked.notify_one();
        }
        answer
    }
}

fn unreached() -> StoreError {
    StoreError::Away("it was not reached yet".to_owned())
}

#[async_trait]
impl Store for LateStore {
    async fn load(&self, accounts: &[AccountKey]) -> Result<Vec<Page>> {
        self.pass(self.store()?.load(accounts)).await
    }

    async fn lookup(&self, keys: &[EventKey]) -> Result<Vec<Record>> {
        self.pass(self.store()?.lookup(keys)).await
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        self.pass(self.store()?.commit(plan)).await
    }

    async fn locked(&self, accounts: &[AccountKey]) -> Result<Vec<AccountKey>> {
        self.pass(self.store()?.locked(accounts)).await
    }

    async fn set_aside(&self, letters: &[Letter], at: Timestamp) -> Result<()> {
        self.pass(self.store()?.set_aside(letters, at)).await
    }

    async fn count_copies(&self, copies: &[(EventKey, i64)], at: Timestamp) -> Result<()> {
        self.pass(self.store()?.count_copies(copies, at)).await
    }

    async fn due(&self, limit: i64) -> Result<Vec<AccountKey>> {
        self.pass(self.store()?.due(limit)).await
    }

    async fn expired(&self, parked_before: Timestamp, limit: i64) -> Result<Vec<Waiting>> {
        self.pass(self.store()?.expired(parked_before, limit)).await
    }

    async fn account(&self, key: &AccountKey) -> Result<Option<Account>> {
        self.pass(self.store()?.account(key)).await
    }

    async fn accounts(
        &self,
        tenant: &str,
        filter: &AccountFilter,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<(Arc<str>, Account)>> {
        self.pass(self.store()?.accounts(tenant, filter, after, limit))
            .await
    }

    async fn entry(&self, key: &AccountKey, version: i64) -> Result<Option<Record>> {
        self.pass(self.store()?.entry(key, version)).await
    }

    async fn version_at(&self, key: &AccountKey, at: Timestamp) -> Result<Option<i64>> {
        self.pass(self.store()?.version_at(key, at)).await
    }

    async fn history(
        &self,
        key: &AccountKey,
        after: Option<i64>,
        direction: Direction,
        limit: i64,
    ) -> Result<Vec<Record>> {
        self.pass(self.store()?.history(key, after, direction, limit))
            .await
    }

    async fn event(&self, identity: &Identity) -> Result<Option<EventView>> {
        self.pass(self.store()?.event(identity)).await
    }

    async fn events_of(&self, identities: &[Identity]) -> Result<Vec<EventView>> {
        self.pass(self.store()?.events_of(identities)).await
    }

    async fn events(
        &self,
        tenant: &str,
        filter: &EventFilter,
        before: Option<i64>,
        limit: i64,
    ) -> Result<EventsFound> {
        self.pass(self.store()?.events(tenant, filter, before, limit))
            .await
    }

    async fn letters(
        &self,
        tenant: &str,
        filter: &LetterFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<LetterView>> {
        self.pass(self.store()?.letters(tenant, filter, before, limit))
            .await
    }

    async fn letter(&self, tenant: &str, id: Uuid) -> Result<Option<LetterView>> {
        self.pass(self.store()?.letter(tenant, id)).await
    }

    /// What the prober found last; only where that was nothing, a look.
    async fn ping(&self) -> Result<()> {
        match self.trouble() {
            Some(trouble) => Err(trouble),
            None => self.pass(self.store()?.ping()).await,
        }
    }

    async fn totals(&self, tenant: &str, at: Option<Timestamp>) -> Result<Vec<Totals>> {
        self.pass(self.store()?.totals(tenant, at)).await
    }

    async fn verify(&self) -> Result<Verified> {
        self.pass(self.store()?.verify()).await
    }

    async fn close(&self) {
        if let Some(store) = self.store.get() {
            store.close().await;
        }
    }
}
