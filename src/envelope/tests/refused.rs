//! What is no event, and what is still known of it.

use super::*;

fn check(body: &[u8], expected: &str) {
    let arrival = Arrival {
        body,
        ..Arrival::default()
    };
    let letter = read(&arrival, &queue()).unwrap_err();
    assert_eq!(refused(&letter), expected, "{}", body.escape_ascii());
    assert!(!letter.message.is_empty());
    assert_eq!(letter.raw.body, body);
    assert_eq!(&*letter.raw.queue, "onceledger.events");
}

#[test]
fn what_is_no_json_document_is_undecodable() {
    let bodies: [&[u8]; 32] = [
        b"",
        b"  \n",
        b"{",
        b"}",
        b"{}}",
        b"{} {}",
        b"{\"a\":}",
        b"{\"a\" 1}",
        b"{\"a\":1,}",
        b"{a:1}",
        b"{'a':1}",
        b"[1,]",
        b"[1 2]",
        b"nul",
        b"NaN",
        b"-",
        b"+1",
        b"01",
        b"1.",
        b".5",
        b"1e",
        b"1e+",
        b"\"",
        b"\"\t\"",
        b"\"\\x\"",
        b"\"\\u12\"",
        b"\"\\u12g4\"",
        b"\xef\xbb\xbf{}",
        b"{\"a\":\"\xff\"}",
        b"\xff",
        b"{}\0",
        b"// x\n{}",
    ];
    for body in bodies {
        check(body, "undecodable - -");
    }
}

