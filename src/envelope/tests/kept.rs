//! What is kept of a message, and reading it again.

use super::*;

const BODY: &str = r#"{"event_id":"e","account_id":"1","amount":-5}"#;

fn raw(arrival: &Arrival<'_>) -> Arc<Raw> {
    read(arrival, &queue()).unwrap_err().raw
}

fn full() -> Arrival<'static> {
    Arrival {
        content_type: Some("application/json"),
        message_id: Some("m\"1"),
        message_type: Some("t"),
        headers: vec![
            header("cloudEvents:id", "i;\u{0}"),
            header("cloudEvents:source", "s"),
            header("cap-msg-id", "77"),
            header("traceparent", "00-1"),
            ("x-count".to_owned(), Header::Integer(-3)),
            ("x-flag".to_owned(), Header::Flag(true)),
            ("x-table".to_owned(), Header::Unreadable),
        ],
        ..bare(BODY)
    }
}

#[test]
fn headers_and_marks_are_kept_as_text_without_a_nul() {
    let raw = raw(&full());
    let expected = concat!(
        r#"{"content_type":"application/json","message_id":"m\"1","type":"t","headers":{"#,
        r#""cloudEvents:id":"i;\u0000","cloudEvents:source":"s","cap-msg-id":"77","#,
        r#""traceparent":"00-1","x-count":-3,"x-flag":true,"x-table":null}}"#,
    );
    assert_eq!(&*raw.headers, expected);
    let expected = r#"message_id="m\"1";type="t";ce-id="i;\u0000";ce-source="s";cap-msg-id="77";"#;
    assert_eq!(&*raw.marks, expected);
    assert_eq!(raw.body, BODY.as_bytes());
}

#[test]
fn a_message_without_headers_keeps_an_empty_object() {
    let raw = raw(&bare(BODY));
    assert_eq!(&*raw.headers, "{}");
    assert_eq!(&*raw.marks, "");
}

#[test]
fn other_trace_headers_leave_the_marks_as_they_are() {
    let mut other = full();
    other.headers.retain(|(name, _)| name != "traceparent");
    other.headers.push(header("traceparent", "00-2"));
    other.headers.push(header("x-delivery-count", "3"));
    assert_eq!(raw(&other).marks, raw(&full()).marks);
    other.headers.push(header("ID", "7"));
    assert_ne!(raw(&other).marks, raw(&full()).marks);
}

#[test]
fn of_a_header_that_stands_twice_the_first_is_kept() {
    let twice = Arrival {
        headers: vec![header("a", "1"), header("a", "2")],
        ..bare(BODY)
    };
    assert_eq!(&*raw(&twice).headers, r#"{"headers":{"a":"1"}}"#);
}

#[test]
fn a_kept_message_is_read_again_as_the_same() {
    let first = read(&full(), &queue()).unwrap_err();
    let kept = Kept::of(&first.raw);
    let again = read(&kept.arrival(&first.raw.body), &queue()).unwrap_err();
    let headers = |raw: &Raw| -> serde_json::Value { serde_json::from_str(&raw.headers).unwrap() };
    assert_eq!(headers(&again.raw), headers(&first.raw));
    assert_eq!(refused(&again), refused(&first));
    assert_eq!(Kept::of(&Raw::default()), Kept::default());
    let odd = Raw {
        headers: r#"{"content_type":5,"headers":[]}"#.into(),
        ..Raw::default()
    };
    assert_eq!(Kept::of(&odd), Kept::default());
}
