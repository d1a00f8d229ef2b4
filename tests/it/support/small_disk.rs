//! A disk so small that a test can fill it, and take the filling away again.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A file system in memory, gone when the test is over.
pub struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts one of so many MiB for a user of the machine. Needs root, or sudo without
    /// a question; anything else fails the test, since a full disk that is only
    /// pretended proves little.
    pub fn new(mib: u32, user: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={mib}m,mode=777,uid={user}");
        let path = folder.path().display().to_string();
        let arguments = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            &options,
            "onceledger-test",
            &path,
        ];
        let outcome = privileged(&arguments);
        assert!(
            outcome.is_ok(),
            "a tmpfs of {mib} MiB can't be mounted on {path}, which takes root (or sudo) and the \
             right to mount (in a container CAP_SYS_ADMIN): {outcome:?}"
        );
        // Whoever works on it must also reach it.
        privileged(&["chmod", "755", &path]).unwrap();
        Self { folder }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn filling(&self) -> PathBuf {
        self.path().join("filling")
    }

    /// Leaves not a byte.
    pub fn fill(&self) {
        // As root, so that it may write wherever the disk belongs to another user.
        let to = format!("of={}", self.filling().display());
        let _ = privileged(&["dd", "if=/dev/zero", &to, "bs=4096"]);
        let size = fs::metadata(self.filling()).unwrap().len();
        assert!(size > 0, "nothing could be filled");
    }

    /// Gives the space back.
    pub fn free(&self) {
        let path = self.filling().display().to_string();
        privileged(&["rm", &path]).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let path = self.path().display().to_string();
        // Lazily: somebody's last file may still be closing.
        if let Err(error) = privileged(&["umount", "--lazy", &path]) {
            eprintln!("{path} could not be unmounted: {error}");
        }
    }
}

/// Runs a command as root.
fn privileged(command: &[&str]) -> Result<(), String> {
    let root = fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    let output = match root {
        true => Command::new(command[0]).args(&command[1..]).output(),
        false => Command::new("sudo").arg("-n").args(command).output(),
    };
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
