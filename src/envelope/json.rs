//! Exact JSON (RFC 8259), read in one pass that borrows from the bytes.
//!
//! What lives here: what a document is once it was read: its top level, with the
//! members as the text they came as, and what the ledger refuses of it. What
//! must not: anything that knows what an event is.

use std::{borrow::Cow, fmt};

use super::{flaw::Flaw, scanner::Scanner};

/// Most objects and arrays inside one another that are read.
pub(crate) const DEPTH_MAX: usize = 64;

/// A document that follows the grammar.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    /// What it is.
    pub(crate) top: Top<'a>,
    /// What the grammar allows and the ledger does not; the first of it.
    pub(crate) blemish: Option<Blemish>,
}

/// The top level of a document.
#[derive(Debug)]
pub(crate) enum Top<'a> {
    /// An object.
    Object(Object<'a>),
    /// An array: its elements as they came.
    Array(Vec<&'a str>),
    /// A text, number, flag or null, as it came.
    Scalar(&'a str),
}

/// What the grammar allows and the ledger does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blemish {
    /// This key stands twice in one object.
    DuplicateKey(String),
    /// U+0000 in this key, or in a text under it.
    Nul(Option<String>),
}

/// The members of an object: keys read, values as the JSON text they came as.
#[derive(Debug, Default)]
pub(crate) struct Object<'a> {
    keys: Vec<Cow<'a, str>>,
    values: Vec<Cow<'a, str>>,
}

/// Why and where bytes are no JSON document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotJson {
    /// What stands there.
    pub(crate) what: &'static str,
    /// How many bytes before it could be read.
    pub(crate) at: usize,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

impl From<Blemish> for Flaw {
    fn from(blemish: Blemish) -> Self {
        match blemish {
            Blemish::DuplicateKey(key) => Self::duplicate_key(&key),
            Blemish::Nul(field) => Self::nul(field.as_deref()),
        }
    }
}

impl<'a> Object<'a> {
    /// Keys with the values beside them.
    pub(crate) fn new(keys: Vec<Cow<'a, str>>, values: Vec<&'a str>) -> Self {
        let values = values.into_iter().map(Cow::Borrowed).collect();
        Self { keys, values }
    }

    /// The keys, in the order they came.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(AsRef::as_ref)
    }

    /// The JSON text of a member; null counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.given(name).filter(|json| *json != "null")
    }

    /// The JSON text of a member, null included.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        let index = self.keys.iter().position(|key| key == name)?;
        self.values.get(index).map(AsRef::as_ref)
    }

    /// The same, standing for itself.
    pub(crate) fn into_owned(self) -> Object<'static> {
        let own = |list: Vec<Cow<'_, str>>| {
            list.into_iter()
                .map(|text| Cow::Owned(text.into_owned()))
                .collect()
        };
        Object {
            keys: own(self.keys),
            values: own(self.values),
        }
    }
}

/// Reads the document that these bytes are.
pub(crate) fn parse(bytes: &[u8], depth_max: usize) -> Result<Document<'_>, NotJson> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(NotJson {
            what: "a byte order mark, which JSON must not begin with,",
            at: 0,
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| NotJson {
        what: "bytes that are not UTF-8",
        at: error.valid_up_to(),
    })?;
    parse_text(text, depth_max)
}

/// Reads the document that this text is.
pub(crate) fn parse_text(text: &str, depth_max: usize) -> Result<Document<'_>, NotJson> {
    Scanner::new(text, depth_max).document()
}

/// The text that a piece of JSON is; `None` where it is no string.
pub(crate) fn text(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}
