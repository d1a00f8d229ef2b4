//! Which database a URL names. What must not be here: anything that only one of
//! them understands.

use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;

use super::{PostgresStore, Result, SqliteStore, Store, StoreError, StoreOptions};

/// Connects to the store that a URL names: `postgres://`, `postgresql://` or
/// `sqlite://`. The schema is as it is; see [`migrate`] and [`check_schema`].
///
/// # Errors
/// [`StoreError::Away`] where it does not answer; the caller may wait for it.
pub async fn open(url: &str, options: &StoreOptions) -> Result<Arc<dyn Store>> {
    match scheme(url)? {
        Scheme::Postgres => Ok(Arc::new(PostgresStore::connect(url, options).await?)),
        Scheme::Sqlite => Ok(Arc::new(SqliteStore::connect(url, options).await?)),
    }
}

/// How the store reaches a PostgreSQL server, TLS or not included: for those who
/// measure it beside others.
///
/// # Errors
/// [`StoreError::Away`] where it does not answer.
pub(crate) async fn postgres_as_reached(url: &str) -> Result<PgConnectOptions> {
    PostgresStore::as_reached(url).await
}

/// Brings the schema up to date.
///
/// # Errors
/// [`StoreError::Schema`] where the schema there is newer than this program.
pub async fn migrate(url: &str) -> Result<()> {
    match scheme(url)? {
        Scheme::Postgres => {
            let store = PostgresStore::connect(url, &one_connection()).await?;
            let done = store.migrate().await;
            store.close().await;
            done
        }
        Scheme::Sqlite => {
            let store = SqliteStore::connect_or_create(url, &one_connection()).await?;
            let done = store.migrate().await;
            store.close().await;
            done
        }
    }
}

/// Checks that the schema is the one this program works with, and changes nothing.
///
/// # Errors
/// [`StoreError::Schema`], with the version that is there and the one needed.
pub async fn check_schema(url: &str) -> Result<()> {
    match scheme(url)? {
        Scheme::Postgres => {
            let store = PostgresStore::connect(url, &one_connection()).await?;
            let done = store.check_schema().await;
            store.close().await;
            done
        }
        Scheme::Sqlite => {
            let store = SqliteStore::connect(url, &one_connection()).await?;
            let done = store.check_schema().await;
            store.close().await;
            done
        }
    }
}

enum Scheme {
    Postgres,
    Sqlite,
}

fn scheme(url: &str) -> Result<Scheme> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Ok(Scheme::Postgres),
        Some("sqlite") => Ok(Scheme::Sqlite),
        // The URL itself is not shown: it may hold a password.
        _ => Err(StoreError::Other(
            "the database's URL begins with none of postgres://, postgresql://, sqlite:".to_owned(),
        )),
    }
}

fn one_connection() -> StoreOptions {
    StoreOptions {
        ledger_connections: 1,
        read_connections: 1,
        ..StoreOptions::default()
    }
}
