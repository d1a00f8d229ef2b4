//! A store in memory that keeps to the words of the trait: the model on which the
//! pure rules are played, fast enough for thousands of random histories.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use onceledger::{
    domain::{
        Account, AccountKey, EventKey, Identity, Kind, Letter, Page, Plan, Proof, RELEASE_MAX,
        Record, Status, Timestamp,
    },
    store::{
        AccountFilter, AuditFilter, AuditView, Committed, Direction, EventFilter, EventView,
        EventsFound, LetterFilter, LetterView, Result, Store, StoreError, Totals, Verified,
        Waiting,
    },
};
use std::sync::Arc;
use uuid::Uuid;

/// Accounts, records and letters in maps, behind one lock: every commit is
/// serial, so only stale reads are left to go wrong.
#[derive(Default)]
pub struct Model {
    state: Mutex<State>,
    /// What goes wrong.
    pub faults: Mutex<Faults>,
    commits: AtomicUsize,
}

/// What goes wrong in a model.
#[derive(Default)]
pub struct Faults {
    /// The next commits fail with these, first to last.
    pub commits: Vec<StoreError>,
    /// A plan with an event of this amount fails so.
    pub failing: Option<(i64, StoreError)>,
    /// These accounts are locked by somebody else.
    pub locked: Vec<AccountKey>,
}

impl Faults {
    fn strike(&mut self, plan: &Plan) -> Result<()> {
        if !self.commits.is_empty() {
            return Err(self.commits.remove(0));
        }
        let mut inserts = plan.accounts.iter().flat_map(|change| &change.inserts);
        if let Some((amount, error)) = &self.failing
            && inserts.any(|record| record.event.content.amount == *amount)
        {
            return Err(error.clone());
        }
        if plan
            .accounts
            .iter()
            .any(|change| self.locked.contains(&change.key))
        {
            return Err(StoreError::Locked);
        }
        Ok(())
    }
}

#[derive(Default, Clone)]
pub struct State {
    pub accounts: BTreeMap<AccountKey, Account>,
    pub records: HashMap<EventKey, (i64, Record)>,
    pub letters: Vec<Letter>,
    pub copies: HashMap<EventKey, i64>,
    next: i64,
}

impl Model {
    /// How many commits were tried.
    pub fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    /// All that is stored, for comparison.
    pub fn state(&self) -> State {
        self.state.lock().unwrap().clone()
    }

    /// Puts another state in its place, as other instances may have made it.
    pub fn put(&self, state: State) {
        *self.state.lock().unwrap() = state;
    }
}

impl State {
    fn page(&self, key: &AccountKey) -> Page {
        let mut waiting: Vec<_> = self
            .records
            .values()
            .filter(|(_, r)| r.status == Status::Parked && r.event.account() == *key)
            .collect();
        waiting.sort_by_key(|(seq, r)| {
            let expected = r.event.content.expected_version;
            (expected.is_none(), expected, *seq)
        });
        let (versioned, unversioned): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|(_, r)| Arc::new(r.clone()))
            .partition(|r| r.event.content.expected_version.is_some());
        Page {
            account: self.accounts.get(key).cloned(),
            more_versioned: versioned.len() > RELEASE_MAX,
            more_unversioned: unversioned.len() > RELEASE_MAX,
            waiting: versioned
                .into_iter()
                .take(RELEASE_MAX)
                .chain(unversioned.into_iter().take(RELEASE_MAX))
                .collect(),
        }
    }

    fn proven(&self, key: &AccountKey, proof: &Proof) -> bool {
        let now = self.accounts.get(key);
        match proof {
            Proof::Nothing => true,
            Proof::Absent => now.is_none_or(|account| account.version == 0),
            Proof::Insert => now.is_none(),
            Proof::Unchanged(before) | Proof::Update(before) => now.is_some_and(|now| {
                (now.version, now.revision, now.balance)
                    == (before.version, before.revision, before.balance)
            }),
        }
    }

    /// The entries of an account, by version.
    pub fn history(&self, key: &AccountKey) -> Vec<&Record> {
        let mut entries: Vec<&Record> = self
            .records
            .values()
            .map(|(_, record)| record)
            .filter(|r| r.status == Status::Applied && r.event.account() == *key)
            .collect();
        entries.sort_by_key(|record| record.version);
        entries
    }

    /// Section 7 of the contract, on everything that is stored.
    pub fn check_invariants(&self) {
        for (key, account) in &self.accounts {
            let mut balance = 0;
            let mut at = Timestamp(i64::MIN);
            let entries = self.history(key);
            for (place, entry) in entries.iter().enumerate() {
                let content = &entry.event.content;
                let floor = entry.floor.unwrap_or(i64::MIN);
                assert_eq!(entry.version, Some(place as i64 + 1), "{key:?}: a hole");
                balance += match content.kind {
                    Kind::Debit => -content.amount,
                    Kind::Credit | Kind::Opening => content.amount,
                };
                assert_eq!(
                    entry.balance_after,
                    Some(balance),
                    "{key:?}: wrong balance_after"
                );
                assert!(
                    content.kind != Kind::Debit || balance >= floor,
                    "{key:?}: below the floor"
                );
                assert_eq!(
                    place == 0,
                    content.kind == Kind::Opening,
                    "{key:?}: opening first"
                );
                assert!(entry.decided_at >= at, "{key:?}: applied_at went back");
                at = entry.decided_at;
            }
            assert_eq!(account.version, entries.len() as i64, "{key:?}: version");
            assert_eq!(account.balance, balance, "{key:?}: balance");
        }
    }
}

