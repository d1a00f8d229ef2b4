//! What PostgreSQL says, in the words of [`StoreError`]. Errors are told apart
//! by their code (SQLSTATE) and the constraint's name, never by their text:
//! servers speak German too.

use sqlx::error::DatabaseError;

use crate::store::StoreError;

/// Constraints that a second writer of the same identity or entry runs into.
const RACES: [&str; 2] = ["event_key_key", "event_account_version_key"];

/// Translates an error.
pub(super) fn failed(error: sqlx::Error) -> StoreError {
    use sqlx::Error;
    match error {
        Error::Database(error) => from_server(&*error),
        Error::Io(_)
        | Error::Tls(_)
        | Error::PoolTimedOut
        | Error::PoolClosed
        | Error::WorkerCrashed
        | Error::BeginFailed => StoreError::Away(error.to_string()),
        error => StoreError::Other(error.to_string()),
    }
}

/// Translates an error of a migration.
pub(super) fn migration_failed(error: sqlx::migrate::MigrateError) -> StoreError {
    use sqlx::migrate::MigrateError;
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => failed(error),
        error => StoreError::Schema(format!("the schema can't be brought up to date: {error}")),
    }
}

fn from_server(error: &dyn DatabaseError) -> StoreError {
    let code = error.code().unwrap_or_default();
    let said = || format!("{} (code {code})", error.message());
    // https://www.postgresql.org/docs/current/errcodes-appendix.html
    match &*code {
        "23505" if error.constraint().is_some_and(|name| RACES.contains(&name)) => {
            StoreError::Raced
        }
        "40001" | "40P01" => StoreError::Conflicted(code.into_owned()),
        "55P03" => StoreError::Locked,
        // The limit of a walk through the history, or a person.
        "57014" => StoreError::Occupied("a statement was cancelled, or took too long"),
        "23514" => refused(error, &code),
        class if class.starts_with("22") => refused(error, &code),
        // Disk full; a standby, or an administrator's lock.
        "53100" | "25006" => StoreError::Unwritable(said()),
        // Shut down, crashed, starting, a timeout that ended the session, too
        // many connections, or no connection at all.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "53300" => StoreError::Away(said()),
        class if class.starts_with("08") => StoreError::Away(said()),
        "42P01" | "42703" => StoreError::Schema(format!(
            "the schema is not the one this program works with: {}",
            said()
        )),
        _ => StoreError::Other(said()),
    }
}

fn refused(error: &dyn DatabaseError, code: &str) -> StoreError {
    StoreError::Refused {
        code: code.to_owned(),
        message: error.message().to_owned(),
    }
}
