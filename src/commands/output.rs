//! What a command prints. A reader that has seen enough (`| head`) is no failure.

use std::io::{self, ErrorKind, Write};

/// Writes to standard output.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
