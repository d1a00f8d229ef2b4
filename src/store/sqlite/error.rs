//! What SQLite says, told apart by result code, never by text.
//!
//! What lives here: the one translation from [`sqlx::Error`] to [`StoreError`].
//! What must not: retries.

use crate::store::StoreError;

/// Primary result codes, the low byte of what SQLite answers
/// (<https://www.sqlite.org/rescode.html>).
mod code {
    pub(super) const ERROR: i32 = 1;
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const NOMEM: i32 = 7;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const PROTOCOL: i32 = 15;
    pub(super) const SCHEMA: i32 = 17;
    pub(super) const TOOBIG: i32 = 18;
    pub(super) const CONSTRAINT: i32 = 19;
    pub(super) const MISMATCH: i32 = 20;
    pub(super) const AUTH: i32 = 23;
    pub(super) const NOTADB: i32 = 26;

    // Extended ones.
    pub(super) const CONSTRAINT_CHECK: i32 = 275;
    pub(super) const CONSTRAINT_PRIMARYKEY: i32 = 1555;
    pub(super) const CONSTRAINT_UNIQUE: i32 = 2067;
    pub(super) const CONSTRAINT_DATATYPE: i32 = 3091;
    pub(super) const IOERR_NOMEM: i32 = 3082;
}

/// What a failed statement means for the one who sent it.
pub(super) fn failed(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(database) => {
            let code = database.code().and_then(|code| code.parse().ok());
            told(code.unwrap_or(code::ERROR), database.message())
        }
        // The writer is one connection: who does not get it in time tries later.
        sqlx::Error::PoolTimedOut => {
            StoreError::Conflicted("no connection was free in time".to_owned())
        }
        sqlx::Error::PoolClosed => StoreError::Away("the store is closed".to_owned()),
        sqlx::Error::WorkerCrashed => {
            StoreError::Away("the connection's thread has ended".to_owned())
        }
        sqlx::Error::Io(error) => StoreError::Away(error.to_string()),
        other => StoreError::Other(other.to_string()),
    }
}

fn told(extended: i32, message: &str) -> StoreError {
    let said = format!("{message}, SQLite code {extended}");
    match extended {
        code::CONSTRAINT_UNIQUE | code::CONSTRAINT_PRIMARYKEY => return StoreError::Raced,
        code::CONSTRAINT_CHECK | code::CONSTRAINT_DATATYPE => {
            return refused(extended, message);
        }
        code::IOERR_NOMEM => return StoreError::Away(said),
        _ => {}
    }
    match extended & 0xff {
        // Also 517 (a snapshot too old to write on) and 261 (recovery by another).
        code::BUSY | code::LOCKED | code::PROTOCOL => StoreError::Conflicted(said),
        code::FULL => StoreError::Unwritable(format!("the disk is full ({said})")),
        code::READONLY | code::PERM => StoreError::Unwritable(said),
        code::TOOBIG | code::MISMATCH => refused(extended, message),
        code::IOERR => StoreError::Away(format!("reading or writing the file failed ({said})")),
        code::CANTOPEN => StoreError::Away(format!("the file can't be opened ({said})")),
        code::NOMEM | code::AUTH => StoreError::Away(said),
        code::NOTADB => StoreError::Other(format!("the file is no SQLite database ({said})")),
        code::CORRUPT => StoreError::Other(format!(
            "the file is damaged; restore it from a backup ({said})"
        )),
        code::SCHEMA => StoreError::Conflicted(said),
        // The one thing for which SQLite has no code of its own.
        code::ERROR
            if message.starts_with("no such table") || message.starts_with("no such column") =>
        {
            StoreError::Schema(format!(
                "the schema is not the one this program works with: {message}"
            ))
        }
        code::CONSTRAINT => StoreError::Other(format!("a rule of the database: {said}")),
        _ => StoreError::Other(said),
    }
}

fn refused(code: i32, message: &str) -> StoreError {
    StoreError::Refused {
        code: code.to_string(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_go_away_is_never_the_messages_fault() {
        for busy in [5, 261, 517, 6, 262, 15, 17] {
            assert!(
                matches!(told(busy, ""), StoreError::Conflicted(_)),
                "{busy}"
            );
        }
        for unwritable in [13, 8, 264, 776, 1032] {
            assert!(
                matches!(told(unwritable, ""), StoreError::Unwritable(_)),
                "{unwritable}"
            );
        }
        for away in [10, 266, 778, 3082, 14, 270, 7] {
            assert!(matches!(told(away, ""), StoreError::Away(_)), "{away}");
        }
        for other in [1, 11, 26, 1811, 1299, 19] {
            assert!(matches!(told(other, ""), StoreError::Other(_)), "{other}");
        }
    }

    #[test]
    fn what_never_fits_is_refused_and_a_row_that_is_there_already_is_a_race() {
        for refused in [275, 3091, 18, 20] {
            assert!(
                matches!(told(refused, ""), StoreError::Refused { .. }),
                "{refused}"
            );
        }
        for raced in [2067, 1555] {
            assert_eq!(told(raced, ""), StoreError::Raced);
        }
    }
}
