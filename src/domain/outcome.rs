//! The closed lists of what can become of an event, with their stable codes.

use strum::{AsRefStr, EnumIter, EnumString, IntoStaticStr};

/// Where an event stands. The texts are the ones of the REST answers and of the
/// `status` column.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, AsRefStr, EnumIter, EnumString, IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
pub enum Status {
    /// Stored by an asynchronous call, not decided yet.
    Pending,
    /// Took effect; never changes again.
    Applied,
    /// Refused for good; a replay evaluates it afresh.
    Rejected,
    /// Waits for its account or for the versions before it.
    Parked,
    /// Waited too long, or could not be delivered or stored.
    Dead,
    /// Given up by a person.
    Discarded,
}

/// Why an event did not take effect, or why a message never became an event.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, AsRefStr, EnumIter, EnumString, IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// The identity is known with other content.
    EventIdReused,
    /// No such account (yet): the event waits for its opening.
    AccountNotFound,
    /// The account is closed, which is final.
    AccountClosed,
    /// The event names another currency than the account's.
    CurrencyMismatch,
    /// Another event already produced the version that this one wanted to produce.
    VersionConflict,
    /// Versions before this one are missing: the event waits for them.
    VersionGap,
    /// The account is frozen.
    AccountFrozen,
    /// The balance would leave 64 bits.
    BalanceOverflow,
    /// The debit would take the balance below the account's floor.
    InsufficientFunds,
    /// A person gave the event up.
    Discarded,
    /// Waited for earlier versions longer than the limit.
    VersionGapExpired,
    /// Waited for its account longer than the limit.
    AccountNotFoundExpired,
    /// The bytes are no JSON document that can be read.
    Undecodable,
    /// JSON, but no event: a field is missing, of the wrong kind or out of range.
    Invalid,
    /// The broker gave up delivering it.
    DeliveryLimit,
    /// The broker set it aside for another reason.
    DeadLettered,
    /// The database refuses this one event for ever.
    StoreRefused,
}

impl Status {
    /// The stable code.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Reason {
    /// The stable code.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The reason under which a parked event of this reason expires.
    #[must_use]
    pub fn expired(self) -> Self {
        match self {
            Self::AccountNotFound => Self::AccountNotFoundExpired,
            _ => Self::VersionGapExpired,
        }
    }
}
