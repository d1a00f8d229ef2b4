//! What can be asked of an account, and the answers.

use std::{fmt, sync::Arc};

use super::{
    Account, AccountKey, AccountStatus, Content, Currency, Event, EventKey, Found, Identity, Kind,
    Raw, Reason, SOURCE_OPENING, Timestamp,
};

/// One ask on one account. Everything that writes an account is one of these.
#[derive(Clone, Debug)]
pub struct Work {
    /// The account that is asked.
    pub account: AccountKey,
    /// What is asked of it.
    pub ask: Ask,
}

/// The kinds of asks.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Let this event take effect.
    Submit(Submission),
    /// Open the account.
    Open(Box<Opening>),
    /// Change its settings.
    Patch(Box<Patch>),
    /// Look whether something that waits is due (the sweeper's back-stop).
    Release,
    /// Let this parked event die if it still waits and has waited long enough.
    Expire {
        /// The parked event.
        key: EventKey,
        /// It dies only where it waits since before this moment.
        parked_before: Timestamp,
        /// The message as it came, for its dead letter.
        raw: Arc<Raw>,
    },
    /// Evaluate a stored event afresh, by an operator's hand.
    Replay(Box<Replay>),
    /// Give a stored event up, by an operator's hand.
    Discard(Box<Discard>),
}

/// Who acts by hand and why, for the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// The caller's name.
    pub subject: String,
    /// Why, in the person's own words.
    pub note: Option<String>,
}

/// A stored event to evaluate afresh. It keeps its identity.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Which event.
    pub identity: Identity,
    /// In which form.
    pub form: Form,
    /// By whom.
    pub by: Operator,
}

/// The form in which an event is evaluated afresh.
#[derive(Clone, Debug)]
pub enum Form {
    /// As it was judged last; `Some`: but with this expected version, or none.
    Stored(Option<Option<i64>>),
    /// As a person corrected it.
    Corrected {
        /// The event that the corrected body says.
        event: Arc<Event>,
        /// That body, which is kept beside the original.
        body: Arc<str>,
    },
    /// The opposite of an entry. Where it was never asked for before, it is new.
    Reversal(Arc<Event>),
}

/// A stored event to give up.
#[derive(Clone, Debug)]
pub struct Discard {
    /// Which event.
    pub identity: Identity,
    /// By whom.
    pub by: Operator,
}

/// An event with how it arrived and under which conditions.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The event.
    pub event: Arc<Event>,
    /// How it arrived.
    pub raw: Arc<Raw>,
    /// A condition of the call (`If-Match`): the version the account must have.
    pub if_version: Option<i64>,
    /// `Prefer: handling=strict`: refuse instead of parking, recording nothing.
    pub strict: bool,
}

/// An account to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The account's currency.
    pub currency: Currency,
    /// Minor units; may be negative.
    pub balance: i64,
    /// The lowest balance that a debit may leave; `None`: no limit.
    pub floor: Option<i64>,
    /// A JSON text.
    pub metadata: Option<Arc<str>>,
}

impl Opening {
    /// The event that stands as version 1 in the account's history.
    #[must_use]
    pub fn event(&self, account: &AccountKey) -> Event {
        Event {
            identity: Self::identity(account),
            derived: false,
            content: Content {
                account_id: account.id.clone(),
                kind: Kind::Opening,
                amount: self.balance,
                currency: Some(self.currency),
                expected_version: None,
            },
            reference: None,
            occurred_at: None,
            metadata: self.metadata.clone(),
        }
    }

    /// The identity of an account's opening.
    #[must_use]
    pub fn identity(account: &AccountKey) -> Identity {
        Identity::new(account.tenant.clone(), SOURCE_OPENING, account.id.clone())
    }
}

/// A change of an account's settings; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The new status.
    pub status: Option<AccountStatus>,
    /// The new floor; `Some(None)`: no limit any more.
    pub floor: Option<Option<i64>>,
    /// The new metadata, replaced whole; `Some(None)`: none any more.
    pub metadata: Option<Option<Arc<str>>>,
    /// Why, for the audit.
    pub note: Option<String>,
    /// Who, for the audit.
    pub subject: String,
    /// `If-Match`: one of these must be the account's tag.
    pub if_match: Option<Vec<Tag>>,
}

