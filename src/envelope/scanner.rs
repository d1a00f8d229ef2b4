//! One pass over the text of a JSON document.
//!
//! What lives here: the grammar, the limit on depth, keys that stand twice and
//! U+0000. What must not: a tree of values, or copies of what can be borrowed.

use std::{borrow::Cow, collections::HashSet};

use super::json::{Blemish, Document, NotJson, Object, Top, text};

/// Up to so many keys, comparing each with each is faster than a set.
const KEYS_COMPARED: usize = 16;

/// One pass over a text. Recursion is bounded by the limit on depth.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth_max: usize,
    /// The keys of every object that is open; of the top level's also after it.
    keys: Vec<Cow<'a, str>>,
    /// The values at the top level, beside `keys`.
    values: Vec<&'a str>,
    blemish: Option<Blemish>,
}

/// A string as it was met, between its quotes.
struct Piece<'a> {
    inner: &'a str,
    escaped: bool,
    nul: bool,
}

impl<'a> Scanner<'a> {
    /// Starts at the beginning of a text.
    pub(super) fn new(text: &'a str, depth_max: usize) -> Self {
        Self {
            text,
            at: 0,
            depth_max,
            keys: Vec::with_capacity(KEYS_COMPARED),
            values: Vec::with_capacity(KEYS_COMPARED),
            blemish: None,
        }
    }

    /// Reads the whole text as one document.
    pub(super) fn document(mut self) -> Result<Document<'a>, NotJson> {
        self.blank();
        let start = self.at;
        let first = self.peek();
        if first.is_none() {
            return Err(self.error("nothing: the document is empty"));
        }
        self.value(0)?;
        let end = self.at;
        self.blank();
        if self.peek().is_some() {
            return Err(self.error("something after the end of the document"));
        }
        let (keys, values) = (self.keys, self.values);
        let top = match first {
            Some(b'{') => Top::Object(Object::new(keys, values)),
            Some(b'[') => Top::Array(values),
            _ => Top::Scalar(self.text.get(start..end).unwrap_or_default()),
        };
        Ok(Document {
            top,
            blemish: self.blemish,
        })
    }

    fn error(&self, what: &'static str) -> NotJson {
        NotJson { what, at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn blank(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), NotJson> {
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => {
                if self.string()?.nul {
                    let field = self.keys.last().map(|key| key.to_string());
                    self.blemish.get_or_insert(Blemish::Nul(field));
                }
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn deeper(&self, depth: usize) -> Result<(), NotJson> {
        if depth > self.depth_max {
            return Err(self.error("nested deeper than 64 levels"));
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), NotJson> {
        self.deeper(depth)?;
        self.at += 1;
        let first = self.keys.len();
        self.blank();
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            self.blank();
            self.key()?;
            self.blank();
            if !self.eat(b':') {
                return Err(self.error("no colon after a key"));
            }
            self.member(depth)?;
            if self.eat(b'}') {
                break;
            }
            if !self.eat(b',') {
                return Err(self.error("neither a comma nor the end of an object"));
            }
        }
        self.close(first, depth);
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), NotJson> {
        self.deeper(depth)?;
        self.at += 1;
        self.blank();
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            self.member(depth)?;
            if self.eat(b']') {
                return Ok(());
            }
            if !self.eat(b',') {
                return Err(self.error("neither a comma nor the end of an array"));
            }
        }
    }

    /// A value with the blanks around it; at the top level it is kept.
    fn member(&mut self, depth: usize) -> Result<(), NotJson> {
        self.blank();
        let start = self.at;
        self.value(depth)?;
        if depth == 1 {
            let json = self.text.get(start..self.at).unwrap_or_default();
            self.values.push(json);
        }
        self.blank();
        Ok(())
    }

    fn key(&mut self) -> Result<(), NotJson> {
        if self.peek() != Some(b'"') {
            return Err(self.error("no key where one must stand"));
        }
        let start = self.at;
        let piece = self.string()?;
        let key = if piece.escaped {
            let json = self.text.get(start..self.at).and_then(text);
            json.ok_or_else(|| self.error("a key that can't be read"))?
        } else {
            Cow::Borrowed(piece.inner)
        };
        if piece.nul {
            let field = Some(key.to_string());
            self.blemish.get_or_insert(Blemish::Nul(field));
        }
        self.keys.push(key);
        Ok(())
    }

    /// Looks for a key that stands twice and forgets the keys of this object.
    fn close(&mut self, first: usize, depth: usize) {
        let keys = self.keys.get(first..).unwrap_or_default();
        if let Some(key) = twice(keys) {
            let key = key.to_owned();
            self.blemish.get_or_insert(Blemish::DuplicateKey(key));
        }
        if depth > 1 {
            self.keys.truncate(first);
        }
    }

    fn string(&mut self) -> Result<Piece<'a>, NotJson> {
        self.at += 1;
        let start = self.at;
        let (mut escaped, mut nul) = (false, false);
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    nul |= self.escape()? == Some(0);
                }
                Some(0..0x20) => return Err(self.error("a control character inside a text")),
                Some(_) => self.at += 1,
                None => return Err(self.error("a text without an end")),
            }
        }
        let inner = self.text.get(start..self.at).unwrap_or_default();
        self.at += 1;
        Ok(Piece {
            inner,
            escaped,
            nul,
        })
    }

    /// Reads one escape; says which code unit a `\u` spells.
    fn escape(&mut self) -> Result<Option<u16>, NotJson> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(None)
            }
            Some(b'u') => self.unicode().map(Some),
            _ => Err(self.error("an unknown escape inside a text")),
        }
    }

    /// Reads what follows the backslash of a `\u`, both halves of a pair.
    fn unicode(&mut self) -> Result<u16, NotJson> {
        let unit = self.code_unit()?;
        match unit {
            0xD800..0xDC00 => {
                let low = if self.eat(b'\\') && self.peek() == Some(b'u') {
                    self.code_unit()?
                } else {
                    0
                };
                if !(0xDC00..0xE000).contains(&low) {
                    return Err(self.error("half of a surrogate pair"));
                }
            }
            0xDC00..0xE000 => return Err(self.error("half of a surrogate pair")),
            _ => {}
        }
        Ok(unit)
    }

    fn code_unit(&mut self) -> Result<u16, NotJson> {
        let digits = self.text.as_bytes().get(self.at + 1..self.at + 5);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let unit = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u16::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.error("an escape without its four digits"))?;
        self.at += 5;
        Ok(unit)
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.error("no digit where one must stand"));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), NotJson> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), NotJson> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let word = ["true", "false", "null"]
            .into_iter()
            .find(|word| rest.starts_with(word.as_bytes()))
            .ok_or_else(|| self.error("no value where one must stand"))?;
        self.at += word.len();
        Ok(())
    }
}

/// A key that stands twice.
fn twice<'k>(keys: &'k [Cow<'_, str>]) -> Option<&'k str> {
    if keys.len() > KEYS_COMPARED {
        let mut seen = HashSet::with_capacity(keys.len());
        let mut names = keys.iter().map(AsRef::as_ref);
        return names.find(|name: &&str| !seen.insert(*name));
    }
    keys.iter()
        .enumerate()
        .find(|(index, key)| keys.iter().take(*index).any(|earlier| earlier == *key))
        .map(|(_, key)| key.as_ref())
}