#[async_trait]
impl Store for Model {
    async fn load(&self, accounts: &[AccountKey]) -> Result<Vec<Page>> {
        let state = self.state.lock().unwrap();
        Ok(accounts.iter().map(|key| state.page(key)).collect())
    }

    async fn lookup(&self, keys: &[EventKey]) -> Result<Vec<Record>> {
        let state = self.state.lock().unwrap();
        Ok(keys
            .iter()
            .filter_map(|key| state.records.get(key))
            .map(|(_, r)| r.clone())
            .collect())
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.faults.lock().unwrap().strike(plan)?;
        let mut state = self.state.lock().unwrap();
        let mut next = state.clone();
        let mut committed = Committed::default();
        for (place, change) in plan.accounts.iter().enumerate() {
            if !state.proven(&change.key, &change.proof) {
                committed.stale.push(place);
                continue;
            }
            if let (Proof::Insert | Proof::Update(_), Some(after)) = (&change.proof, &change.after)
            {
                next.accounts.insert(
                    change.key.clone(),
                    Account {
                        row: 1,
                        ..after.clone()
                    },
                );
                if change.proof == Proof::Insert {
                    committed.rows.push((place, 1));
                }
            }
            for record in &change.inserts {
                next.next += 1;
                let seq = next.next;
                let key = record.event.identity.key();
                if next
                    .records
                    .insert(key, (seq, Record::clone(record)))
                    .is_some()
                {
                    return Err(StoreError::Raced);
                }
            }
            for update in &change.updates {
                let key = update.record.event.identity.key();
                let Some((seq, old)) = next.records.get(&key) else {
                    return Err(StoreError::Raced);
                };
                if (old.status, old.decision) != (update.status_before, update.decision_before) {
                    return Err(StoreError::Raced);
                }
                assert_ne!(
                    old.status,
                    Status::Applied,
                    "an applied record never changes"
                );
                next.records
                    .insert(key, (*seq, Record::clone(&update.record)));
            }
            for letter in &change.letters {
                if !next
                    .letters
                    .iter()
                    .any(|open| open.digest() == letter.digest())
                {
                    next.letters.push(letter.clone());
                }
            }
        }
        *state = next;
        Ok(committed)
    }

    async fn locked(&self, accounts: &[AccountKey]) -> Result<Vec<AccountKey>> {
        let locked = &self.faults.lock().unwrap().locked;
        Ok(accounts
            .iter()
            .filter(|key| locked.contains(key))
            .cloned()
            .collect())
    }

    async fn set_aside(&self, letters: &[Letter], _: Timestamp) -> Result<()> {
        self.state
            .lock()
            .unwrap()
            .letters
            .extend_from_slice(letters);
        Ok(())
    }

