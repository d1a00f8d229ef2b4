//! One running `onceledger serve`, and how it is killed, stopped, stalled and
//! started again.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::ensure;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

use crate::process::Process;

/// What the program promises after SIGTERM.
pub(crate) const STOP_MAX: Duration = Duration::from_secs(10);
const READY_LOOK_EVERY: Duration = Duration::from_millis(100);
const ASK_MAX: Duration = Duration::from_secs(2);

/// What every instance is told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) program: PathBuf,
    pub(crate) work: PathBuf,
    pub(crate) database: String,
    pub(crate) broker: String,
    pub(crate) prefix: String,
}

/// One instance at an address of its own.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) base: String,
    settings: Settings,
    port: u16,
    process: Mutex<Option<Process>>,
    pid: AtomicU32,
    client: reqwest::Client,
}

impl Instance {
    pub(crate) fn new(number: usize, port: u16, settings: Settings) -> anyhow::Result<Self> {
        Ok(Self {
            name: format!("instance {number}"),
            base: format!("http://127.0.0.1:{port}"),
            settings,
            port,
            process: Mutex::new(None),
            pid: AtomicU32::new(0),
            client: reqwest::Client::builder().timeout(ASK_MAX).build()?,
        })
    }

    pub(crate) async fn start(&self) -> anyhow::Result<()> {
        let Settings {
            program,
            work,
            database,
            broker,
            prefix,
        } = &self.settings;
        let mut command = Command::new(program);
        command
            .arg("serve")
            .current_dir(work)
            .env_clear()
            .env("DATABASE_URL", database)
            .env("AMQP_URL", broker)
            .env("ONCELEDGER_AMQP_PREFIX", prefix)
            .env("ONCELEDGER_HTTP_ADDR", format!("127.0.0.1:{}", self.port));
        let log = work.join(format!("{}.log", self.name.replace(' ', "-")));
        let process = Process::start(&mut command, &log)?;
        self.pid.store(process.pid(), Ordering::Relaxed);
        *self.process.lock().await = Some(process);
        Ok(())
    }

    /// SIGKILL, and gone.
    pub(crate) async fn kill(&self) {
        self.process.lock().await.take();
    }

    /// SIGTERM: how long it took to end with 0.
    pub(crate) async fn terminate(&self) -> anyhow::Result<Duration> {
        let Some(mut process) = self.process.lock().await.take() else {
            return Ok(Duration::ZERO);
        };
        let began = Instant::now();
        process.signal("TERM");
        // A moment more than promised, to tell late from never.
        let status = process.wait(STOP_MAX * 2).await;
        let took = began.elapsed();
        ensure!(
            status.is_some_and(|status| status.success()) && took <= STOP_MAX,
            "{} answered SIGTERM with {status:?} after {took:.1?}",
            self.name
        );
        Ok(took)
    }

    /// SIGSTOP or SIGCONT.
    pub(crate) async fn signal(&self, signal: &str) {
        if let Some(process) = &*self.process.lock().await {
            process.signal(signal);
        }
    }

    /// Starts it again if it ended without being told to: that is worth a word.
    pub(crate) async fn revive(&self) -> anyhow::Result<Option<String>> {
        let ended = match &mut *self.process.lock().await {
            Some(process) => process.ended(),
            None => None,
        };
        let Some(status) = ended else { return Ok(None) };
        self.start().await?;
        Ok(Some(format!("{} ended by itself: {status}", self.name)))
    }

    /// Waits until it is ready to work, at most so long; answers how long it took.
    pub(crate) async fn ready(&self, at_most: Duration) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < at_most {
            let asked = self
                .client
                .get(format!("{}/readyz", self.base))
                .send()
                .await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return Some(began.elapsed());
            }
            sleep(READY_LOOK_EVERY).await;
        }
        None
    }

    /// Memory in use, in MiB, and open files; zeros while it is away.
    pub(crate) fn footprint(&self) -> (u64, usize) {
        let folder = format!("/proc/{}", self.pid.load(Ordering::Relaxed));
        let folder = Path::new(&folder);
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
            .unwrap_or(0);
        let files = std::fs::read_dir(folder.join("fd")).map_or(0, Iterator::count);
        (resident / 1024, files)
    }
}
