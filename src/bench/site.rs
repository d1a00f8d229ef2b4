//! Where the measurement works: a schema, or a file, and queues of its own,
//! removed at the end.
//!
//! What must not live here: measuring.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use url::Url;

use super::broker::Broker;
use crate::config::{Config, SecretUrl};

/// First part of the names of everything that is made.
const PREFIX: &str = "onceledger_bench_";

/// What was made, and how to be rid of it.
#[derive(Debug)]
pub(super) struct Site {
    name: String,
    database: Database,
    /// The settings with which the service is to work here.
    pub(super) config: Config,
}

#[derive(Debug)]
enum Database {
    /// A schema in the configured database.
    Schema { server: SecretUrl },
    /// A file in the folder of the configured one, on the same disk.
    File(PathBuf),
}

impl Site {
    /// Makes an empty place beside the books of the settings. `run` tells it from
    /// those of other runs.
    pub(super) async fn make(config: &Config, run: u64) -> anyhow::Result<Self> {
        let name = format!("{PREFIX}{run:016x}");
        let url = &config.database_url;
        let (database, own) = if url.starts_with("sqlite:") {
            let file = beside(url).join(format!("{name}.db"));
            let own = format!("sqlite://{}", file.display());
            (Database::File(file), own)
        } else {
            execute(url, format!("CREATE SCHEMA {name}"))
                .await
                .context(
                    "the measurement needs a schema of its own, and so the right to CREATE one",
                )?;
            let mut own = Url::parse(url).context("DATABASE_URL can't be read")?;
            own.query_pairs_mut()
                .append_pair("options[search_path]", &name);
            let server = url.clone();
            (Database::Schema { server }, own.to_string())
        };
        let mut config = config.clone();
        config.database_url = SecretUrl::new(own);
        config.amqp_prefix.clone_from(&name);
        config.migrate = true;
        config.queues.truncate(1);
        let Some(queue) = config.queues.first_mut() else {
            bail!("no queue is configured");
        };
        queue.name = format!("{name}.events").into();
        queue.source = super::books::SOURCE.into();
        queue.scope = None;
        queue.tenant = crate::domain::DEFAULT_TENANT.into();
        queue.declare = None;
        Ok(Self {
            name,
            database,
            config,
        })
    }

    /// The service's queue.
    pub(super) fn queue(&self) -> String {
        format!("{}.events", self.name)
    }

    /// The queue of measurements without the service.
    pub(super) fn other_queue(&self) -> String {
        format!("{}.alone", self.name)
    }

    /// Removes everything.
    pub(super) async fn remove(&self) -> anyhow::Result<()> {
        let books = self.remove_books().await;
        let queues = self.remove_queues().await;
        books.and(queues).with_context(|| {
            format!(
                "not everything could be removed whose name begins with {}",
                self.name
            )
        })
    }

    async fn remove_books(&self) -> anyhow::Result<()> {
        match &self.database {
            Database::Schema { server } => {
                execute(
                    server,
                    format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name),
                )
                .await
            }
            Database::File(file) => {
                for suffix in ["", "-wal", "-shm"] {
                    let mut path = file.clone().into_os_string();
                    path.push(suffix);
                    match std::fs::remove_file(&path) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            return Err(error.into());
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
        }
    }

    async fn remove_queues(&self) -> anyhow::Result<()> {
        let Some(url) = &self.config.amqp_url else {
            return Ok(());
        };
        let broker = Broker::connect(url).await?;
        let named = |parts: &[&str]| {
            parts
                .iter()
                .map(|part| format!("{}.{part}", self.name))
                .collect::<Vec<_>>()
        };
        let queues = named(&["events", "dead", "commands", "alone"]);
        let removed = broker.delete(&queues, &named(&["events", "dead"])).await;
        broker.close().await;
        removed
    }
}

/// Schemas or files that a run left behind that could not end.
pub(super) async fn left_behind(config: &Config) -> anyhow::Result<Vec<String>> {
    let url = &config.database_url;
    if url.starts_with("sqlite:") {
        let folder = beside(url);
        let Ok(entries) = std::fs::read_dir(&folder) else {
            return Ok(Vec::new());
        };
        let names = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        return Ok(names.filter(|name| name.starts_with(PREFIX)).collect());
    }
    let mut connection = PgConnection::connect(url).await?;
    let names =
        sqlx::query_scalar("SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname, $1)")
            .bind(PREFIX)
            .fetch_all(&mut connection)
            .await?;
    connection.close().await?;
    Ok(names)
}

/// The folder of the configured file.
fn beside(url: &str) -> PathBuf {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    match Path::new(path).parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

async fn execute(url: &str, sql: String) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::query(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await?;
    connection.close().await?;
    Ok(())
}