    async fn count_copies(&self, copies: &[(EventKey, i64)], _: Timestamp) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        for (key, count) in copies {
            *state.copies.entry(*key).or_default() += count;
        }
        Ok(())
    }

    async fn due(&self, _: i64) -> Result<Vec<AccountKey>> {
        let state = self.state.lock().unwrap();
        let due = |key: &AccountKey, account: &Account| {
            account.version > 0
                && state.page(key).waiting.iter().any(|r| {
                    r.event
                        .content
                        .expected_version
                        .is_none_or(|v| v <= account.version)
                })
        };
        Ok(state
            .accounts
            .iter()
            .filter(|(k, a)| due(k, a))
            .map(|(k, _)| k.clone())
            .collect())
    }

    async fn expired(&self, parked_before: Timestamp, _: i64) -> Result<Vec<Waiting>> {
        let state = self.state.lock().unwrap();
        Ok(state
            .records
            .values()
            .filter(|(_, r)| r.status == Status::Parked && r.decided_at <= parked_before)
            .map(|(_, r)| Waiting {
                account: r.event.account(),
                key: r.event.identity.key(),
                raw: r.raw.clone().unwrap_or_default(),
            })
            .collect())
    }

    async fn account(&self, key: &AccountKey) -> Result<Option<Account>> {
        Ok(self
            .state
            .lock()
            .unwrap()
            .accounts
            .get(key)
            .filter(|a| a.version > 0)
            .cloned())
    }

    async fn event(&self, identity: &Identity) -> Result<Option<EventView>> {
        let state = self.state.lock().unwrap();
        Ok(state
            .records
            .get(&identity.key())
            .map(|(seq, record)| EventView {
                seq: *seq,
                record: record.clone(),
                currency: None,
                duplicates: state.copies.get(&identity.key()).copied().unwrap_or(0),
                held_by: None,
            }))
    }

    async fn letters(
        &self,
        _: &str,
        filter: &LetterFilter,
        _: Option<Uuid>,
        _: i64,
    ) -> Result<Vec<LetterView>> {
        let state = self.state.lock().unwrap();
        Ok(state
            .letters
            .iter()
            .filter(|l| filter.reason.is_none_or(|reason| l.reason == reason))
            .filter(|l| {
                filter.event_id.is_none() || filter.event_id.as_deref() == l.event_id.as_deref()
            })
            .map(|letter| LetterView {
                id: Uuid::nil(),
                letter: letter.clone(),
                seen: 1,
                received_at: Timestamp(0),
                last_seen_at: Timestamp(0),
                status: onceledger::store::LetterStatus::Open,
                body_bytes: letter.raw.body.len() as i64,
            })
            .collect())
    }

    async fn accounts(
        &self,
        _: &str,
        _: &AccountFilter,
        _: Option<&str>,
        _: i64,
    ) -> Result<Vec<(Arc<str>, Account)>> {
        unreachable!("nobody asks the model for a list")
    }

    async fn entry(&self, _: &AccountKey, _: i64) -> Result<Option<Record>> {
        unreachable!("nobody asks the model for an entry")
    }

    async fn version_at(&self, _: &AccountKey, _: Timestamp) -> Result<Option<i64>> {
        unreachable!("nobody asks the model for a version")
    }

    async fn events_of(&self, _: &[Identity]) -> Result<Vec<EventView>> {
        unreachable!("nobody asks the model for several events")
    }

    async fn totals(&self, _: &str, _: Option<Timestamp>) -> Result<Vec<Totals>> {
        unreachable!("nobody asks the model for totals")
    }

    async fn history(
        &self,
        _: &AccountKey,
        _: Option<i64>,
        _: Direction,
        _: i64,
    ) -> Result<Vec<Record>> {
        unreachable!("nobody asks the model for a page")
    }

    async fn events(
        &self,
        _: &str,
        _: &EventFilter,
        _: Option<i64>,
        _: i64,
    ) -> Result<EventsFound> {
        unreachable!("nobody asks the model for a list")
    }

    async fn letter(&self, _: &str, _: Uuid) -> Result<Option<LetterView>> {
        unreachable!("nobody asks the model for a letter")
    }

    async fn audits(
        &self,
        _: &str,
        _: &AuditFilter,
        _: Option<Uuid>,
        _: i64,
    ) -> Result<Vec<AuditView>> {
        unreachable!("nobody asks the model for what people did")
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn verify(&self) -> Result<Verified> {
        self.state().check_invariants();
        Ok(Verified::default())
    }

    async fn close(&self) {}
}
