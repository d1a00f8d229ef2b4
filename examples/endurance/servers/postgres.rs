//! A PostgreSQL cluster that syncs every commit, as one that keeps money must.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, sleep, timeout};

use super::{Ports, newest};
use crate::process::{Process, User};

const START_MAX: Duration = Duration::from_secs(60);
const INIT_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(60);

/// The server and how to start it again.
#[derive(Debug)]
pub(crate) struct Postgres {
    programs: PathBuf,
    data: PathBuf,
    log: PathBuf,
    user: Option<User>,
    port: u16,
    process: Option<Process>,
}

impl Postgres {
    /// Makes a cluster, and starts it with an empty database `books`.
    pub(crate) async fn start(work: &Path, ports: &Ports) -> anyhow::Result<Self> {
        let user = User::server("postgres")?;
        let folder = work.join("postgres");
        User::folder(user, &folder)?;
        let mut postgres = Self {
            programs: newest("/usr/lib/postgresql", "", "bin")?,
            data: folder.join("data"),
            log: work.join("postgres.log"),
            user,
            port: ports.free()?,
            process: None,
        };
        postgres.init().await?;
        postgres.launch().await?;
        let mut admin = PgConnection::connect(&postgres.url_of("postgres")).await?;
        sqlx::query("CREATE DATABASE books")
            .execute(&mut admin)
            .await?;
        admin.close().await?;
        Ok(postgres)
    }

    /// Where the books are.
    pub(crate) fn url(&self) -> String {
        self.url_of("books")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    async fn init(&self) -> anyhow::Result<()> {
        let mut command = self.command("initdb");
        command.arg("--pgdata").arg(&self.data).args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]);
        let mut process = Process::start(&mut command, &self.log)?;
        let ended = process.wait(INIT_MAX).await;
        ensure!(
            ended.is_some_and(|status| status.success()),
            "initdb failed; see {}",
            self.log.display()
        );
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command
            .current_dir("/")
            .env_clear()
            .env("LC_ALL", "C.UTF-8");
        User::apply(self.user, &mut command);
        command
    }

    /// Starts the server on the data that is there, and waits until it answers.
    pub(crate) async fn launch(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + START_MAX;
        while Instant::now() < until {
            let mut process = self.spawn()?;
            // After a kill the old back ends may still hold the shared memory: then
            // the new server ends at once, and is started again.
            while process.ended().is_none() && Instant::now() < until {
                if self.answers().await {
                    self.process = Some(process);
                    return Ok(());
                }
                sleep(Duration::from_millis(50)).await;
            }
            sleep(Duration::from_millis(200)).await;
        }
        anyhow::bail!("PostgreSQL did not start; see {}", self.log.display())
    }

    fn spawn(&self) -> anyhow::Result<Process> {
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(&self.data)
            .args(["-p", &self.port.to_string()])
            .args(["-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories="])
            .args(["-c", "fsync=on", "-c", "synchronous_commit=on"])
            .args(["-c", "max_connections=300"]);
        Process::start(&mut command, &self.log)
    }

    async fn answers(&self) -> bool {
        let url = self.url_of("postgres");
        let connecting = PgConnection::connect(&url);
        matches!(timeout(Duration::from_secs(2), connecting).await, Ok(Ok(_)))
    }

    /// Ends the server by a signal to its postmaster: INT is the fast shutdown,
    /// QUIT the immediate one, KILL a crash; the last two mean recovery at the
    /// next start.
    pub(crate) async fn end(&mut self, signal: &str) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.signal(signal);
            let ended = process.wait(STOP_MAX).await;
            ended.with_context(|| format!("PostgreSQL did not end on {signal}"))?;
        }
        Ok(())
    }
}