/// What an account's ETag says: its version and how often its settings changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The account's version.
    pub version: i64,
    /// How often its settings were changed.
    pub settings_revision: i64,
}

impl Tag {
    /// Reads `4` or `4.2`, without the quotes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (version, changes) = text.split_once('.').unwrap_or((text, "0"));
        let tag = Self {
            version: version.parse().ok()?,
            settings_revision: changes.parse().ok()?,
        };
        // Only the one spelling that `Display` writes is a tag.
        (tag.to_string() == text).then_some(tag)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.settings_revision {
            0 => write!(f, "{}", self.version),
            changes => write!(f, "{}.{changes}", self.version),
        }
    }
}

/// The answer to an ask, in the order of [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `Submit`.
    Event(Told),
    /// To `Open`: the account as it is, and whether this call opened it.
    Opened {
        /// The account now.
        account: Box<Account>,
        /// False where the same opening had been done before.
        fresh: bool,
    },
    /// To `Open`.
    OpenRefused(OpenRefusal),
    /// To `Patch`: the account as it is now.
    Patched(Box<Account>),
    /// To `Patch`.
    PatchRefused(PatchRefusal),
    /// To `Release`.
    Released,
    /// To `Expire`: why the event died by this ask, where it did.
    Expired(Option<Reason>),
    /// To `Replay`: [`Verdict::Duplicate`] where it had taken effect before.
    Replayed(Told),
    /// To `Discard`.
    Discarded {
        /// [`Verdict::Duplicate`] where it has taken effect, which can't be given up.
        told: Told,
        /// Whether this call gave it up.
        fresh: bool,
    },
    /// To `Replay` and `Discard`: the event must be asked of another account; `None`:
    /// it is not known.
    Elsewhere(Option<AccountKey>),
}

/// Why an account was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenRefusal {
    /// It exists, opened with other content.
    Exists(Box<Account>),
}

/// Why settings were not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchRefusal {
    /// No such account.
    NotFound,
    /// `If-Match` does not hold.
    Stale(Box<Account>),
    /// Closing needs balance 0.
    NotEmpty(Box<Account>),
    /// Closed is final.
    Closed(Box<Account>),
}

/// What an event's sender is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The event as it was sent.
    pub event: Arc<Event>,
    /// What became of it.
    pub verdict: Verdict,
    /// The version that it produced (now or when it was applied before).
    pub version: Option<i64>,
    /// The balance after that entry, in minor units.
    pub balance: Option<i64>,
    /// For what was refused or parked: the account as it was found.
    pub found: Option<Found>,
}

/// What became of an event that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It took effect.
    Applied,
    /// It had taken effect before.
    Duplicate,
    /// It waits.
    Parked(Reason),
    /// It is refused, and that is remembered.
    Rejected(Reason),
    /// A condition of the call does not hold; nothing was recorded.
    Unmet(Unmet),
}

/// The conditions of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// `If-Match`: the account is at another version, or missing.
    Version,
    /// `handling=strict`: the event would have been parked for this reason.
    Strict(Reason),
}

impl Work {
    /// The identity that must be looked up to decide this ask.
    #[must_use]
    pub fn key(&self) -> Option<EventKey> {
        match &self.ask {
            Ask::Submit(submission) => Some(submission.event.identity.key()),
            Ask::Open(_) => Some(Opening::identity(&self.account).key()),
            Ask::Expire { key, .. } => Some(*key),
            Ask::Replay(replay) => Some(replay.identity.key()),
            Ask::Discard(discard) => Some(discard.identity.key()),
            Ask::Patch(_) | Ask::Release => None,
        }
    }

    /// An event on the account that it names.
    #[must_use]
    pub fn submit(submission: Submission) -> Self {
        Self {
            account: submission.event.account(),
            ask: Ask::Submit(submission),
        }
    }
}

impl Told {
    /// The outcome and reason under which it is counted and told.
    #[must_use]
    pub fn label(&self) -> (&'static str, Option<Reason>) {
        match self.verdict {
            Verdict::Applied => ("applied", None),
            Verdict::Duplicate => ("duplicate", None),
            Verdict::Parked(reason) => ("parked", Some(reason)),
            Verdict::Rejected(reason) => ("rejected", Some(reason)),
            Verdict::Unmet(_) => ("unmet", None),
        }
    }
}
