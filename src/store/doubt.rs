//! Whether the last write failed for want of space, or since nothing may be written.
//!
//! What lives here: a flag. What must not: asking the database.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{Result, StoreError};

/// While in doubt, a store counts as writable only after it has written: a full disk
/// takes every statement, and says so at the commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt(Arc<AtomicBool>);

impl Doubt {
    /// Notes how a write ended.
    pub(super) fn noted<T>(&self, written: Result<T>) -> Result<T> {
        if matches!(written, Err(StoreError::Unwritable(_))) {
            self.0.store(true, Ordering::Release);
        }
        written
    }

    /// Whether only a write that is really made is proof.
    pub(super) fn stands(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Something was written.
    pub(super) fn settle(&self) {
        self.0.store(false, Ordering::Release);
    }
}
