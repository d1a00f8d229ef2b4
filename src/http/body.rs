//! The body of a request: its media type, its size, its bytes.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
};
use futures_util::StreamExt;

use super::problem::Problem;

/// How much of a body that is too large is still read, so that its sender gets
/// to read the answer instead of a broken connection.
const DRAINED_MAX: usize = 64 << 20;

/// How long at most that takes.
const DRAINED_FOR: Duration = Duration::from_secs(10);

/// The media type of a body, lower case and without parameters.
///
/// # Errors
/// 415, where it is none of those that are taken.
pub(super) fn media_type(headers: &HeaderMap, taken: &[&str]) -> Result<String, Problem> {
    let unsupported = |detail: String| {
        Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            detail,
        )
    };
    if headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(unsupported(
            "The body must not be compressed: leave Content-Encoding out.".to_owned(),
        ));
    }
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if taken.contains(&essence.as_str()) {
        return Ok(essence);
    }
    Err(unsupported(format!(
        "The body must come with Content-Type: {}.",
        taken.join(" or ")
    )))
}

/// Reads a body whole.
///
/// # Errors
/// 413 where it is too large, 400 where it breaks off.
pub(super) async fn bytes(body: Body, body_bytes_max: usize) -> Result<Bytes, Problem> {
    let mut stream = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| {
            Problem::new(
                StatusCode::BAD_REQUEST,
                "incomplete_body",
                "The body broke off before its end.",
            )
        })?;
        if whole.len() + chunk.len() > body_bytes_max {
            drop(whole);
            drain(stream).await;
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                format!("The body has more than {body_bytes_max} bytes. Send it in parts."),
            )
            .at("body", "max_bytes")
            .with("bytes_max", body_bytes_max));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

async fn drain(mut stream: axum::body::BodyDataStream) {
    let mut left = DRAINED_MAX;
    let reading = async {
        while let Some(Ok(chunk)) = stream.next().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                return;
            }
        }
    };
    // Either way the answer is the same.
    let _ = tokio::time::timeout(DRAINED_FOR, reading).await;
}
