//! A whole history as one stream: CSV (RFC 4180) or NDJSON.
//!
//! What lives here: which form is wanted, and the stream of pages. What must not:
//! what an entry says ([`super::entry_json`]). Between two pages nothing of the database
//! is held, and the next page is read when the reader has taken the one before: a
//! slow reader costs neither memory nor a connection.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::{Stream, stream};
use headers_accept::Accept;
use mediatype::{
    MediaType, Name,
    names::{self, APPLICATION, TEXT},
};

use super::{Api, entry_json::EntryJson};
use crate::{
    domain::{Account, AccountKey, Record},
    store::{Direction, StoreError},
};

/// Entries that are read at once. The metadata of each may be as large as an event.
const PAGE: i64 = 250;

const JSON: MediaType<'_> = MediaType::new(APPLICATION, names::JSON);
const NDJSON: MediaType<'_> = MediaType::new(APPLICATION, Name::new_unchecked("x-ndjson"));
const CSV: MediaType<'_> = MediaType::new(TEXT, names::CSV);

/// How a history is written down as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A line of column names, then a line an entry.
    Csv,
    /// A line of JSON an entry.
    Ndjson,
}

impl Form {
    /// What `Accept` asks for (RFC 9110 section 12.5.1); `None`: pages of JSON, which
    /// are also the answer to what can't be had.
    pub(super) fn wanted(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(header::ACCEPT).iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let ranges: Vec<String> = lines.flat_map(|line| line.split(',')).map(plain).collect();
        let accept: Accept = ranges.join(", ").parse().ok()?;
        match accept.negotiate(&[JSON, NDJSON, CSV])? {
            wanted if *wanted == CSV => Some(Self::Csv),
            wanted if *wanted == NDJSON => Some(Self::Ndjson),
            _ => None,
        }
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Ndjson => "application/x-ndjson",
        })
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }

    fn heading(self) -> Vec<u8> {
        match self {
            Self::Csv => line(EntryJson::COLUMNS.map(str::to_owned)),
            Self::Ndjson => Vec::new(),
        }
    }

    fn written(self, entry: &EntryJson) -> Vec<u8> {
        match self {
            Self::Csv => line(entry.cells()),
            Self::Ndjson => {
                let mut json = serde_json::to_vec(entry).unwrap_or_default();
                json.push(b'\n');
                json
            }
        }
    }
}

/// Where a stream stands.
struct Export {
    api: Api,
    key: AccountKey,
    account: Account,
    direction: Direction,
    form: Form,
    /// The version of the last entry that was written.
    after: Option<i64>,
    begun: bool,
    done: bool,
}

/// Answers with all entries up to the account's version now: what is applied while
/// they are read is not among them.
pub(super) fn export(
    api: Api,
    key: AccountKey,
    account: Account,
    direction: Direction,
    form: Form,
) -> Response {
    // An id has no character that a quoted string or a file's name must not have,
    // but for the colon.
    let name = key.id.replace(':', "_");
    let file = format!("attachment; filename=\"{name}.{}\"", form.ending());
    let headers: [(HeaderName, HeaderValue); 2] = [
        (header::CONTENT_TYPE, form.content_type()),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::try_from(file).unwrap_or(HeaderValue::from_static("attachment")),
        ),
    ];
    let export = Export {
        after: match direction {
            Direction::Ascending => None,
            Direction::Descending => account.version.checked_add(1),
        },
        api,
        key,
        account,
        direction,
        form,
        begun: false,
        done: false,
    };
    (headers, Body::from_stream(export.pages())).into_response()
}

impl Export {
    /// One part a page. An error breaks the transfer off, so that nobody takes half a
    /// history for the whole.
    fn pages(self) -> impl Stream<Item = Result<Bytes, StoreError>> {
        stream::try_unfold(self, |mut export| async move {
            if export.done {
                return Ok(None);
            }
            let part = export.next().await.inspect_err(|error| {
                let account = &*export.key.id;
                tracing::warn!(account, %error, "the export of a history broke off");
            })?;
            Ok(Some((part, export)))
        })
    }

    async fn next(&mut self) -> Result<Bytes, StoreError> {
        let mut part = match std::mem::replace(&mut self.begun, true) {
            false => self.form.heading(),
            true => Vec::new(),
        };
        let store = &self.api.store;
        let read = store.history(&self.key, self.after, self.direction, PAGE);
        let records = read.await?;
        self.done = i64::try_from(records.len()).unwrap_or(PAGE) < PAGE;
        let version = |record: &Record| record.version.unwrap_or_default();
        let mut records = records;
        if let Some(end) = records
            .iter()
            .position(|it| version(it) > self.account.version)
        {
            self.done = true;
            records.truncate(end);
        }
        self.after = records.last().map(version).or(self.after);
        for entry in EntryJson::all(&self.api, &self.account, records).await? {
            part.extend(self.form.written(&entry));
        }
        Ok(part.into())
    }
}

/// A media range with its weight alone: whoever asks for `text/csv; charset=utf-8` gets
/// it, and a parameter must not make another form the better match.
fn plain(range: &str) -> String {
    let mut parts = range.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = parts.find(|part| part.starts_with("q=") || part.starts_with("Q="));
    match weight {
        Some(weight) => format!("{essence};{}", weight.to_ascii_lowercase()),
        None => essence,
    }
}

/// A line of CSV.
fn line<const N: usize>(cells: [String; N]) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    writer.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_what_is_accepted_most() {
        let check = |accept: &str, expected| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::try_from(accept).unwrap());
            assert_eq!(Form::wanted(&headers), expected, "{accept}");
        };
        assert_eq!(Form::wanted(&HeaderMap::new()), None);
        check("*/*", None);
        check("application/json", None);
        check("text/csv", Some(Form::Csv));
        check("TEXT/CSV; header=present", Some(Form::Csv));
        check("text/csv;charset=utf-8", Some(Form::Csv));
        check(
            "text/csv;charset=utf-8;Q=0.2, application/json;q=0.1",
            Some(Form::Csv),
        );
        check("application/x-ndjson", Some(Form::Ndjson));
        check("text/csv;q=0.5, application/x-ndjson", Some(Form::Ndjson));
        check("text/csv, */*;q=0.1", Some(Form::Csv));
        check("text/*", Some(Form::Csv));
        check("application/json;q=0.9, text/csv;q=0.8", None);
        check("text/html,application/xhtml+xml,*/*;q=0.8", None);
        check("image/png", None);
        check("nonsense", None);
    }
}
