//! Programs of this run: each leads a process group of its own, out of reach of
//! the terminal's Ctrl-C, gets its signals by that group, and does not outlive
//! the run. What must not live here: what the programs are.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context;
use tokio::time::{Instant, sleep};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The user that root runs a server as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// That user, where we are root (PostgreSQL refuses to be root); `None`: we
    /// run everything as ourselves.
    pub(crate) fn server(name: &str) -> anyhow::Result<Option<Self>> {
        if number("id", &["-u"])? != 0 {
            return Ok(None);
        }
        let uid = number("id", &["-u", name])?;
        let gid = number("id", &["-g", name])?;
        Ok(Some(Self { uid, gid }))
    }

    /// Has a command run as the user.
    pub(crate) fn apply(user: Option<Self>, command: &mut Command) {
        if let Some(Self { uid, gid }) = user {
            command.uid(uid).gid(gid);
        }
    }

    /// Makes a folder that belongs to the user alone.
    pub(crate) fn folder(user: Option<Self>, path: &Path) -> anyhow::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        if let Some(Self { uid, gid }) = user {
            std::os::unix::fs::chown(path, Some(uid), Some(gid))?;
        }
        Ok(())
    }
}

fn number(program: &str, args: &[&str]) -> anyhow::Result<u32> {
    let output = Command::new(program).args(args).output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    text.parse()
        .with_context(|| format!("`{program} {}` answers `{text}`", args.join(" ")))
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it; what it writes is put at the end of the log.
    pub(crate) fn start(command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let out = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} does not start", command.get_program().display()))?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program and all that it started.
    pub(crate) fn signal_group(&self, signal: &str) {
        kill(signal, &format!("-{}", self.pid()));
    }

    /// Sends a signal to the program alone.
    pub(crate) fn signal(&self, signal: &str) {
        kill(signal, &self.pid().to_string());
    }

    /// How it ended, where it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end, at most so long.
    pub(crate) async fn wait(&mut self, at_most: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + at_most;
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group may hold children of a leader that is gone already.
        self.signal_group("KILL");
        let _ = self.child.wait();
    }
}

/// Runs a program to its end, at most so long: how it ended and what it said.
pub(crate) async fn run(
    command: &mut Command,
    folder: &Path,
    at_most: Duration,
) -> anyhow::Result<(ExitStatus, String)> {
    let said = tempfile::NamedTempFile::new_in(folder)?;
    let mut process = Process::start(command, said.path())?;
    let status = process.wait(at_most).await;
    let status = status.context("it takes too long and was ended")?;
    let text = std::fs::read(said.path())?;
    Ok((status, String::from_utf8_lossy(&text).trim().to_owned()))
}

/// The one way to another process that needs no unsafe code.
fn kill(signal: &str, target: &str) {
    // That it is gone already is no error here.
    let _ = Command::new("kill")
        .args(["-s", signal, "--", target])
        .stderr(Stdio::null())
        .status();
}
