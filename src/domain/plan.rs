//! What a batch of decisions wants written, account by account, and what must be
//! proven true in the transaction that writes it.

use std::{borrow::Cow, sync::Arc};

use super::{Account, AccountKey, EventKey, Identity, Reason, Record, Status, Timestamp};

/// Everything that one batch writes.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One for each account that the batch looked at.
    pub accounts: Vec<AccountChange>,
    /// The moment of the decisions.
    pub at: Timestamp,
}

impl Plan {
    /// Whether there is nothing to prove and nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accounts.iter().all(|change| {
            change.proof == Proof::Nothing
                && change.inserts.is_empty()
                && change.updates.is_empty()
                && change.letters.is_empty()
                && change.resolutions.is_empty()
                && change.audits.is_empty()
        })
    }
}

/// What the batch writes for one account. Either all of it is written or none.
#[derive(Clone, Debug)]
pub struct AccountChange {
    /// Which account.
    pub key: AccountKey,
    /// What must be proven in the same transaction.
    pub proof: Proof,
    /// The account as the decisions leave it.
    pub after: Option<Account>,
    /// Identities that are new.
    pub inserts: Vec<Arc<Record>>,
    /// Identities whose status changes.
    pub updates: Vec<RecordUpdate>,
    /// Dead letters.
    pub letters: Vec<Letter>,
    /// Open dead letters that are dealt with.
    pub resolutions: Vec<Resolution>,
    /// Acts of people.
    pub audits: Vec<Audit>,
}

/// What was true when the decisions were made and must still be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing was decided on the account's state.
    Nothing,
    /// The account has no row; nothing is written for it.
    Absent,
    /// The account's row is as it was; it stays so.
    Unchanged(Account),
    /// The account has no row; `after` becomes its row.
    Insert,
    /// The account's row is as it was; it becomes `after`.
    Update(Account),
}

/// A change of status, conditional on the status that the decision saw.
#[derive(Clone, Debug)]
pub struct RecordUpdate {
    /// The status it must still have.
    pub status_before: Status,
    /// The number of decisions it must still have.
    pub decision_before: i64,
    /// What it becomes.
    pub record: Arc<Record>,
}

/// The open dead letters of a stored event are dealt with: the letters of an event
/// and that event are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Whose letters.
    pub event: EventKey,
    /// What becomes of them.
    pub status: LetterStatus,
}

/// How a dead letter stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::AsRefStr,
)]
#[strum(serialize_all = "snake_case")]
pub enum LetterStatus {
    /// Nobody has dealt with it.
    Open,
    /// Replayed with an effect.
    Replayed,
    /// Given up by a person.
    Discarded,
    /// What it says was applied otherwise.
    Superseded,
}

/// What never became an event, or can't be applied, with everything needed to
/// explain and repair it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Whose it is.
    pub tenant: Arc<str>,
    /// Why it is one.
    pub reason: Reason,
    /// More about the why, a JSON object.
    pub detail: serde_json::Value,
    /// Who produced it, as far as that could be read.
    pub source: Option<Arc<str>>,
    /// The event id, as far as it could be read.
    pub event_id: Option<Arc<str>>,
    /// The account, as far as it could be read.
    pub account_id: Option<Arc<str>>,
    /// The stored event that it belongs to.
    pub event: Option<EventKey>,
    /// The message as it came.
    pub raw: Arc<super::Raw>,
}

impl Letter {
    /// By what the same letter is known again among the unresolved ones: tenant,
    /// queue, reason, body and identifying headers.
    #[must_use]
    pub fn digest(&self) -> [u8; 16] {
        super::event::digest16(&[
            self.tenant.as_bytes(),
            self.raw.queue.as_bytes(),
            self.reason.as_str().as_bytes(),
            &self.raw.body,
            self.raw.marks.as_bytes(),
        ])
    }

    /// The letter as every database keeps it. It is the last place that a message can
    /// go to, so nothing in it may be refused: U+0000, which PostgreSQL keeps in no
    /// text, is made visible, and names are cut to what an index takes. The body stays
    /// as it is, byte for byte.
    #[must_use]
    pub fn keepable(&self) -> Cow<'_, Self> {
        let names = [&self.source, &self.event_id, &self.account_id];
        let names = names.into_iter().flatten().chain([&self.raw.queue]);
        let texts = [&self.raw.headers, &self.raw.marks];
        if names.into_iter().all(|name| is_keepable(name)) && !texts.iter().any(|it| has_nul(it)) {
            return Cow::Borrowed(self);
        }
        let name = |name: &Option<Arc<str>>| name.as_deref().map(keepable_name);
        Cow::Owned(Self {
            source: name(&self.source),
            event_id: name(&self.event_id),
            account_id: name(&self.account_id),
            raw: Arc::new(super::Raw {
                queue: keepable_name(&self.raw.queue),
                body: self.raw.body.clone(),
                headers: without_nul(&self.raw.headers).into(),
                marks: without_nul(&self.raw.marks).into(),
            }),
            ..self.clone()
        })
    }
}

/// Most bytes of a name in a letter: as many as an identity may have.
const NAME_MAX: usize = Identity::TEXT_MAX;

fn is_keepable(name: &str) -> bool {
    name.len() <= NAME_MAX && !has_nul(name)
}

fn keepable_name(name: &str) -> Arc<str> {
    let name = without_nul(name);
    name[..name.floor_char_boundary(NAME_MAX)].into()
}

fn has_nul(text: &str) -> bool {
    text.contains('\0')
}

fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Who did what, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// In whose ledger.
    pub tenant: Arc<str>,
    /// Who: the caller's name.
    pub subject: String,
    /// What: `account.patched`, `event.replayed`, `event.discarded`, `entry.reversed`.
    pub action: Cow<'static, str>,
    /// On which account.
    pub account_id: Option<Arc<str>>,
    /// The particulars, a JSON object.
    pub detail: serde_json::Value,
    /// Why, in the person's own words.
    pub note: Option<String>,
}
