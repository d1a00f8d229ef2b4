//! Many rows with few statements.
//!
//! What lives here: multi-row VALUES. A call costs a hop to the connection's
//! thread and back, so that nothing is called once a row; and a statement of
//! another length is another statement to prepare, so that only lengths that are
//! powers of two occur. What must not: what the statements say.

use sqlx::{
    Arguments as _, AssertSqlSafe, Encode, Executor as _, Sqlite, SqliteConnection, Type,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::failed;
use crate::store::{Result, StoreError};

/// Most rows of one statement.
const ROWS_MAX: usize = 128;

/// A statement around `VALUES (?, …), …`.
pub(super) struct Bulk {
    /// What stands before VALUES.
    pub(super) head: &'static str,
    /// How many values a row has.
    pub(super) columns: usize,
    /// What stands behind the rows.
    pub(super) tail: &'static str,
}

/// Takes the values of the rows from left to right.
#[derive(Default)]
pub(super) struct Values {
    arguments: SqliteArguments,
    failure: Option<String>,
}

impl Values {
    /// The next value.
    pub(super) fn put<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(&mut self, value: T) -> &mut Self {
        if let Err(error) = self.arguments.add(value) {
            self.failure.get_or_insert_with(|| error.to_string());
        }
        self
    }
}

impl Bulk {
    /// Runs it for all items and says how many rows it changed.
    pub(super) async fn execute<T>(
        &self,
        connection: &mut SqliteConnection,
        items: &[T],
        bind: impl Fn(&mut Values, &T),
    ) -> Result<u64> {
        let mut changed = 0;
        for part in powers(items) {
            let (sql, values) = self.statement(part, &bind)?;
            let done = connection
                .execute(sqlx::query_with(AssertSqlSafe(sql), values))
                .await
                .map_err(failed)?;
            changed += done.rows_affected();
        }
        Ok(changed)
    }

    /// Runs it for all items and brings what it answers.
    pub(super) async fn fetch<T>(
        &self,
        connection: &mut SqliteConnection,
        items: &[T],
        bind: impl Fn(&mut Values, &T),
    ) -> Result<Vec<SqliteRow>> {
        let mut rows = Vec::new();
        for part in powers(items) {
            let (sql, values) = self.statement(part, &bind)?;
            let query = sqlx::query_with(AssertSqlSafe(sql), values);
            rows.append(&mut connection.fetch_all(query).await.map_err(failed)?);
        }
        Ok(rows)
    }

    fn statement<T>(
        &self,
        part: &[T],
        bind: &impl Fn(&mut Values, &T),
    ) -> Result<(String, SqliteArguments)> {
        let mut values = Values::default();
        values.arguments.reserve(self.columns * part.len(), 0);
        for item in part {
            bind(&mut values, item);
        }
        if let Some(failure) = values.failure {
            return Err(StoreError::Other(failure));
        }
        let row = format!("({}?)", "?,".repeat(self.columns - 1));
        let rows = format!("{}{row}", format!("{row},").repeat(part.len() - 1));
        let sql = format!("{} VALUES {rows} {}", self.head, self.tail);
        Ok((sql, values.arguments))
    }
}

/// Cuts a list into parts whose lengths are powers of two.
pub(super) fn powers<T>(mut items: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = 1 << items.len().min(ROWS_MAX).checked_ilog2()?;
        let (part, rest) = items.split_at(length);
        items = rest;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_into_few_lengths() {
        let lengths = |count: usize| {
            let items = vec![(); count];
            powers(&items).map(<[()]>::len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(0), Vec::<usize>::new());
        assert_eq!(lengths(1), [1]);
        assert_eq!(lengths(7), [4, 2, 1]);
        assert_eq!(lengths(128), [128]);
        assert_eq!(lengths(500), [128, 128, 128, 64, 32, 16, 4]);
    }
}
