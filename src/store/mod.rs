//! Where the books are kept: one small trait in domain words, on two databases.
//!
//! What lives here: statements, and the translation of what a database says into
//! [`StoreError`]. What must not: rules (they are in [`crate::domain`]) and
//! retries (they are in [`crate::ledger`]).

mod doubt;
mod open;
mod options;
mod postgres;
mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use crate::domain::{
    Account, AccountKey, AccountStatus, Audit, Currency, EventKey, Identity, Letter, Page, Plan,
    Raw, Reason, Record, Status, Timestamp,
};

pub(crate) use self::open::postgres_as_reached;
pub use crate::domain::LetterStatus;

pub use self::{
    open::{check_schema, migrate, open},
    options::StoreOptions,
    postgres::PostgresStore,
    sqlite::SqliteStore,
};

/// A database that keeps the books. It is ready once it is made: connected, and
/// its schema checked.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    // ---- the path of an event -------------------------------------------------

    /// The pages of accounts, in the order asked for. The account is read before
    /// or together with what waits for it, never after: what is parked later
    /// moves the revision, and the commit notices.
    async fn load(&self, accounts: &[AccountKey]) -> Result<Vec<Page>>;

    /// The records of those identities that are known, in any order, with their
    /// metadata but without their raw message.
    async fn lookup(&self, keys: &[EventKey]) -> Result<Vec<Record>>;

    /// Writes a plan in one transaction. Accounts whose proof fails come back as
    /// stale, and nothing of theirs is written. An identity that is there
    /// already, or has another status than expected, rolls everything back:
    /// [`StoreError::Raced`].
    async fn commit(&self, plan: &Plan) -> Result<Committed>;

    /// Which of these accounts are locked by somebody else right now. Asked only
    /// after a commit failed with [`StoreError::Locked`], so that those wait and
    /// their neighbours do not.
    async fn locked(&self, accounts: &[AccountKey]) -> Result<Vec<AccountKey>>;

    /// Keeps messages that never became an event; a letter that is open already
    /// is seen once more. No letter is refused for what it says
    /// ([`Letter::keepable`]).
    async fn set_aside(&self, letters: &[Letter], at: Timestamp) -> Result<()>;

    /// Counts copies that were seen.
    async fn count_copies(&self, copies: &[(EventKey, i64)], at: Timestamp) -> Result<()>;

    // ---- the sweeper ----------------------------------------------------------

    /// Accounts for which something that waits is due at their version.
    async fn due(&self, limit: i64) -> Result<Vec<AccountKey>>;

    /// Parked events that wait since before a moment, oldest first.
    async fn expired(&self, parked_before: Timestamp, limit: i64) -> Result<Vec<Waiting>>;

    // ---- reading --------------------------------------------------------------

    /// One account; an awaited one is none.
    async fn account(&self, key: &AccountKey) -> Result<Option<Account>>;

    /// Accounts by id, after one.
    async fn accounts(
        &self,
        tenant: &str,
        filter: &AccountFilter,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<(Arc<str>, Account)>>;

    /// One entry of an account's history, with its metadata.
    async fn entry(&self, key: &AccountKey, version: i64) -> Result<Option<Record>>;

    /// The newest version of an account at a moment; `None` before its opening, and
    /// where there is no such account.
    async fn version_at(&self, key: &AccountKey, at: Timestamp) -> Result<Option<i64>>;

    /// Entries of an account's history with their metadata: those past a version
    /// in the given direction, or from the first.
    async fn history(
        &self,
        key: &AccountKey,
        after: Option<i64>,
        direction: Direction,
        limit: i64,
    ) -> Result<Vec<Record>>;

    /// One event, with all that is known of it.
    async fn event(&self, identity: &Identity) -> Result<Option<EventView>>;

    /// Those of some events that are known, in any order.
    async fn events_of(&self, identities: &[Identity]) -> Result<Vec<EventView>>;

    /// Events, the last first seen first; those before a sequence number. Where no
    /// index leads to them, [`EVENTS_WALKED_MAX`] events are looked at.
    async fn events(
        &self,
        tenant: &str,
        filter: &EventFilter,
        before: Option<i64>,
        limit: i64,
    ) -> Result<EventsFound>;

    /// Dead letters, the newest first; those before one. Bodies are cut after
    /// [`LISTED_BODY_MAX`] bytes.
    async fn letters(
        &self,
        tenant: &str,
        filter: &LetterFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<LetterView>>;

    /// One dead letter, whole.
    async fn letter(&self, tenant: &str, id: Uuid) -> Result<Option<LetterView>>;

    /// What people did, the newest first; those before one.
    async fn audits(
        &self,
        tenant: &str,
        filter: &AuditFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<AuditView>>;

    // ---- the whole ------------------------------------------------------------

    /// What a tenant's accounts hold together, by currency: now, or at a moment. It
    /// walks the history: one at a time, any other is [`StoreError::Occupied`].
    async fn totals(&self, tenant: &str, at: Option<Timestamp>) -> Result<Vec<Totals>>;

    /// Whether the database answers and can be written. After a write that failed for
    /// want of space, or since nothing may be written, only one that is made is proof.
    async fn ping(&self) -> Result<()>;

    /// Checks every invariant in one snapshot, while the service works.
    async fn verify(&self) -> Result<Verified>;

    /// Closes every connection.
    async fn close(&self);
}

/// What a store answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Most bytes of a letter's body in a list.
pub const LISTED_BODY_MAX: usize = 4_096;

/// Most events that are looked at for one page of a list that no index leads to.
pub const EVENTS_WALKED_MAX: i64 = 100_000;

/// What a commit came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Places in the plan whose proof failed; nothing of theirs was written.
    pub stale: Vec<usize>,
    /// For accounts that are new: place in the plan, and the row they got.
    pub rows: Vec<(usize, i64)>,
}

/// A parked event that the sweeper found.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The account it waits for.
    pub account: AccountKey,
    /// Its identity.
    pub key: EventKey,
    /// The message as it came.
    pub raw: Arc<Raw>,
}

