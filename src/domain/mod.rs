//! The rules of the ledger, as pure data and pure functions.
//!
//! What lives here: what an event, an account and a record are, and [`Book`],
//! the fold that takes a batch of asks in arrival order and says what becomes
//! of each. What must not: a clock, a random id, async, SQL, HTTP, AMQP. A test
//! (`tests/it/tidy.rs`) reads the imports of this folder.

mod account;
mod ask;
mod book;
mod event;
mod money;
mod outcome;
mod plan;
mod record;
mod time;

pub use account::{Account, AccountStatus, Judgement};
pub use ask::{
    Answer, Ask, Discard, Form, OpenRefusal, Opening, Operator, Patch, PatchRefusal, Replay,
    Submission, Tag, Told, Unmet, Verdict, Work,
};
pub use book::{Book, Decided};
pub use event::{AccountKey, Content, Event, EventKey, Identity, Kind, Raw};
pub use money::{Currency, IntegerError, parse_integer};
pub use outcome::{Reason, Status};
pub use plan::{AccountChange, Audit, Letter, LetterStatus, Plan, Proof, RecordUpdate, Resolution};
pub use record::{Found, Page, Past, Record, Step};
pub use time::Timestamp;

/// Most parked events of one account that are released in one transaction, and
/// that a [`Page`] carries. The rest follows in the next transaction, before
/// newer events of that account.
pub const RELEASE_MAX: usize = 1_000;

/// Whose ledger it is where nobody says.
pub const DEFAULT_TENANT: &str = "default";

/// The source of the entry that opens an account (its version 1).
pub const SOURCE_OPENING: &str = "onceledger.opening";

/// The source of entries that reverse another one.
pub const SOURCE_REVERSAL: &str = "onceledger.reversal";

/// Sources that begin with this belong to the service itself.
pub const RESERVED_PREFIX: &str = "onceledger";
