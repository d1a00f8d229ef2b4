//! What the ledger remembers: one record an identity, and the page on which the
//! rules look at one account.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Account, Content, Currency, Event, Kind, Raw, Reason, Status, Timestamp};

/// An account's version and balance at the moment somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The account's version then.
    pub version: i64,
    /// The account's balance then, in minor units.
    pub balance: i64,
}

/// A former judgement of an identity: one step of its timeline. Those that were
/// not displaced are also the forms under which the event is known again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// When that judgement fell (microseconds since 1970).
    pub at: i64,
    /// What it was.
    pub status: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The account that the judged form named.
    pub account_id: Arc<str>,
    /// `debit` or `credit`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Minor units.
    pub amount: i64,
    /// As the judged form carried it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// As the judged form carried it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<i64>,
    /// The account as that judgement found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// True where another event took this derived identity over: the content
    /// stays readable and agrees with nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub displaced: bool,
    /// What led to the judgement after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Step>,
}

/// What leads from one judgement of an identity to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Step {
    /// What it waited for came.
    Released,
    /// It waited too long.
    Expired,
    /// It came again.
    SentAgain,
    /// Other content took the derived identity over.
    TakenOver,
    /// An operator had it evaluated afresh.
    Replayed,
    /// An operator gave it up, or took it away from the account that it waited for.
    Discarded,
}

impl Past {
    /// The meaning of the judged form; `None` where it can't be read.
    #[must_use]
    pub fn content(&self) -> Option<Content> {
        Some(Content {
            account_id: self.account_id.clone(),
            kind: self.kind.parse::<Kind>().ok()?,
            amount: self.amount,
            currency: self.currency.as_deref().and_then(Currency::parse),
            expected_version: self.expected_version,
        })
    }
}

/// Everything known of one identity. Where it took effect, it is also the entry
/// of the history; then it never changes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The event in the form that was judged last.
    pub event: Arc<Event>,
    /// Where it stands.
    pub status: Status,
    /// Why, where it did not take effect.
    pub reason: Option<Reason>,
    /// The version that it produced.
    pub version: Option<i64>,
    /// The balance after it, in minor units.
    pub balance_after: Option<i64>,
    /// The account's floor when it took effect.
    pub floor: Option<i64>,
    /// The account as the last judgement found it; none where it was missing.
    pub found: Option<Found>,
    /// When the identity was first seen.
    pub first_seen_at: Timestamp,
    /// When it was last judged; for a parked event since when it waits.
    pub decided_at: Timestamp,
    /// How many decisions (applied, rejected, dead, discarded) it has had.
    pub decision: i64,
    /// The judgements before the last one, oldest first.
    pub trail: Vec<Past>,
    /// The message as it came; kept for what did not take effect at once.
    pub raw: Option<Arc<Raw>>,
    /// The last body that a person corrected, beside it. A store reads it only where
    /// a single event is looked at.
    pub correction: Option<Arc<str>>,
}

impl Record {
    /// A record that was never judged.
    #[must_use]
    pub fn fresh(event: Arc<Event>, raw: Option<Arc<Raw>>, now: Timestamp) -> Self {
        Self {
            event,
            status: Status::Pending,
            reason: None,
            version: None,
            balance_after: None,
            floor: None,
            found: None,
            first_seen_at: now,
            decided_at: now,
            decision: 0,
            trail: Vec::new(),
            raw,
            correction: None,
        }
    }

    /// Whether a copy with this content is the same event: it agrees with the
    /// form judged last, or with any form judged before as the same event.
    #[must_use]
    pub fn knows(&self, content: &Content) -> bool {
        self.event.content.agrees(content)
            || self
                .trail
                .iter()
                .filter(|past| !past.displaced)
                .filter_map(Past::content)
                .any(|form| form.agrees(content))
    }

    /// The same without the message as it came: what is remembered between
    /// batches must stay small, and the store has the message.
    #[must_use]
    pub fn without_raw(self: &Arc<Self>) -> Arc<Self> {
        match self.raw {
            None => self.clone(),
            Some(_) => Arc::new(Self {
                raw: None,
                ..Self::clone(self)
            }),
        }
    }

    /// Whether a derived identity is taken: no other content may have it.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(
            self.status,
            Status::Pending | Status::Parked | Status::Applied
        )
    }

    /// The last judgement as a step of the timeline, and what leads on from it.
    #[must_use]
    pub fn past(&self, then: Option<Step>) -> Past {
        let content = &self.event.content;
        Past {
            at: self.decided_at.0,
            status: self.status.as_str().to_owned(),
            reason: self.reason.map(|reason| reason.as_str().to_owned()),
            account_id: content.account_id.clone(),
            kind: content.kind.as_str().to_owned(),
            amount: content.amount,
            currency: content
                .currency
                .as_ref()
                .map(|code| code.as_str().to_owned()),
            expected_version: content.expected_version,
            found: self.found,
            displaced: then == Some(Step::TakenOver),
            then,
        }
    }
}

/// One account with what waits for it: all that the rules look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The account; `None` where the store has no row of it.
    pub account: Option<Account>,
    /// Parked events by expected version, unversioned ones last, each group by
    /// first seen and at most [`super::RELEASE_MAX`] long.
    pub waiting: Vec<Arc<Record>>,
    /// Whether more versioned ones are parked behind those.
    pub more_versioned: bool,
    /// Whether more unversioned ones are parked behind those.
    pub more_unversioned: bool,
}
