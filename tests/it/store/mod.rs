//! What a store is: one suite, which every database must pass. Each test gets a
//! database of its own. What only PostgreSQL does is in `postgres.rs`.

mod clocks;
mod commit;
mod fences;
mod ledgers;
mod letters;
mod parked;
mod postgres;
mod races;
mod reads;
mod scene;
mod verify;
mod walks;

use std::sync::Arc;

use onceledger::store::{self, Store, StoreOptions};
use sqlx::{AssertSqlSafe, Connection};

use crate::support::databases::{self, TestDatabase};

/// The databases on which the suite runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Postgres,
    Sqlite,
}

/// An empty store on a database of its own.
struct Books {
    on: On,
    store: Arc<dyn Store>,
    database: TestDatabase,
}

impl On {
    async fn books(self) -> Books {
        let database = match self {
            Self::Postgres => databases::postgres().await,
            Self::Sqlite => databases::sqlite().await,
        };
        let store = store::open(&database.url, &StoreOptions::default())
            .await
            .unwrap();
        Books {
            on: self,
            store,
            database,
        }
    }
}

impl Books {
    /// A second store on the same database, as another process has it.
    async fn another(&self) -> Arc<dyn Store> {
        store::open(&self.database.url, &StoreOptions::default())
            .await
            .unwrap()
    }

    /// Says something to the database behind the store's back.
    async fn sql(&self, statement: &str) -> Result<(), sqlx::Error> {
        let statement = AssertSqlSafe(statement.to_owned());
        match self.on {
            On::Postgres => {
                let mut connection = sqlx::PgConnection::connect(&self.database.url).await?;
                sqlx::raw_sql(statement).execute(&mut connection).await?;
                connection.close().await
            }
            On::Sqlite => {
                let mut connection = sqlx::SqliteConnection::connect(&self.database.url).await?;
                sqlx::raw_sql(statement).execute(&mut connection).await?;
                connection.close().await
            }
        }
    }

    /// One number out of the database.
    async fn number(&self, statement: &str) -> i64 {
        let statement = AssertSqlSafe(statement.to_owned());
        match self.on {
            On::Postgres => {
                let mut connection = sqlx::PgConnection::connect(&self.database.url)
                    .await
                    .unwrap();
                sqlx::query_scalar(statement)
                    .fetch_one(&mut connection)
                    .await
                    .unwrap()
            }
            On::Sqlite => {
                let mut connection = sqlx::SqliteConnection::connect(&self.database.url)
                    .await
                    .unwrap();
                sqlx::query_scalar(statement)
                    .fetch_one(&mut connection)
                    .await
                    .unwrap()
            }
        }
    }

    /// Lets entries be changed, for tampering.
    async fn unlock_history(&self) {
        let statement = match self.on {
            On::Postgres => "ALTER TABLE event DISABLE TRIGGER event_is_final",
            On::Sqlite => "DROP TRIGGER event_is_final; DROP TRIGGER event_is_final_delete",
        };
        self.sql(statement).await.unwrap();
    }
}
