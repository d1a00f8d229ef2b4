//! Envelopes with an id and a message inside.

use super::*;

fn check(body: &str, expected: &str) {
    assert_eq!(told(&bare(body), &queue()), expected, "{body}");
}

#[test]
fn the_envelopes_id_and_the_body_inside_it() {
    check(
        r#"{"EventId":"env-1","Message":{"account_id":"s3","amount":250,"version":1}}"#,
        "envelope events/env-1: debit 250 of s3@1",
    );
    check(
        r#"{"Id":"xi","Message":{"id":17,"money":1,"version":9}}"#,
        "envelope events/xi: debit 1 of 17@9",
    );
    check(
        r#"{"Id":17,"EventId":"e","Message":{"id":1,"money":1}}"#,
        "envelope events/e: debit 1 of 1",
    );
    check(
        r#"{"Id":17,"EventId":null,"Message":{"id":1,"money":1}}"#,
        "envelope events/17: debit 1 of 1",
    );
}

#[test]
fn an_id_inside_goes_before_the_envelopes_and_that_before_the_transports() {
    let told = |body: &str| {
        let arrival = Arrival {
            message_id: Some("m"),
            ..bare(body)
        };
        told(&arrival, &queue())
    };
    let inside = r#"{"EventId":"o","Message":{"event_id":"i","account_id":"1","amount":5}}"#;
    assert_eq!(told(inside), "envelope events/i: debit 5 of 1");
    let outside = r#"{"EventId":"o","Message":{"account_id":"1","amount":5}}"#;
    assert_eq!(told(outside), "envelope events/o: debit 5 of 1");
    let null = r#"{"EventId":null,"Message":{"account_id":"1","amount":5}}"#;
    assert_eq!(told(null), "envelope events/m: debit 5 of 1");
    check(
        r#"{"EventId":null,"Message":{"account_id":"1","amount":5,"version":2}}"#,
        "envelope events/1:v2 derived: debit 5 of 1@2",
    );
    check(
        r#"{"EventId":{},"Message":{"account_id":"1","amount":5,"version":2}}"#,
        "invalid EventId type",
    );
}

#[test]
fn a_message_may_be_a_text_that_holds_an_object() {
    check(
        r#"{"Id":"e","Message":"{\"account_id\":\"1\",\"amount\":5}"}"#,
        "envelope events/e: debit 5 of 1",
    );
    check(r#"{"Id":"e","Message":"thanks"}"#, "invalid Message format");
    check(r#"{"Id":"e","Message":"\"{}\""}"#, "invalid Message type");
    check(r#"{"Id":"e","Message":7}"#, "invalid Message type");
    check(r#"{"Id":"e","Message":null}"#, "invalid Message required");
}

#[test]
fn the_envelopes_type_says_the_direction_where_the_body_does_not() {
    check(
        r#"{"Id":"e","Type":"wallet.Credit","Message":{"account_id":"1","amount":5}}"#,
        "envelope events/e: credit 5 of 1",
    );
    check(
        r#"{"Id":"e","Type":"credit","Message":{"account_id":"1","amount":5,"type":"debit"}}"#,
        "envelope events/e: debit 5 of 1",
    );
}

#[test]
fn a_message_without_an_id_beside_it_is_no_envelope() {
    check(
        r#"{"event_id":"e","account_id":"1","amount":5,"Message":"thanks"}"#,
        "native events/e: debit 5 of 1",
    );
}
