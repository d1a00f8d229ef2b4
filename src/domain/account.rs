//! One account, and the judgement of one event against it: rows 2 to 9 of the
//! table of outcomes, in their order.

use std::sync::Arc;

use strum::{AsRefStr, EnumString, IntoStaticStr};

use super::{Content, Currency, Found, Kind, Reason, Tag, Timestamp};

/// Whether an account takes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, AsRefStr, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum AccountStatus {
    /// A place for events that came before their account: version 0, and to the
    /// outside no account at all.
    Awaited,
    /// Takes events.
    Open,
    /// Refuses events until it is opened again.
    Frozen,
    /// Refuses events for good.
    Closed,
}

impl AccountStatus {
    /// The stable code.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The state of one account, as its row holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The narrow key inside the store; 0 until it is stored.
    pub row: i64,
    /// `None` only while the account is awaited.
    pub currency: Option<Currency>,
    /// Minor units.
    pub balance: i64,
    /// Opening gives 1, every entry one more; 0 while awaited.
    pub version: i64,
    /// Moved by everything that a decision depends on and that is no entry:
    /// settings, parking, un-parking, expiry.
    pub revision: i64,
    /// How often the settings were changed.
    pub settings_revision: i64,
    /// The lowest balance that a debit may leave; `None`: no limit.
    pub floor: Option<i64>,
    /// Whether it takes events.
    pub status: AccountStatus,
    /// A JSON text.
    pub metadata: Option<Arc<str>>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The last entry or change of settings; never goes back.
    pub updated_at: Timestamp,
}

/// What the rules say of one event on one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It takes effect and leaves this balance.
    Apply {
        /// The balance after it, in minor units.
        balance_after: i64,
    },
    /// It waits.
    Park(Reason),
    /// It is refused.
    Reject(Reason),
}

impl Account {
    /// The place that holds what waits for an account not opened yet.
    #[must_use]
    pub fn awaited(now: Timestamp) -> Self {
        Self {
            row: 0,
            currency: None,
            balance: 0,
            version: 0,
            revision: 0,
            settings_revision: 0,
            floor: None,
            status: AccountStatus::Awaited,
            metadata: None,
            opened_at: now,
            updated_at: now,
        }
    }

    /// Whether it is an account to the outside.
    #[must_use]
    pub fn is_opened(&self) -> bool {
        self.status != AccountStatus::Awaited
    }

    /// Version and balance now.
    #[must_use]
    pub fn found(&self) -> Found {
        Found {
            version: self.version,
            balance: self.balance,
        }
    }

    /// What the ETag says of it.
    #[must_use]
    pub fn tag(&self) -> Tag {
        Tag {
            version: self.version,
            settings_revision: self.settings_revision,
        }
    }

    /// Rows 2 to 9 of the table of outcomes: the first that holds decides.
    #[must_use]
    pub fn judge(account: Option<&Self>, content: &Content) -> Judgement {
        let Some(account) = account.filter(|account| account.is_opened()) else {
            return Judgement::Park(Reason::AccountNotFound);
        };
        if account.status == AccountStatus::Closed {
            return Judgement::Reject(Reason::AccountClosed);
        }
        if content.currency.is_some() && content.currency != account.currency {
            return Judgement::Reject(Reason::CurrencyMismatch);
        }
        match content.expected_version {
            Some(expected) if expected < account.version => {
                return Judgement::Reject(Reason::VersionConflict);
            }
            Some(expected) if expected > account.version => {
                return Judgement::Park(Reason::VersionGap);
            }
            _ => {}
        }
        if account.status == AccountStatus::Frozen {
            return Judgement::Reject(Reason::AccountFrozen);
        }
        let after = match content.kind {
            Kind::Debit => account.balance.checked_sub(content.amount),
            Kind::Credit | Kind::Opening => account.balance.checked_add(content.amount),
        };
        let Some(balance_after) = after else {
            return Judgement::Reject(Reason::BalanceOverflow);
        };
        let below = account.floor.is_some_and(|floor| balance_after < floor);
        if content.kind == Kind::Debit && below {
            return Judgement::Reject(Reason::InsufficientFunds);
        }
        Judgement::Apply { balance_after }
    }
}