#[test]
fn half_a_surrogate_pair_is_undecodable_anywhere() {
    for text in [
        r"\ud800",
        r"\udc00",
        r"\ud800\u0041",
        r"\ud800\ud800",
        r"\ud800x",
        r"\uD83D\n",
    ] {
        check(format!(r#"{{"{text}":1}}"#).as_bytes(), "undecodable - -");
        check(format!(r#"{{"a":"{text}"}}"#).as_bytes(), "undecodable - -");
    }
}

#[test]
fn sixty_four_levels_are_read_and_no_more() {
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        format!(r#"{{"event_id":"e","account_id":"1","amount":5,"x":{open}{close}}}"#)
    };
    let fine = "native events/e: debit 5 of 1";
    assert_eq!(told(&bare(&nested(64)), &queue()), fine);
    check(nested(65).as_bytes(), "undecodable - -");
    check("[".repeat(60_000).as_bytes(), "undecodable - -");
    check("{\"a\":".repeat(10_000).as_bytes(), "undecodable - -");
}

#[test]
fn a_document_that_is_no_object_is_invalid() {
    for body in ["[]", "[{}]", "1", "\"{}\"", "null", " true "] {
        check(body.as_bytes(), "invalid - type");
    }
}

#[test]
fn a_key_that_stands_twice_is_invalid_at_any_level() {
    let check = |body: &str, expected: &str| check(body.as_bytes(), expected);
    check(
        r#"{"event_id":"e","account_id":"1","amount":5,"amount":5}"#,
        "invalid amount duplicate_key",
    );
    check(
        r#"{"event_id":"e","account_id":"1","amount":5,"metadata":{"a":[{"b":1,"b":2}]}}"#,
        "invalid b duplicate_key",
    );
    check(
        r#"{"amount":5,"\u0061mount":6}"#,
        "invalid amount duplicate_key",
    );
    let many: Vec<String> = (0..100).map(|n| format!(r#""k{n}":{{"k1":1}}"#)).collect();
    let body = format!(r#"{{{},"k7":1}}"#, many.join(","));
    check(&body, "invalid k7 duplicate_key");
    let fine = format!(r#"{{"id":1,"money":5,"version":1,{}}}"#, many.join(","));
    assert_eq!(
        told(&bare(&fine), &queue()),
        "native events/1:v1 derived: debit 5 of 1@1"
    );
    let long = "k".repeat(300);
    let letter = read(&bare(&format!(r#"{{"{long}":1,"{long}":2}}"#)), &queue()).unwrap_err();
    assert_eq!(letter.field.as_deref(), Some(&long[..255]));
}

#[test]
fn a_nul_in_any_text_is_invalid() {
    let check = |body: &str, expected: &str| check(body.as_bytes(), expected);
    check(
        r#"{"event_id":"e\u0000","account_id":"1","amount":5}"#,
        "invalid event_id format",
    );
    check(r#"{"x":[{"y":["\u0000"]}]}"#, "invalid y format");
    check(r#"{"x":[{"y":1},"\u0000"]}"#, "invalid x format");
    check(r#"{"a\u0000b":1}"#, r"invalid a\u0000b format");
    check(r#""\u0000""#, "invalid - format");
    check(r#"{"a":"\u0000"}}"#, "undecodable - -");
}

#[test]
fn an_event_over_the_size_limit_is_invalid_before_it_is_parsed() {
    let origin = Origin {
        event_bytes_max: 50,
        ..queue()
    };
    let body = |length: usize| {
        let event = r#"{"event_id":"e","account_id":"1","amount":5}"#;
        format!("{event}{}", " ".repeat(length - event.len()))
    };
    let fine = "native events/e: debit 5 of 1";
    assert_eq!(told(&bare(&body(50)), &origin), fine);
    assert_eq!(told(&bare(&body(51)), &origin), "invalid - max_bytes");
    let garbage = "x".repeat(51);
    assert_eq!(told(&bare(&garbage), &origin), "invalid - max_bytes");
}

/// What a refusal still knows: source, event id, account.
fn known(arrival: &Arrival<'_>) -> String {
    let letter = read(arrival, &queue()).unwrap_err();
    let [source, event_id, account_id] = [letter.source, letter.event_id, letter.account_id]
        .map(|text| text.map_or("-".to_owned(), |text| text.to_string()));
    format!("{source} {event_id} {account_id}")
}

#[test]
fn a_refusal_names_the_event_as_far_as_it_could_be_read() {
    let check = |body: &str, expected: &str| assert_eq!(known(&bare(body)), expected, "{body}");
    check(
        r#"{"event_id":"neg","account_id":"m5","amount":-5}"#,
        "events neg m5",
    );
    check(
        r#"{"event_id":"e","account_id":"a b","amount":5}"#,
        "events e -",
    );
    check(r#"{"account_id":"s4","amount":10}"#, "events - s4");
    check(r#"{"id":1,"money":0,"version":2}"#, "events 1:v2 1");
    check(
        r#"{"event_id":"e","account_id":"1","amount":5,"amount":6}"#,
        "events e 1",
    );
    check(
        r#"{"event_id":"e","event_id":"f","account_id":"1","amount":5}"#,
        "events - -",
    );
    check(
        r#"{"event_id":"e\u0000","account_id":"1","amount":5}"#,
        "events - 1",
    );
    check(r#"{"event_id":"e""#, "events - -");
    check(
        r#"{"specversion":"1.0","id":"i","source":"s","data":{"account_id":"1"}}"#,
        "s i 1",
    );
    check(
        r#"{"specversion":"1.0","id":"i","source":7,"data":{"account_id":"1","amount":1}}"#,
        "- i 1",
    );
    check(
        r#"{"specversion":"1.0","id":"i","source":"s","data":"x"}"#,
        "s i -",
    );
    check(r#"{"EventId":"o","Message":"x"}"#, "events o -");
}

#[test]
fn a_flaw_inside_an_envelope_does_not_hide_whose_it_is() {
    let check = |body: &str, expected: &str| {
        check(body.as_bytes(), "invalid amount duplicate_key");
        assert_eq!(known(&bare(body)), expected, "{body}");
    };
    check(
        r#"{"EventId":"o","Message":{"account_id":"1","amount":5,"amount":6}}"#,
        "events o 1",
    );
    check(
        r#"{"specversion":"1.0","id":"i","source":"s","data":{"id":"1","amount":5,"amount":6}}"#,
        "s i 1",
    );
    check(
        r#"{"EventId":"o","Message":"{\"amount\":5,\"amount\":6}"}"#,
        "events o -",
    );
}

#[test]
fn a_binary_cloudevent_is_named_even_where_its_body_is_broken() {
    let arrival = Arrival {
        headers: vec![
            header("ce-specversion", "1.0"),
            header("ce-id", "i"),
            header("ce-source", "s"),
        ],
        ..bare("{")
    };
    assert_eq!(known(&arrival), "s i -");
    assert_eq!(told(&arrival, &queue()), "undecodable - -");
}
