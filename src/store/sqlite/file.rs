//! The file that holds the books, and the connections to it.
//!
//! What lives here: which URLs are taken, and how a connection is set up. What
//! must not: statements on the books.

use std::{
    path::{Path, PathBuf},
    str::FromStr as _,
    time::Duration,
};

use sqlx::{
    ConnectOptions as _,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{Pool, failed};
use crate::store::{Result, StoreError, StoreOptions};

/// How long a statement waits for a writer outside this process. Shorter than
/// anything that a caller waits for, longer than a backup or a person's query.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the lanes queue for the one writing connection: long enough for all
/// those in front to wait for somebody outside.
const WRITER_TIMEOUT: Duration = Duration::from_secs(60);

/// Prepared statements kept on the writer: a bulk statement has one for each
/// length that occurs.
const WRITER_STATEMENTS: usize = 256;

/// Where the books are kept.
#[derive(Clone, Debug)]
pub(super) struct File {
    path: PathBuf,
}

impl File {
    /// Reads `sqlite://onceledger.db` (relative to the working folder) or
    /// `sqlite:///var/lib/onceledger.db`.
    pub(super) fn of_url(url: &str) -> Result<Self> {
        let name = url.strip_prefix("sqlite:").unwrap_or(url);
        let name = name.strip_prefix("//").unwrap_or(name);
        let (name, parameters) = name.split_once('?').unwrap_or((name, ""));
        if !matches!(parameters, "" | "mode=rw" | "mode=rwc") {
            return Err(StoreError::Other(format!(
                "{url}: no parameters are taken behind the file's name, not {parameters:?}"
            )));
        }
        if name.is_empty() || name == ":memory:" || name.starts_with("file:") {
            return Err(StoreError::Other(format!(
                "{url}: the books are kept in a file, never in memory; name one, \
                 for example sqlite://onceledger.db"
            )));
        }
        let decoded =
            SqliteConnectOptions::from_str(&format!("sqlite://{name}")).map_err(failed)?;
        Ok(Self {
            path: decoded.get_filename().to_owned(),
        })
    }

    /// Says in plain words why it can't be opened, before SQLite says "unable to
    /// open database file". Only who may make it goes on without one.
    pub(super) fn check(&self, may_make: bool) -> Result<()> {
        let shown = self.path.display();
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(StoreError::Other(format!(
                "the database {shown} can't be opened: there is no folder {}",
                folder.display()
            )));
        }
        if self.path.is_dir() {
            return Err(StoreError::Other(format!(
                "the database {shown} can't be opened: it is a folder"
            )));
        }
        if !may_make && !self.path.exists() {
            return Err(StoreError::Schema(format!(
                "there is no database {shown}; `onceledger migrate` or `onceledger serve` makes it"
            )));
        }
        Ok(())
    }

    /// The one connection that writes: SQLite knows one writer at a time, and
    /// lanes that queue for it are served in turn, while those that met at
    /// SQLite's lock would poll for it.
    pub(super) async fn writer(&self, make: bool) -> Result<Pool> {
        let options = self
            .options()
            .create_if_missing(make)
            .statement_cache_capacity(WRITER_STATEMENTS)
            // Readers and the writer do not wait for each other; the mode stays
            // with the file.
            .journal_mode(SqliteJournalMode::Wal)
            // A commit is on the disk when it is answered.
            .synchronous(SqliteSynchronous::Full)
            // On Apple's systems a plain fsync leaves it in the drive's cache.
            .pragma("fullfsync", "1")
            .pragma("checkpoint_fullfsync", "1")
            // A checkpoint writes each page once, however often it changed: few
            // large ones write less.
            .pragma("wal_autocheckpoint", "16000")
            .pragma("journal_size_limit", "67108864")
            .pragma("cache_size", "-65536");
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(WRITER_TIMEOUT)
            .acquire_slow_threshold(WRITER_TIMEOUT)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(options);
        opened(&pool).await?;
        Ok(pool)
    }

    /// Connections that only read.
    pub(super) fn readers(&self, connections: u32, options: &StoreOptions) -> Pool {
        self.reading(connections, options, "memory")
    }

    fn reading(&self, connections: u32, options: &StoreOptions, temp_store: &'static str) -> Pool {
        let to_file = self
            .options()
            .pragma("temp_store", temp_store)
            .statement_cache_capacity(options.statement_cache)
            .pragma("query_only", "1")
            .pragma("cache_size", "-8192");
        SqlitePoolOptions::new()
            .max_connections(connections.max(1))
            .acquire_timeout(options.acquire_timeout)
            .acquire_slow_threshold(options.acquire_timeout)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(to_file)
    }

    /// The connection that walks the whole history. What it must sort goes to a file,
    /// so that a long history costs no memory.
    pub(super) fn walker(&self, options: &StoreOptions) -> Pool {
        self.reading(1, options, "file")
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&self.path)
            .busy_timeout(BUSY_TIMEOUT)
            .pragma("temp_store", "memory")
            .disable_statement_logging()
    }
}

/// Opens the first connection. While another process makes the same file, the
/// change of its journal mode can't be waited for by the busy timeout.
async fn opened(pool: &Pool) -> Result<()> {
    const ATTEMPTS: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(100);
    let mut attempt = 0;
    loop {
        match pool.acquire().await.map_err(failed) {
            Err(StoreError::Conflicted(_)) if attempt < ATTEMPTS => {
                attempt += 1;
                tokio::time::sleep(PAUSE).await;
            }
            done => return done.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file_relative_or_absolute() {
        let path = |url| File::of_url(url).map(|file| file.path);
        assert_eq!(path("sqlite://onceledger.db"), Ok("onceledger.db".into()));
        assert_eq!(path("sqlite:onceledger.db"), Ok("onceledger.db".into()));
        assert_eq!(path("sqlite://data/a.db"), Ok("data/a.db".into()));
        assert_eq!(
            path("sqlite:///var/lib/a%20b.db"),
            Ok("/var/lib/a b.db".into())
        );
        assert_eq!(path("sqlite://a.db?mode=rwc"), Ok("a.db".into()));
    }

    #[test]
    fn books_in_memory_are_refused() {
        for url in [
            "sqlite::memory:",
            "sqlite://:memory:",
            "sqlite://",
            "sqlite:",
            "sqlite://file::memory:",
            "sqlite://a.db?mode=memory",
            "sqlite://a.db?immutable=1",
        ] {
            assert!(
                matches!(File::of_url(url), Err(StoreError::Other(_))),
                "{url}"
            );
        }
    }
}
