//! A database of its own for each test, gone when the test is over, also when
//! it failed.
//!
//! PostgreSQL comes from the server named by `ONCELEDGER_TEST_POSTGRES`, a URL of
//! a user who may create databases. A missing one fails the test: nothing is
//! skipped in silence.

use std::str::FromStr;

use onceledger::{clock, store};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, postgres::PgConnectOptions};

const SERVER: &str = "ONCELEDGER_TEST_POSTGRES";

/// A database with the schema in place. Keep it as long as its URL is used.
pub struct TestDatabase {
    /// Where it is.
    pub url: String,
    _remains: Remains,
}

impl TestDatabase {
    /// Its name on the PostgreSQL server.
    pub fn name(&self) -> String {
        match &self._remains {
            Remains::Postgres { name, .. } => name.clone(),
            Remains::Sqlite(_) => panic!("a file has no name on a server"),
        }
    }
}

/// What is cleaned up at the end.
enum Remains {
    Postgres { server: String, name: String },
    Sqlite(#[expect(dead_code, reason = "removed when dropped")] tempfile::TempDir),
}

/// A database on the PostgreSQL server, with the schema in place.
pub async fn postgres() -> TestDatabase {
    let database = empty_postgres().await;
    store::migrate(&database.url).await.unwrap();
    database
}

/// A database on the PostgreSQL server with nothing in it.
pub async fn empty_postgres() -> TestDatabase {
    let server = server();
    let name = format!("onceledger_test_{}", clock::new_id().simple());
    tell(&server, format!("CREATE DATABASE {name}")).await;
    let mut url = url::Url::parse(&server).unwrap();
    url.set_path(&name);
    TestDatabase {
        url: url.into(),
        _remains: Remains::Postgres { server, name },
    }
}

/// A SQLite file, with the schema in place.
pub async fn sqlite() -> TestDatabase {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("books.db").display());
    store::migrate(&url).await.unwrap();
    TestDatabase {
        url,
        _remains: Remains::Sqlite(folder),
    }
}

/// The server's URL.
#[expect(
    clippy::disallowed_methods,
    reason = "where the server is, only the environment knows"
)]
pub fn server() -> String {
    std::env::var(SERVER).unwrap_or_else(|_| {
        panic!("{SERVER} must name a PostgreSQL server, e.g. postgres://postgres@127.0.0.1:5432/postgres")
    })
}

/// A session of the test's own.
pub async fn connect(url: &str) -> sqlx::PgConnection {
    let options = PgConnectOptions::from_str(url).unwrap();
    options.connect().await.unwrap()
}

async fn tell(server: &str, statement: String) {
    let options = PgConnectOptions::from_str(server).unwrap();
    let mut connection = options.connect().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

impl Drop for Remains {
    fn drop(&mut self) {
        let Self::Postgres { server, name } = self else {
            return;
        };
        let (server, statement) = (
            server.clone(),
            format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        );
        // The test's own runtime may be ending; this one is nobody else's.
        let dropped = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(tell(&server, statement));
        })
        .join();
        if dropped.is_err() {
            eprintln!("the test database {name} could not be dropped");
        }
    }
}
