//! A RabbitMQ node with a port mapper, a cookie and data of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use lapin::{Connection, ConnectionProperties};
use tokio::time::{Instant, sleep, timeout};

use super::{Ports, newest};
use crate::process::{self, Process, User};

const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(60);
const CONTROL_MAX: Duration = Duration::from_secs(60);

/// The node and how to start it again.
#[derive(Debug)]
pub(crate) struct RabbitMq {
    programs: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    user: Option<User>,
    node: String,
    port: u16,
    mapper_port: u16,
    node_port: u16,
    process: Option<Process>,
    // Last, so that it ends after the node.
    mapper: Option<Process>,
}

impl RabbitMq {
    /// Starts a node with nothing in it.
    pub(crate) async fn start(work: &Path, ports: &Ports) -> anyhow::Result<Self> {
        let user = User::server("rabbitmq")?;
        let folder = work.join("rabbitmq");
        let mut node = Self {
            programs: newest("/usr/lib/rabbitmq/lib", "rabbitmq_server-", "sbin")?,
            log: work.join("rabbitmq.log"),
            node: format!("onceledger-endurance-{}@localhost", std::process::id()),
            port: ports.free()?,
            mapper_port: ports.free()?,
            node_port: ports.free()?,
            user,
            folder,
            process: None,
            mapper: None,
        };
        node.lay_out()?;
        node.start_mapper()?;
        node.launch().await?;
        Ok(node)
    }

    /// Where clients connect.
    pub(crate) fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    fn lay_out(&self) -> anyhow::Result<()> {
        User::folder(self.user, &self.folder)?;
        for name in ["home", "data", "plugins", "conf.d"] {
            User::folder(self.user, &self.folder.join(name))?;
        }
        let port = self.port;
        let files = [
            (
                "rabbitmq.conf",
                format!("listeners.tcp.1 = 127.0.0.1:{port}\n"),
            ),
            ("enabled_plugins", "[].\n".to_owned()),
            // Empty, so that the machine's own /etc/rabbitmq says nothing about this node.
            ("rabbitmq-env.conf", String::new()),
        ];
        for (name, text) in files {
            std::fs::write(self.folder.join(name), text)?;
        }
        Ok(())
    }

    /// Not as a daemon: the node would start one that outlives it.
    fn start_mapper(&mut self) -> anyhow::Result<()> {
        let mut command = self.command(Path::new("epmd"));
        command.args([
            "-port",
            &self.mapper_port.to_string(),
            "-address",
            "127.0.0.1",
        ]);
        self.mapper = Some(Process::start(&mut command, &self.log)?);
        Ok(())
    }

    /// Starts the node on the data that is there, and waits until it lets us in.
    pub(crate) async fn launch(&mut self) -> anyhow::Result<()> {
        // The server's own script, not the wrapper, which insists on the system's node.
        let mut command = self.command(&self.programs.join("rabbitmq-server"));
        let mut process = Process::start(&mut command, &self.log)?;
        let until = Instant::now() + START_MAX;
        while !self.answers().await {
            ensure!(
                process.ended().is_none() && Instant::now() < until,
                "RabbitMQ did not start; see {}",
                self.log.display()
            );
            sleep(Duration::from_millis(200)).await;
        }
        self.process = Some(process);
        Ok(())
    }

    async fn answers(&self) -> bool {
        let url = self.url();
        let connecting = Connection::connect(&url, ConnectionProperties::default());
        match timeout(Duration::from_secs(5), connecting).await {
            Ok(Ok(connection)) => {
                let closing = connection.close(200, "done".into());
                let _ = timeout(Duration::from_secs(5), closing).await;
                true
            }
            _ => false,
        }
    }

    /// A clean environment: any RABBITMQ_ variable of the caller's would reach the node.
    fn command(&self, program: &Path) -> Command {
        let inside = |name: &str| self.folder.join(name);
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", inside("home"))
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.mapper_port.to_string())
            .env("RABBITMQ_NODENAME", &self.node)
            .env("RABBITMQ_DIST_PORT", self.node_port.to_string())
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1}",
            )
            .env("RABBITMQ_CONF_ENV_FILE", inside("rabbitmq-env.conf"))
            .env("RABBITMQ_CONFIG_FILE", inside("rabbitmq.conf"))
            .env("RABBITMQ_CONFIG_FILES", inside("conf.d"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", inside("advanced.config"))
            .env("RABBITMQ_GENERATED_CONFIG_DIR", inside("schema"))
            .env("RABBITMQ_SCHEMA_DIR", inside("schema"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", inside("enabled_plugins"))
            .env("RABBITMQ_PLUGINS_EXPAND_DIR", inside("plugins"))
            .env("RABBITMQ_MNESIA_BASE", inside("data"))
            .env("RABBITMQ_LOG_BASE", inside("log"))
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_PID_FILE", inside("pid"));
        User::apply(self.user, &mut command);
        command
    }

    /// `rabbitmqctl` for this node.
    pub(crate) async fn control(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = self.command(&self.programs.join("rabbitmqctl"));
        command.args(["--node", &self.node, "--quiet"]).args(args);
        let name = args.join(" ");
        let (status, said) = process::run(&mut command, &self.folder, CONTROL_MAX)
            .await
            .with_context(|| format!("rabbitmqctl {name}"))?;
        ensure!(status.success(), "rabbitmqctl {name}: {said}");
        Ok(said)
    }

    /// Ends the node by a signal to all of its processes: TERM is the orderly
    /// stop, KILL a crash.
    pub(crate) async fn end(&mut self, signal: &str) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.signal_group(signal);
            let ended = process.wait(STOP_MAX).await;
            ended.with_context(|| format!("RabbitMQ did not end on {signal}"))?;
        }
        Ok(())
    }
}
