//! What a producer asks for, and by what it is known again.

use std::{
    hash::{BuildHasher, BuildHasherDefault},
    sync::Arc,
};

use rustc_hash::FxHasher;
use sha2::{Digest, Sha256};
use strum::{AsRefStr, EnumString, IntoStaticStr};

use super::{Currency, Timestamp};

/// An account, by the tenant it belongs to and the id the tenant gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountKey {
    /// Whose account it is; never read from a message.
    pub tenant: Arc<str>,
    /// 1 to 128 characters of `A-Z a-z 0-9 . _ : -`.
    pub id: Arc<str>,
}

impl AccountKey {
    /// Longest account id, in bytes.
    pub const ID_MAX: usize = 128;

    /// Names an account.
    #[must_use]
    pub fn new(tenant: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Self {
        Self {
            tenant: tenant.into(),
            id: id.into(),
        }
    }

    /// Its share among so many equal ones: always the same for one account.
    #[must_use]
    pub fn share(&self, of: usize) -> usize {
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(self);
        // The upper bits are the well mixed ones.
        (hash >> 32) as usize % of.max(1)
    }

    /// Whether a text may be an account id.
    #[must_use]
    pub fn id_is_valid(id: &str) -> bool {
        (1..=Self::ID_MAX).contains(&id.len())
            && id != "."
            && id != ".."
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
    }
}

/// The 16 bytes by which an identity is indexed: the first half of SHA-256 over
/// the length-prefixed tenant, source and event id. The texts are kept beside it
/// and compared on a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey(pub [u8; 16]);

/// By what an event is known again: (tenant, source, event id).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Whose event it is.
    pub tenant: Arc<str>,
    /// Who produced it, 1 to 255 bytes.
    pub source: Arc<str>,
    /// The producer's id of the business intent, 1 to 255 bytes.
    pub event_id: Arc<str>,
    key: EventKey,
}

impl Identity {
    /// Longest source and longest event id, in bytes.
    pub const TEXT_MAX: usize = 255;

    /// Puts an identity together and computes its key.
    #[must_use]
    pub fn new(
        tenant: impl Into<Arc<str>>,
        source: impl Into<Arc<str>>,
        event_id: impl Into<Arc<str>>,
    ) -> Self {
        let (tenant, source, event_id) = (tenant.into(), source.into(), event_id.into());
        let key = EventKey(digest16(&[
            tenant.as_bytes(),
            source.as_bytes(),
            event_id.as_bytes(),
        ]));
        Self {
            tenant,
            source,
            event_id,
            key,
        }
    }

    /// The key under which it is indexed.
    #[must_use]
    pub fn key(&self) -> EventKey {
        self.key
    }
}

/// The first 16 bytes of SHA-256 over length-prefixed parts, so that no two
/// different lists of parts are the same bytes.
pub(crate) fn digest16(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut out = [0; 16];
    out.copy_from_slice(&hash.finalize()[..16]);
    out
}

/// Which way the money moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, AsRefStr, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// The first entry of every account; its amount is the opening balance.
    Opening,
    /// Takes the amount from the balance.
    Debit,
    /// Adds the amount to the balance.
    Credit,
}

impl Kind {
    /// The stable code.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What must agree when an identity comes again: the event's meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The account it moves.
    pub account_id: Arc<str>,
    /// Which way.
    pub kind: Kind,
    /// Minor units, at least 1; an opening balance may be anything.
    pub amount: i64,
    /// Compared only where both sides carry one.
    pub currency: Option<Currency>,
    /// The version at which the event wants to find the account, as carried.
    pub expected_version: Option<i64>,
}

impl Content {
    /// Whether both mean the same (the fingerprint of the contract).
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        self.expected_version == other.expected_version && self.agrees_but_for_version(other)
    }

    /// Whether both mean the same, whatever version each expects.
    #[must_use]
    pub fn agrees_but_for_version(&self, other: &Self) -> bool {
        self.account_id == other.account_id
            && self.kind == other.kind
            && self.amount == other.amount
            && (self.currency == other.currency
                || self.currency.is_none()
                || other.currency.is_none())
    }

    /// The names of the fields in which the two differ.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let mut fields = Vec::new();
        let mut note = |differs: bool, name| {
            if differs {
                fields.push(name);
            }
        };
        note(self.account_id != other.account_id, "account_id");
        note(self.kind != other.kind, "type");
        note(self.amount != other.amount, "amount");
        note(
            self.currency != other.currency && self.currency.is_some() && other.currency.is_some(),
            "currency",
        );
        note(self.expected_version != other.expected_version, "version");
        fields
    }
}

/// One business intent, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// By what it is known again.
    pub identity: Identity,
    /// Whether the event id was made from account and version because the
    /// message carried none.
    pub derived: bool,
    /// What it means.
    pub content: Content,
    /// The producer's own reference, at most 255 bytes.
    pub reference: Option<Arc<str>>,
    /// When it happened at the producer's.
    pub occurred_at: Option<Timestamp>,
    /// A JSON text, kept as it came.
    pub metadata: Option<Arc<str>>,
}

impl Event {
    /// The account it moves.
    #[must_use]
    pub fn account(&self) -> AccountKey {
        AccountKey {
            tenant: self.identity.tenant.clone(),
            id: self.content.account_id.clone(),
        }
    }

    /// The id of an event that carries none but names a version: the bare
    /// optimistic lock.
    #[must_use]
    pub fn derived_id(account_id: &str, version: i64) -> String {
        format!("{account_id}:v{version}")
    }
}

/// How a message arrived, byte for byte: what a dead letter keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    /// The queue's name, or `http` or `apply`.
    pub queue: Arc<str>,
    /// The body as it came; of an HTTP array the one element.
    pub body: Vec<u8>,
    /// The readable headers as a JSON object.
    pub headers: Arc<str>,
    /// Those headers that identify the message, for the digest of its letter.
    pub marks: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_with_shifted_borders_have_different_keys() {
        let key = |t, s, e| Identity::new(t, s, e).key();
        assert_ne!(key("a", "bc", "d"), key("ab", "c", "d"));
        assert_ne!(key("a", "b", "cd"), key("a", "bc", "d"));
        assert_eq!(key("a", "b", "c"), key("a", "b", "c"));
    }

    #[test]
    fn account_ids_are_plain_and_bounded() {
        for good in ["1", "acc-1", "a.b_c:d", &"x".repeat(128)] {
            assert!(AccountKey::id_is_valid(good), "{good}");
        }
        for bad in ["", ".", "..", "a b", "ä", "a/b", "a\0", &"x".repeat(129)] {
            assert!(!AccountKey::id_is_valid(bad), "{bad}");
        }
    }
}
