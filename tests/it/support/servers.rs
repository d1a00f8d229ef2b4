//! Servers of a test's own, for what no shared server may suffer: on ports and in
//! folders of their own, ended with the test. `tests/run` sees to it that the
//! programs are installed.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a server may take to start or to end.
const LIMIT: Duration = Duration::from_secs(90);

/// A port on which nobody listens.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Whom a server runs as: itself where the test is not root, which no server may be.
#[derive(Clone, Debug)]
struct User(Option<String>);

impl User {
    fn of(server: &str) -> Self {
        let root = said("id", &["-u"]).trim() == "0";
        let known = || !said("getent", &["passwd", server]).is_empty();
        Self(root.then(|| if known() { server } else { "nobody" }.to_owned()))
    }

    /// Gives a folder to this user.
    fn own(&self, folder: &Path) {
        if let Some(user) = &self.0 {
            let path = folder.to_str().unwrap();
            said("chown", &["-R", &format!("{user}:"), path]);
        }
    }

    /// A command run as this user, that ends when the thread that began it ends.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]);
        if let Some(user) = &self.0 {
            let group = said("id", &["--group", user]);
            command.args(["--reuid", user, "--regid", group.trim(), "--init-groups"]);
        }
        command.arg("--").arg(program).stdin(Stdio::null());
        command
    }
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The newest program that matches `{before}*{after}`.
fn newest(before: &str, after: &str) -> PathBuf {
    let (folder, start) = before.rsplit_once('/').unwrap();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
        .map(|entry| entry.path().join(after))
        .filter(|path| path.exists());
    found
        .max()
        .unwrap_or_else(|| panic!("no {before}*/{after}: tests/run installs it"))
}

/// A running process, ended when dropped.
struct Process(Child);

impl Process {
    fn start(mut command: Command, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let errors = log.try_clone().unwrap();
        command.stdout(log).stderr(errors).process_group(0);
        Self(command.spawn().unwrap())
    }

    /// Sends a signal to it and to its children, and waits for its end.
    fn finish(&mut self, signal: &str) {
        let group = format!("-{}", self.0.id());
        said("kill", &[&format!("-{signal}"), "--", &group]);
        let limit = Instant::now() + LIMIT;
        while self.0.try_wait().unwrap().is_none() {
            if Instant::now() > limit {
                said("kill", &["-KILL", "--", &group]);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.0.try_wait().unwrap().is_none() {
            self.finish("TERM");
        }
    }
}

/// A RabbitMQ node, running or not.
pub struct OwnRabbit {
    user: User,
    folder: tempfile::TempDir,
    port: u16,
    node: String,
    programs: PathBuf,
    environment: Vec<(String, String)>,
    server: Option<Process>,
    _mapper: Process,
}

impl OwnRabbit {
    /// A node that does not run yet.
    pub fn prepare() -> Self {
        let programs = newest(
            "/usr/lib/rabbitmq/lib/rabbitmq_server-",
            "sbin/rabbitmq-server",
        );
        let programs = programs.parent().unwrap().to_owned();
        let (user, folder) = (User::of("rabbitmq"), tempfile::tempdir().unwrap());
        let (port, mapper_port) = (free_port(), free_port());
        for name in ["home", "data", "plugins", "conf.d", "log"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let listener = format!("listeners.tcp.1 = 127.0.0.1:{port}\n");
        for (name, text) in [
            ("rabbitmq.conf", listener.as_str()),
            ("enabled_plugins", "[].\n"),
            ("rabbitmq-env.conf", ""),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        user.own(folder.path());
        let node = format!("onceledger-own-{port}@localhost");
        let environment = environment(folder.path(), &node, mapper_port);
        let mut mapper = user.command(Path::new("/usr/bin/epmd"));
        mapper
            .args(["-port", &mapper_port.to_string(), "-address", "127.0.0.1"])
            .current_dir(folder.path());
        let mapper = Process::start(mapper, &folder.path().join("epmd.log"));
        Self {
            user,
            folder,
            port,
            node,
            programs,
            environment,
            server: None,
            _mapper: mapper,
        }
    }

    /// Where it is, or will be.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    /// Starts the node, also again, and waits until it lets clients in.
    pub async fn start(&mut self) {
        let command = self.command("rabbitmq-server");
        let log = self.folder.path().join("node.log");
        self.server = Some(Process::start(command, &log));
        let url = self.url();
        wait_for("RabbitMQ", &log, async || {
            let properties = lapin::ConnectionProperties::default();
            lapin::Connection::connect(&url, properties).await.is_ok()
        })
        .await;
    }

    /// Ends the node as a power cut does.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.finish("KILL");
    }

    /// Runs `rabbitmqctl`.
    pub fn control(&self, args: &[&str]) {
        let mut command = self.command("rabbitmqctl");
        command.args(["-n", &self.node]).args(args);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.user.command(&self.programs.join(program));
        command
            .env_clear()
            .envs(self.environment.iter().cloned())
            .current_dir(self.folder.path());
        command
    }
}

/// All that a node reads from its surroundings, so that nothing of the machine's
/// own node reaches it.
fn environment(folder: &Path, node: &str, mapper_port: u16) -> Vec<(String, String)> {
    let within = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let local = "-kernel inet_dist_use_interface {127,0,0,1}";
    [
        ("PATH", path.to_owned()),
        ("LC_ALL", "C.UTF-8".to_owned()),
        ("HOME", within("home")),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        ("ERL_EPMD_PORT", mapper_port.to_string()),
        ("RABBITMQ_NODENAME", node.to_owned()),
        ("RABBITMQ_DIST_PORT", free_port().to_string()),
        ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", local.to_owned()),
        ("RABBITMQ_CONF_ENV_FILE", within("rabbitmq-env.conf")),
        ("RABBITMQ_CONFIG_FILE", within("rabbitmq.conf")),
        ("RABBITMQ_CONFIG_FILES", within("conf.d")),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", within("advanced.config")),
        ("RABBITMQ_GENERATED_CONFIG_DIR", within("schema")),
        ("RABBITMQ_SCHEMA_DIR", within("schema")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", within("enabled_plugins")),
        ("RABBITMQ_PLUGINS_EXPAND_DIR", within("plugins")),
        ("RABBITMQ_MNESIA_BASE", within("data")),
        ("RABBITMQ_LOG_BASE", within("log")),
        ("RABBITMQ_LOGS", "-".to_owned()),
        ("RABBITMQ_PID_FILE", within("pid")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

async fn wait_for(server: &str, log: &Path, mut answers: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !answers().await {
        let said = || fs::read_to_string(log).unwrap_or_default();
        assert!(
            Instant::now() < limit,
            "{server} did not answer: {}",
            said()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
