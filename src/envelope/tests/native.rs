//! The native form and its fields.

use super::*;
use crate::domain::Timestamp;

fn check(body: &str, expected: &str) {
    assert_eq!(told(&bare(body), &queue()), expected, "{body}");
}

/// One field beside an account and an amount that are fine.
fn check_field(field: &str, expected: &str) {
    let body = format!(r#"{{"event_id":"e","account_id":"1","amount":5,{field}}}"#);
    check(&body, expected);
}

const FINE: &str = "native events/e: debit 5 of 1";

#[test]
fn the_full_form_is_read_with_every_field() {
    let body = r#"{"event_id":"pay-1001","type":"credit","account_id":"1","amount":500,
        "currency":"CNY","version":1,"reference":"order-77",
        "occurred_at":"2026-11-30T09:00:00.5+01:00","metadata":{ "k": [1] }}"#;
    let event = read(&bare(body), &queue()).unwrap().event;
    assert_eq!(&*event.identity.tenant, "default");
    assert_eq!(&*event.identity.source, "events");
    assert_eq!(&*event.identity.event_id, "pay-1001");
    assert!(!event.derived);
    assert_eq!(&*event.content.account_id, "1");
    assert_eq!(event.content.kind, Kind::Credit);
    assert_eq!(event.content.amount, 500);
    assert_eq!(event.content.currency.as_ref().unwrap().as_str(), "CNY");
    assert_eq!(event.content.expected_version, Some(1));
    assert_eq!(event.reference.as_deref(), Some("order-77"));
    let at = Timestamp::parse("2026-11-30T08:00:00.5Z");
    assert_eq!(event.occurred_at, at);
    assert_eq!(event.metadata.as_deref(), Some(r#"{ "k": [1] }"#));
}

#[test]
fn the_bare_form_derives_its_identity_from_account_and_version() {
    check(
        r#"{"id":1,"money":500,"version":1}"#,
        "native events/1:v1 derived: debit 500 of 1@1",
    );
}

#[test]
fn other_names_serve_only_where_the_proper_one_is_absent() {
    check(
        r#"{"event_id":"e","account_id":"a","id":"b","amount":1,"money":2}"#,
        "native events/e: debit 1 of a",
    );
    check(
        r#"{"event_id":"e","account_id":null,"id":"b","amount":1}"#,
        "invalid account_id required",
    );
    check(
        r#"{"event_id":"e","id":"b","amount":null,"money":2}"#,
        "invalid amount required",
    );
    check(
        r#"{"event_id":"e","id":"b","money":0}"#,
        "invalid money range",
    );
}

#[test]
fn what_is_required_is_named_where_it_is_missing() {
    check(
        r#"{"event_id":"e","amount":1}"#,
        "invalid account_id required",
    );
    check(
        r#"{"event_id":"e","account_id":1}"#,
        "invalid amount required",
    );
    check(
        r#"{"account_id":"1","amount":10}"#,
        "invalid event_id required",
    );
    check("{}", "invalid account_id required");
}

#[test]
fn amounts_are_read_exactly_or_refused() {
    let amount = |json: &str, expected: &str| {
        let body = format!(r#"{{"event_id":"e","account_id":"1","amount":{json}}}"#);
        check(&body, expected);
    };
    amount("5", FINE);
    amount(r#""5""#, FINE);
    amount(r#""\u0035""#, FINE);
    let most = "native events/e: debit 9223372036854775807 of 1";
    amount("9223372036854775807", most);
    amount(r#""9223372036854775807""#, most);
    let odd = "native events/e: debit 9007199254740993 of 1";
    amount("9007199254740993", odd);
    for json in ["0", "-5", r#""-5""#, "9223372036854775808", r#""0""#] {
        amount(json, "invalid amount range");
    }
    for json in [
        "1.5",
        "1.0",
        "1e3",
        "-0",
        "true",
        "[]",
        "{}",
        r#""""#,
        r#"" 1""#,
        r#""+1""#,
        r#""01""#,
        r#""1.5""#,
        r#""\"5\"""#,
        "1e999999",
    ] {
        amount(json, "invalid amount type");
    }
    amount("null", "invalid amount required");
    amount("01", "undecodable - -");
}

#[test]
fn versions_are_positive_integers() {
    check_field(r#""version":7"#, "native events/e: debit 5 of 1@7");
    check_field(r#""version":"7""#, "native events/e: debit 5 of 1@7");
    check_field(r#""version":null"#, FINE);
    check_field(r#""version":0"#, "invalid version range");
    check_field(r#""version":-1"#, "invalid version range");
    check_field(r#""version":1.0"#, "invalid version type");
}

#[test]
fn account_ids_are_plain_texts_or_integers_from_zero() {
    let account = |json: &str, expected: &str| {
        let body = format!(r#"{{"event_id":"e","account_id":{json},"amount":5}}"#);
        check(&body, expected);
    };
    account("1", FINE);
    account(r#""1""#, FINE);
    account("0", "native events/e: debit 5 of 0");
    account(
        "18446744073709551615",
        "native events/e: debit 5 of 18446744073709551615",
    );
    account("18446744073709551616", "invalid account_id range");
    account("-1", "invalid account_id range");
    account(r#""-1""#, "native events/e: debit 5 of -1");
    account("1.0", "invalid account_id type");
    account("-0", "invalid account_id type");
    account("true", "invalid account_id type");
    account(r#""""#, "invalid account_id length");
    account(r#""a b""#, "invalid account_id format");
    account(r#""..""#, "invalid account_id format");
    let long = format!(r#""{}""#, "x".repeat(129));
    account(&long, "invalid account_id length");
}

#[test]
fn the_direction_is_exact_in_the_body() {
    check_field(r#""type":"debit""#, FINE);
    check_field(r#""type":"credit""#, "native events/e: credit 5 of 1");
    check_field(r#""type":null"#, FINE);
    for json in [r#""Debit""#, r#""opening""#, r#""a.credit""#, r#""""#] {
        check_field(&format!(r#""type":{json}"#), "invalid type unknown");
    }
    check_field(r#""type":1"#, "invalid type type");
}

#[test]
fn the_queue_says_the_direction_where_nothing_else_does() {
    let origin = Origin {
        kind: Some(Kind::Credit),
        ..queue()
    };
    let body = r#"{"event_id":"e","account_id":"1","amount":5}"#;
    let credit = "native events/e: credit 5 of 1";
    assert_eq!(told(&bare(body), &origin), credit);
    let typed = |message_type| Arrival {
        message_type: Some(message_type),
        ..bare(body)
    };
    assert_eq!(told(&typed("shop.Debit"), &origin), FINE);
    assert_eq!(told(&typed("shop.order"), &origin), credit);
}

#[test]
fn optional_fields_are_checked_where_they_are_there() {
    check_field(r#""currency":"EUR""#, FINE);
    check_field(r#""currency":null"#, FINE);
    check_field(r#""currency":"eur""#, "invalid currency format");
    check_field(r#""currency":978"#, "invalid currency type");
    let reference = |length| format!(r#""reference":"{}""#, "r".repeat(length));
    check_field(&reference(255), FINE);
    check_field(&reference(256), "invalid reference length");
    check_field(r#""reference":77"#, "invalid reference type");
    check_field(r#""reference":null"#, FINE);
    check_field(r#""occurred_at":"2026-11-30T08:00:00Z""#, FINE);
    check_field(r#""occurred_at":null"#, FINE);
    for json in [r#""2026-11-30T08:00:00""#, r#""yesterday""#, r#""""#] {
        let field = format!(r#""occurred_at":{json}"#);
        check_field(&field, "invalid occurred_at format");
    }
    for text in [
        "9999-12-31T23:59:59-01:00",
        "0000-01-01T00:00:00+01:00",
        "2026-11-30x08:00:00Z",
        "2026-11-30T08:00:00+0100",
        "2026-11-30T08:00:00+99:99",
        "2026-02-29T08:00:00Z",
    ] {
        let field = format!(r#""occurred_at":"{text}""#);
        check_field(&field, "invalid occurred_at format");
    }
    check_field(r#""occurred_at":"9999-12-31T23:59:59Z""#, FINE);
    check_field(r#""occurred_at":"2026-11-30 08:00:00z""#, FINE);
    check_field(r#""occurred_at":1764489600"#, "invalid occurred_at type");
    check_field(r#""metadata":{}"#, FINE);
    check_field(r#""metadata":null"#, FINE);
    for json in ["[]", r#""text""#, "1", "false"] {
        check_field(&format!(r#""metadata":{json}"#), "invalid metadata type");
    }
    check_field(r#""anything":[{"else":1e999}]"#, FINE);
}

#[test]
fn escapes_are_read_as_what_they_spell() {
    check(
        r#"{"event\u005fid":"\u0065\ud83d\ude00","account_id":"\u0031","amount":5}"#,
        "native events/e😀: debit 5 of 1",
    );
}
