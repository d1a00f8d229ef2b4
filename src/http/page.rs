//! Pages of lists: `limit`, and a cursor that carries everything that made the
//! page, so that a cursor alone goes on where it stopped.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use validator::Validate;

use super::{
    path::shown,
    problem::Problem,
    query::{Fields, integer},
};

/// How a page was asked for: its size, where it begins, and the filters.
#[derive(Clone, Debug, PartialEq, Eq, Validate)]
pub(super) struct PageAsk {
    /// The list, with what its path names.
    list: String,
    /// Most items on the page.
    #[validate(range(min = 1, max = 500, message = "limit must be from 1 to 500."))]
    pub(super) limit: i64,
    /// The filters as they were written, by name.
    filters: BTreeMap<String, String>,
    /// Where the page before ended.
    after: Option<String>,
}

/// The items of a page when none says how many.
const LIMIT_DEFAULT: i64 = 50;

/// Changes when cursors of before can't be read any more.
const CURSOR_FORM: u8 = 1;

/// What a cursor says, once decoded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    form: u8,
    list: String,
    filters: BTreeMap<String, String>,
    limit: i64,
    after: String,
}

/// A page of a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Page<T> {
    /// The items, at most `limit` of them.
    #[schema(max_items = 500)]
    pub(super) items: Vec<T>,
    /// Give it as `cursor` to get the next page; null at the end.
    #[schema(required, max_length = 4096, pattern = "^[A-Za-z0-9_-]+$")]
    pub(super) next_cursor: Option<String>,
}

impl PageAsk {
    /// Reads `limit`, `cursor` and the filters of a list. `defaults` are filters
    /// that hold where neither the query nor the cursor names them.
    ///
    /// # Errors
    /// 422, where one is wrong or a filter contradicts the cursor.
    pub(super) fn read(
        list: &str,
        mut fields: Fields,
        defaults: &[(&str, &str)],
    ) -> Result<Self, Problem> {
        let limit = fields
            .take("limit")
            .map(|text| integer("limit", &text, i64::MIN))
            .transpose()?;
        let cursor = fields
            .take("cursor")
            .map(|text| decode(&text))
            .transpose()?;
        let mut filters = fields.0;
        if let Some(cursor) = &cursor {
            agree(list, &filters, cursor)?;
            filters = cursor.filters.clone();
        }
        for (name, value) in defaults {
            filters
                .entry((*name).to_owned())
                .or_insert_with(|| (*value).to_owned());
        }
        let ask = Self {
            list: list.to_owned(),
            limit: limit
                .or(cursor.as_ref().map(|cursor| cursor.limit))
                .unwrap_or(LIMIT_DEFAULT),
            filters,
            after: cursor.map(|cursor| cursor.after),
        };
        ask.validate().map_err(|errors| out_of_bounds(&errors))?;
        Ok(ask)
    }

    /// A filter's text, where one is set.
    #[must_use]
    pub(super) fn filter(&self, name: &str) -> Option<&str> {
        self.filters.get(name).map(String::as_str)
    }

    /// A filter whose values are a closed list.
    ///
    /// # Errors
    /// 422, where its text is none of them.
    pub(super) fn choice<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.checked(name, |text| text.parse().ok())
    }

    /// A filter with its own way of being read.
    ///
    /// # Errors
    /// 422, where its text can't be one.
    pub(super) fn checked<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.filter(name) else {
            return Ok(None);
        };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(Problem::invalid(
                name,
                "format",
                format!("{} is nothing that {name} can be.", shown(text)),
            )),
        }
    }

    /// Where the page before ended, read by its kind.
    ///
    /// # Errors
    /// 422, where the cursor was tampered with.
    pub(super) fn after<T: std::str::FromStr>(&self) -> Result<Option<T>, Problem> {
        self.after
            .as_deref()
            .map(|text| text.parse().map_err(|_| garbage()))
            .transpose()
    }

    /// How many rows to read: one more than the page holds tells whether it is
    /// the last.
    #[must_use]
    pub(super) fn rows(&self) -> i64 {
        self.limit + 1
    }

    /// Makes the page of the rows that were read; `place` says where a row stands.
    pub(super) fn page<R, T>(
        &self,
        mut rows: Vec<R>,
        place: impl Fn(&R) -> String,
        item: impl FnMut(R) -> T,
    ) -> Page<T> {
        let size = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = rows.len() > size;
        rows.truncate(size);
        let next_cursor = rows
            .last()
            .filter(|_| more)
            .map(|row| self.cursor(place(row)));
        Page {
            items: rows.into_iter().map(item).collect(),
            next_cursor,
        }
    }

    /// Makes the page of items behind which there may be more, from a place on.
    pub(super) fn page_until<T>(&self, items: Vec<T>, more: Option<i64>) -> Page<T> {
        Page {
            items,
            next_cursor: more.map(|place| self.cursor(place.to_string())),
        }
    }

    fn cursor(&self, after: String) -> String {
        let cursor = Cursor {
            form: CURSOR_FORM,
            list: self.list.clone(),
            filters: self.filters.clone(),
            limit: self.limit,
            after,
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default())
    }
}

fn decode(text: &str) -> Result<Cursor, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| garbage())?;
    let cursor: Cursor = serde_json::from_slice(&bytes).map_err(|_| garbage())?;
    // A text that no cursor holds must not reach a database.
    let plain = !cursor.after.contains('\0') && cursor.filters.values().all(|v| !v.contains('\0'));
    if cursor.form != CURSOR_FORM || !plain {
        return Err(garbage());
    }
    Ok(cursor)
}

fn agree(list: &str, given: &BTreeMap<String, String>, cursor: &Cursor) -> Result<(), Problem> {
    let contradicts = |detail: String| Problem::invalid("cursor", "conflict", detail);
    if cursor.list != list {
        return Err(contradicts(format!(
            "The cursor belongs to another list ({}).",
            cursor.list
        )));
    }
    for (name, value) in given {
        if cursor.filters.get(name) != Some(value) {
            return Err(contradicts(format!(
                "The cursor was made with another {name}. Leave {name} out (the cursor carries it), or leave the cursor out."
            )));
        }
    }
    Ok(())
}

fn garbage() -> Problem {
    Problem::invalid(
        "cursor",
        "format",
        "This is no cursor. Give the next_cursor of a page as it is, or leave it out to begin anew.",
    )
}

/// The first bound that does not hold.
pub(super) fn out_of_bounds(errors: &validator::ValidationErrors) -> Problem {
    let fields = errors.field_errors();
    let first = fields.iter().min_by_key(|(name, _)| name.to_string());
    let Some((field, error)) = first.and_then(|(name, all)| Some((name, all.first()?))) else {
        return Problem::invalid("body", "format", errors.to_string());
    };
    let rule = match error.code.as_ref() {
        "length" => "length",
        "range" => "range",
        _ => "format",
    };
    let detail = match &error.message {
        Some(message) => message.to_string(),
        None => format!("{field} is out of its bounds."),
    };
    Problem::invalid(field, rule, detail)
}
