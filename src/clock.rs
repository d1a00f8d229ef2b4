//! The one home of the time of day and of random ids: everything else takes
//! them as parameters.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use uuid::Uuid;

use crate::domain::Timestamp;

/// Where the time of day comes from.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    fixed: Option<Arc<AtomicI64>>,
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that stands still until it is moved, for tests.
    #[must_use]
    pub fn standing_at(at: Timestamp) -> Self {
        Self {
            fixed: Some(Arc::new(AtomicI64::new(at.0))),
        }
    }

    /// Moves a standing clock; the machine's clock does not move for anybody.
    pub fn set(&self, at: Timestamp) {
        if let Some(fixed) = &self.fixed {
            fixed.store(at.0, Ordering::SeqCst);
        }
    }

    /// Now, to the microsecond.
    #[expect(clippy::disallowed_methods, reason = "this is the clock's home")]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.fixed {
            Some(fixed) => Timestamp(fixed.load(Ordering::SeqCst)),
            None => time::OffsetDateTime::now_utc().into(),
        }
    }
}

/// A new id that sorts by the time it was made (UUIDv7, RFC 9562 section 5.7).
#[expect(clippy::disallowed_methods, reason = "this is the home of random ids")]
#[must_use]
pub fn new_id() -> Uuid {
    Uuid::now_v7()
}
