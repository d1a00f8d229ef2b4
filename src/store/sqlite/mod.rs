//! SQLite: the books in one file, for a small house or a trial.
//!
//! What lives here: what only SQLite understands. What must not: rules.

#[path = "../shared/rows.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "one text, compiled for each database with its own types"
)]
mod rows;

type Db = sqlx::Sqlite;
type Row = sqlx::sqlite::SqliteRow;