/// Which way a history is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Oldest first.
    Ascending,
    /// Newest first.
    Descending,
}

/// Which accounts to list.
#[derive(Clone, Debug, Default)]
pub struct AccountFilter {
    /// Only of this currency.
    pub currency: Option<String>,
    /// Only of this status.
    pub status: Option<AccountStatus>,
    /// Only those whose id begins so.
    pub prefix: Option<String>,
}

/// Which events to list.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only of this status.
    pub status: Option<Status>,
    /// Only of this reason.
    pub reason: Option<Reason>,
    /// Only of this account.
    pub account_id: Option<String>,
    /// Only of this source.
    pub source: Option<String>,
    /// Only of this id.
    pub event_id: Option<String>,
}

/// Which dead letters to list.
#[derive(Clone, Debug, Default)]
pub struct LetterFilter {
    /// Only of this status.
    pub status: Option<LetterStatus>,
    /// Only of this reason.
    pub reason: Option<Reason>,
    /// Only from this queue.
    pub queue: Option<String>,
    /// Only of this source.
    pub source: Option<String>,
    /// Only of this event id.
    pub event_id: Option<String>,
    /// Only of this account.
    pub account_id: Option<String>,
}

/// Which acts of people to list.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Only on this account.
    pub account_id: Option<String>,
    /// Only by this person.
    pub subject: Option<String>,
}

/// One act of a person.
#[derive(Clone, Debug)]
pub struct AuditView {
    /// Its id.
    pub id: Uuid,
    /// When it was done.
    pub at: Timestamp,
    /// What was done.
    pub audit: Audit,
}

/// One event with what stands around it.
#[derive(Clone, Debug)]
pub struct EventView {
    /// Its place in the order of first sight, for paging.
    pub seq: i64,
    /// The event.
    pub record: Record,
    /// Copies seen.
    pub duplicates: i64,
    /// The account's currency, once there is one.
    pub currency: Option<Currency>,
    /// For a conflict (and only where a single event is read): the entry that
    /// holds the place it wanted.
    pub held_by: Option<Identity>,
}

/// Events of a list, as far as was looked.
#[derive(Clone, Debug, Default)]
pub struct EventsFound {
    /// Those that were found, the last first seen first.
    pub views: Vec<EventView>,
    /// There may be more, which were first seen before this sequence number.
    pub before: Option<i64>,
}

/// One dead letter.
#[derive(Clone, Debug)]
pub struct LetterView {
    /// Its id.
    pub id: Uuid,
    /// What it says.
    pub letter: Letter,
    /// How often it was seen.
    pub seen: i64,
    /// When it was first seen.
    pub received_at: Timestamp,
    /// When it was last seen.
    pub last_seen_at: Timestamp,
    /// How it stands.
    pub status: LetterStatus,
    /// The whole body's length in bytes, also where the body is cut.
    pub body_bytes: i64,
}

/// What the accounts in one currency hold together. Each sum may need more than 64
/// bits; `openings + credits - debits = balances`, or the books are wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// The currency.
    pub currency: Arc<str>,
    /// How many accounts.
    pub accounts: i64,
    /// Their balances, in minor units.
    pub balances: i128,
    /// What they were opened with.
    pub openings: i128,
    /// What was added since.
    pub credits: i128,
    /// What was taken since.
    pub debits: i128,
}

/// What [`Store::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Accounts looked at.
    pub accounts: i64,
    /// Entries looked at.
    pub entries: i64,
    /// Everything that breaks an invariant, at most [`Verified::OFFENCES_MAX`].
    pub offences: Vec<Offence>,
}

impl Verified {
    /// Most offences that are named.
    pub const OFFENCES_MAX: usize = 1_000;
}

/// One broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// Whose account.
    pub tenant: String,
    /// Which account.
    pub account_id: String,
    /// Which rule, and what was found.
    pub what: String,
}

/// The machine's failures: never the sender's fault, never a rule's answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another writer was first with an identity of this plan; decide again.
    #[error("another writer was first with an identity of this batch")]
    Raced,
    /// Deadlock or serialization failure; the same again may succeed.
    #[error("the database gave up this transaction in favour of another ({0})")]
    Conflicted(String),
    /// A lock was not to be had in time.
    #[error("a row stayed locked by somebody else for too long")]
    Locked,
    /// The database refuses this content for ever (SQLSTATE class 22, or 23514).
    #[error("the database refuses this content for ever (code {code}): {message}")]
    Refused {
        /// SQLSTATE, or SQLite's extended result code.
        code: String,
        /// The database's own words.
        message: String,
    },
    /// It is at work on as much as it may; the same again may succeed later.
    #[error("the database is occupied: {0}")]
    Occupied(&'static str),
    /// No answer, or no connection to be had.
    #[error("the database does not answer: {0}")]
    Away(String),
    /// It answers, but takes no writes: disk full, or read-only.
    #[error("the database takes no writes: {0}")]
    Unwritable(String),
    /// Its schema is not the one this program works with.
    #[error("{0}")]
    Schema(String),
    /// Anything else.
    #[error("the database failed: {0}")]
    Other(String),
}
