//! Many events in one body: a JSON array, cut into its elements.
//!
//! What lives here: telling an array and its elements' exact bytes. What must
//! not: reading an element; [`super::read`] does, one by one.

use super::json::{DEPTH_MAX, NotJson, Top, parse};

/// Why a body is no JSON document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not readable as JSON: {0}")]
pub struct Undecodable(NotJson);

/// Whether the top level of a body is an array, by its first byte.
#[must_use]
pub fn is_array(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'[')
}

/// The elements of a top-level array, byte for byte. A document that is no array
/// is its own only element.
///
/// # Errors
/// [`Undecodable`] where [`super::read`] would say so of the whole, with one
/// level of depth granted to the array itself.
pub fn split_array(body: &[u8]) -> Result<Vec<&[u8]>, Undecodable> {
    let depth_max = DEPTH_MAX + usize::from(is_array(body));
    let document = parse(body, depth_max).map_err(Undecodable)?;
    Ok(match document.top {
        Top::Array(elements) => elements.into_iter().map(str::as_bytes).collect(),
        Top::Object(_) | Top::Scalar(_) => vec![body.trim_ascii()],
    })
}
