//! The program as a process of its own: run to its end, or until it is told to.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_secs(30);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A command in a folder, with nothing in its environment but what is given.
pub(crate) fn command(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceledger"));
    command
        .current_dir(folder)
        .env_clear()
        .envs(env.iter().copied())
        .args(args)
        .stdin(Stdio::null());
    command
}

/// Runs to the end.
pub(crate) fn run(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Ended {
    run_with_input(folder, args, env, b"")
}

/// Runs to the end with an input.
pub(crate) fn run_with_input(
    folder: &Path,
    args: &[&str],
    env: &[(&str, &str)],
    input: &[u8],
) -> Ended {
    let mut child = command(folder, args, env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writing = std::thread::spawn(move || {
        // The program may end before it has read everything.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A service that runs until the test ends.
pub(crate) struct Service {
    child: Child,
    log: Arc<Mutex<String>>,
    /// Where it serves HTTP.
    pub(crate) address: String,
}

impl Service {
    /// Starts `serve` on a free port.
    pub(crate) fn start(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut all = vec!["serve", "--http-addr", "127.0.0.1:0"];
        all.extend(args);
        let mut child = command(folder, &all, env)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, sink) = (child.stderr.take().unwrap(), log.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = sink.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut service = Self {
            child,
            log,
            address: String::new(),
        };
        let line = service.logged("serving HTTP");
        let address = line.split("address=").nth(1).unwrap();
        address.trim().clone_into(&mut service.address);
        service
    }

    /// Waits for a line with this text, and answers the line.
    pub(crate) fn logged(&mut self, text: &str) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let found = self
                .log()
                .lines()
                .find(|line| line.contains(text))
                .map(str::to_owned);
            if let Some(line) = found {
                return line;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "ended ({ended:?}) without {text:?}: {}",
                self.log()
            );
            assert!(Instant::now() < end, "never said {text:?}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Everything logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The status and body of a GET.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.address);
        let answer = reqwest::get(url).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The same where it may be gone.
    pub(crate) async fn try_get(&self, path: &str) -> Option<(u16, String)> {
        let url = format!("http://{}{path}", self.address);
        let answer = reqwest::get(url).await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// SIGKILL, and gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The status and body of a POST.
    pub(crate) async fn post(&self, path: &str, body: &serde_json::Value) -> (u16, String) {
        let url = format!("http://{}{path}", self.address);
        let sending = reqwest::Client::new().post(url).json(body).send();
        let answer = sending.await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The status and body of a PATCH.
    pub(crate) async fn patch(&self, path: &str, body: &serde_json::Value) -> (u16, String) {
        let url = format!("http://{}{path}", self.address);
        let sending = reqwest::Client::new().patch(url).json(body).send();
        let answer = sending.await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Waits until a GET answers with this status.
    pub(crate) async fn answers(&self, path: &str, status: u16) {
        let end = Instant::now() + LIMIT;
        loop {
            let (found, body) = self.get(path).await;
            if found == status {
                return;
            }
            assert!(
                Instant::now() < end,
                "{path} answers {found} {body}: {}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for the end, and answers the exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
