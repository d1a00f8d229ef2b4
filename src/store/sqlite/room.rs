//! Whether the disk has room again, after a commit found none.
//!
//! What lives here: that one look, at the file system. What must not: statements.

use std::{
    ffi::OsString,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::store::{Result, StoreError};

/// Room for less is no room: the next commits would find none again.
const NEEDED: usize = 1024 * 1024;

/// The disk on which a file stands.
#[derive(Debug)]
pub(super) struct Room {
    /// A file that is made for the look and taken away again.
    scratch: PathBuf,
    /// A write was refused, and there was no room since.
    refused: AtomicBool,
}

impl Room {
    pub(super) fn beside(books: &Path) -> Self {
        let mut scratch = OsString::from(books);
        scratch.push("-room");
        Self {
            scratch: scratch.into(),
            refused: AtomicBool::new(false),
        }
    }

    /// Remembers that a write was refused: SQLite writes to the disk at a commit,
    /// and small ones may still fit into what it holds already.
    pub(super) fn heed<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(StoreError::Unwritable(_)) = &result {
            self.refused.store(true, Ordering::Release);
        }
        result
    }

    /// Whether there is room, asked only after a write was refused.
    pub(super) async fn look(&self) -> Result<()> {
        if !self.refused.load(Ordering::Acquire) {
            return Ok(());
        }
        let scratch = self.scratch.clone();
        let written = tokio::task::spawn_blocking(move || {
            let written = fill(&scratch);
            // What could not be made need not be removed.
            let _ = fs::remove_file(&scratch);
            written
        });
        match written.await {
            Ok(Ok(())) => {
                self.refused.store(false, Ordering::Release);
                Ok(())
            }
            Ok(Err(error)) => Err(StoreError::Unwritable(format!(
                "there is no room for a megabyte beside the file: {error}"
            ))),
            Err(error) => Err(StoreError::Other(error.to_string())),
        }
    }
}

fn fill(scratch: &Path) -> std::io::Result<()> {
    let mut file = fs::File::create(scratch)?;
    file.write_all(&vec![1; NEEDED])?;
    file.sync_all()
}
