//! Which id and which source a message has.

use super::*;

fn check(body: &str, message_id: Option<&str>, expected: &str) {
    let arrival = Arrival {
        message_id,
        ..bare(body)
    };
    assert_eq!(told(&arrival, &queue()), expected, "{body} {message_id:?}");
}

#[test]
fn the_bodys_id_goes_before_the_message_id_and_that_before_a_derived_one() {
    let both = r#"{"event_id":"e","account_id":"1","amount":5,"version":3}"#;
    check(both, Some("m"), "native events/e: debit 5 of 1@3");
    let none = r#"{"event_id":null,"account_id":"1","amount":5,"version":3}"#;
    check(none, Some("m"), "native events/m: debit 5 of 1@3");
    check(none, None, "native events/1:v3 derived: debit 5 of 1@3");
    check(none, Some(""), "native events/1:v3 derived: debit 5 of 1@3");
}

#[test]
fn event_ids_are_texts_or_integers_of_1_to_255_bytes() {
    let id = |json: &str, expected: &str| {
        let body = format!(r#"{{"event_id":{json},"account_id":"1","amount":5}}"#);
        check(&body, None, expected);
    };
    id("77", "native events/77: debit 5 of 1");
    id("-77", "native events/-77: debit 5 of 1");
    id(
        "18446744073709551615",
        "native events/18446744073709551615: debit 5 of 1",
    );
    id("18446744073709551616", "invalid event_id range");
    id(r#""007 ä""#, "native events/007 ä: debit 5 of 1");
    id(r#""""#, "invalid event_id length");
    id("1.5", "invalid event_id type");
    id("1e3", "invalid event_id type");
    id("{}", "invalid event_id type");
    let long = "ä".repeat(127);
    id(
        &format!(r#""{long}x""#),
        &format!("native events/{long}x: debit 5 of 1"),
    );
    id(&format!(r#""{long}xx""#), "invalid event_id length");
}

#[test]
fn a_message_id_counts_only_where_it_is_needed() {
    let long = "m".repeat(256);
    let needed = r#"{"account_id":"1","amount":5,"version":1}"#;
    check(needed, Some(&long), "invalid message_id length");
    check(needed, Some("m\0"), "invalid message_id format");
    let named = r#"{"event_id":"e","account_id":"1","amount":5}"#;
    check(named, Some(&long), "native events/e: debit 5 of 1");
}

#[test]
fn a_bodys_source_counts_over_http_only() {
    let check = |source: &str, origin: &Origin, expected: &str| {
        let body = format!(r#"{{"source":{source},"event_id":"e","account_id":"1","amount":5}}"#);
        assert_eq!(told(&bare(&body), origin), expected, "{body}");
    };
    check(r#""shop""#, &queue(), "native events/e: debit 5 of 1");
    check(r#""onceledger""#, &queue(), "native events/e: debit 5 of 1");
    check("17", &queue(), "native events/e: debit 5 of 1");
    check(r#""shop""#, &http(), "native shop/e: debit 5 of 1");
    check("null", &http(), "native http/e: debit 5 of 1");
    check(r#""""#, &http(), "invalid source length");
    check("17", &http(), "invalid source type");
    check(r#""onceledger.x""#, &http(), "invalid source reserved");
}

#[test]
fn a_scope_stands_before_the_source() {
    let scoped = |source: &str, scope: &str| Origin {
        source: source.into(),
        scope: Some(scope.into()),
        ..http()
    };
    let check = |body: &str, origin: &Origin, expected: &str| {
        assert_eq!(told(&bare(body), origin), expected, "{body}");
    };
    let plain = r#"{"event_id":"e","account_id":"1","amount":5}"#;
    let fees = scoped("orders", "fees");
    check(plain, &fees, "native fees/orders/e: debit 5 of 1");
    let own = r#"{"source":"onceledger","event_id":"e","account_id":"1","amount":5}"#;
    check(own, &fees, "invalid source reserved");
    let long = scoped("orders", &"s".repeat(249));
    check(plain, &long, "invalid source length");
}
