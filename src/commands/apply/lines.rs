//! Lines of a file or a pipe, one at a time, none held whole that is too long.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// The mark that some programs put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Its place, from 1.
    pub(super) number: u64,
    /// Its bytes without the end of the line; of a long one only the first.
    pub(super) bytes: Vec<u8>,
    /// How long it is, end included.
    pub(super) length: u64,
}

impl Line {
    /// Whether there is nothing to read in it.
    pub(super) fn is_blank(&self) -> bool {
        self.bytes.iter().all(u8::is_ascii_whitespace)
    }
}

/// Reads lines.
pub(super) struct Lines<R> {
    input: R,
    /// Most bytes kept of one line.
    keep_max: usize,
    number: u64,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, keep_max: usize) -> Self {
        Self {
            input,
            keep_max,
            number: 0,
        }
    }

    /// The next line; `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Line {
            number: self.number + 1,
            ..Line::default()
        };
        loop {
            let buffer = self.input.fill_buf().await?;
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let (text, used) = match end {
                Some(end) => (&buffer[..end], end + 1),
                None => (buffer, buffer.len()),
            };
            // One more than is kept, so that a line of just that length shows its \r.
            let room = (self.keep_max + 1).saturating_sub(line.bytes.len());
            line.bytes.extend_from_slice(&text[..text.len().min(room)]);
            line.length += used as u64;
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        if line.length == 0 {
            return Ok(None);
        }
        if line.bytes.last() == Some(&b'\r') {
            line.bytes.pop();
        }
        if line.number == 1 && line.bytes.starts_with(BYTE_ORDER_MARK) {
            line.bytes.drain(..BYTE_ORDER_MARK.len());
        }
        self.number = line.number;
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8], buffer: usize) -> Vec<(u64, String, u64)> {
        let input = tokio::io::BufReader::with_capacity(buffer, text);
        let mut lines = Lines::new(input, 8);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            let text = String::from_utf8(line.bytes).unwrap();
            all.push((line.number, text, line.length));
        }
        all
    }

    #[tokio::test]
    async fn lines_end_with_lf_or_crlf_or_the_file() {
        for buffer in [1, 3, 100] {
            let found = lines(b"\xef\xbb\xbfone\r\n\ntwo\nthree", buffer).await;
            let expected = [(1, "one", 8), (2, "", 1), (3, "two", 4), (4, "three", 5)];
            let expected = expected.map(|(number, text, length)| (number, text.to_owned(), length));
            assert_eq!(found, expected, "buffer of {buffer}");
        }
    }

    #[tokio::test]
    async fn a_long_line_is_cut_and_the_next_one_is_whole() {
        for buffer in [1, 5, 100] {
            let found = lines(b"0123456789abcdef\n01234567\r\nnext\n", buffer).await;
            assert_eq!(found[0], (1, "012345678".to_owned(), 17));
            assert_eq!(found[1], (2, "01234567".to_owned(), 10));
            assert_eq!(found[2], (3, "next".to_owned(), 5));
        }
    }
}
