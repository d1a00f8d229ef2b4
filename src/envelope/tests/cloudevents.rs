//! CloudEvents, structured and binary.

use super::*;

const JSON: Option<&str> = Some("application/json");
const STRUCTURED: Option<&str> = Some("Application/CloudEvents+json; charset=utf-8");
const BODY: &str = r#"{"account_id":"1","amount":30,"version":1}"#;

fn check(content_type: Option<&str>, body: &str, expected: &str) {
    let arrival = Arrival {
        content_type,
        ..bare(body)
    };
    assert_eq!(told(&arrival, &queue()), expected, "{body}");
}

fn binary<'a>(headers: &[(&str, &str)], body: &'a str) -> Arrival<'a> {
    Arrival {
        headers: headers
            .iter()
            .map(|(name, text)| header(name, text))
            .collect(),
        ..bare(body)
    }
}

#[test]
fn a_structured_event_gives_identity_direction_and_time() {
    let body = r#"{"specversion":"1.0","id":"ce-1","source":"/shop/orders",
        "type":"com.example.Credit","time":"2026-11-30T08:00:00Z","subject":"9",
        "data":{"account_id":"1","amount":30,"version":1,"event_id":"other","source":"x"}}"#;
    let expected = "cloudevents-structured /shop/orders/ce-1: credit 30 of 1@1";
    check(STRUCTURED, body, expected);
    check(Some("text/plain"), body, expected);
    check(None, body, expected);
    let event = read(&bare(body), &queue()).unwrap().event;
    let at = event.occurred_at.unwrap().rfc3339();
    assert_eq!(at, "2026-11-30T08:00:00Z");
}

#[test]
fn the_bodys_time_and_direction_go_before_the_envelopes() {
    let body = r#"{"specversion":"1.0","id":"i","source":"s","type":"debit","time":"soon",
        "data":{"account_id":"1","amount":30,"type":"credit"}}"#;
    check(None, body, "cloudevents-structured s/i: credit 30 of 1");
    let body = r#"{"specversion":"1.0","id":"i","source":"s","time":"2026-11-30T08:00:00Z",
        "data":{"account_id":"1","amount":30,"occurred_at":"2025-01-01T00:00:00Z"}}"#;
    let event = read(&bare(body), &queue()).unwrap().event;
    let at = event.occurred_at.unwrap().rfc3339();
    assert_eq!(at, "2025-01-01T00:00:00Z");
}

#[test]
fn data_is_an_object_or_a_text_or_base64_that_holds_one() {
    let data = |members: &str, expected: &str| {
        let body = format!(r#"{{"specversion":"1.0","id":"i","source":"s",{members}}}"#);
        check(STRUCTURED, &body, expected);
    };
    let fine = "cloudevents-structured s/i: debit 30 of 1@1";
    data(&format!(r#""data":{BODY}"#), fine);
    let text = serde_json::Value::from(BODY);
    data(&format!(r#""data":{text}"#), fine);
    let coded = r#""data_base64":"eyJhY2NvdW50X2lkIjoiMSIsImFtb3VudCI6MzAsInZlcnNpb24iOjF9""#;
    data(coded, fine);
    data(&format!(r#""data":null,{coded}"#), fine);
    data(
        &format!(r#""data":{{}},{coded}"#),
        "invalid data_base64 conflict",
    );
    data(r#""data_base64":"{}""#, "invalid data_base64 format");
    data(r#""data_base64":"/w==""#, "invalid data_base64 format");
    data(r#""data_base64":1"#, "invalid data_base64 type");
    data(r#""data":null"#, "invalid data required");
    data(r#""data":[1]"#, "invalid data type");
    data(r#""data":"<xml/>""#, "invalid data format");
    let twice = serde_json::Value::from(text.to_string());
    data(&format!(r#""data":{twice}"#), "invalid data type");
    data(r#""data":"{\"a\":1,\"a\":2}""#, "invalid a duplicate_key");
    data(r#""data":"{\"a\":\"\\u0000\"}""#, "invalid a format");
}

#[test]
fn identity_is_never_replaced_by_anything_else() {
    let event = |head: &str, expected: &str| {
        let body = format!(r#"{{{head},"data":{{"account_id":"1","amount":1,"event_id":"e"}}}}"#);
        check(STRUCTURED, &body, expected);
    };
    let v = r#""specversion":"1.0""#;
    event(&format!(r#"{v},"id":"i""#), "invalid source required");
    event(&format!(r#"{v},"source":"s""#), "invalid id required");
    event(
        &format!(r#"{v},"id":null,"source":"s""#),
        "invalid id required",
    );
    event(&format!(r#"{v},"id":"","source":"s""#), "invalid id length");
    event(&format!(r#"{v},"id":{{}},"source":"s""#), "invalid id type");
    event(
        &format!(r#"{v},"id":"i","source":5"#),
        "invalid source type",
    );
    event(
        &format!(r#"{v},"id":"i","source":"""#),
        "invalid source length",
    );
    event(
        &format!(r#"{v},"id":7,"source":"s""#),
        "cloudevents-structured s/7: debit 1 of 1",
    );
    event(r#""id":"i","source":"s""#, "invalid specversion required");
    event(
        r#""specversion":"0.3","id":"i","source":"s""#,
        "invalid specversion unknown",
    );
    event(
        r#""specversion":1.0,"id":"i","source":"s""#,
        "invalid specversion type",
    );
    check(STRUCTURED, "[]", "invalid - type");
}

#[test]
fn what_is_the_services_own_is_refused() {
    let event = |source: &str, type_name: &str, expected: &str| {
        let body = format!(
            r#"{{"specversion":"1.0","id":"i","source":"{source}","type":"{type_name}","data":{BODY}}}"#
        );
        check(STRUCTURED, &body, expected);
        let arrival = binary(
            &[
                ("ce-specversion", "1.0"),
                ("ce-id", "i"),
                ("ce-source", source),
                ("ce-type", type_name),
            ],
            BODY,
        );
        assert_eq!(told(&arrival, &queue()), expected);
    };
    event("onceledger", "x", "invalid source reserved");
    event("onceledger.reversal", "x", "invalid source reserved");
    event("s", "ledger.debit.applied", "invalid type reserved");
    let body = format!(r#"{{"specversion":"1.0","id":"i","source":"onceledger","data":{BODY}}}"#);
    let scoped = Origin {
        scope: Some("fees".into()),
        ..queue()
    };
    let letter = read(&bare(&body), &scoped).unwrap_err();
    assert_eq!(letter.source.as_deref(), Some("onceledger"));
}

#[test]
fn a_binary_event_is_read_from_its_headers_whatever_the_prefix() {
    for prefix in ["cloudEvents:", "cloudEvents_", "ce-", "CE-", "cloudevents:"] {
        let name = |attribute: &str| format!("{prefix}{attribute}");
        let arrival = Arrival {
            content_type: JSON,
            message_id: Some("m"),
            headers: vec![
                header(&name("type"), "a.CREDIT"),
                header(&name("source"), "payments"),
                header(&name("id"), "b-1"),
                header(&name("specversion"), "1.0"),
                header(&name("time"), "never"),
            ],
            ..bare(BODY)
        };
        let expected = "cloudevents-binary payments/b-1: credit 30 of 1@1";
        assert_eq!(told(&arrival, &queue()), expected, "{prefix}");
    }
}

#[test]
fn only_an_unreadable_identity_in_the_headers_fails_a_message() {
    let check = |name: &str, value: Option<Header>, expected: &str| {
        let names = ["specversion", "id", "source", "type", "time"];
        let texts = ["1.0", "i", "s", "t", "2026-11-30T08:00:00Z"];
        let mut arrival = bare(BODY);
        for (attribute, text) in names.into_iter().zip(texts) {
            let value = match &value {
                Some(value) if attribute == name => value.clone(),
                None if attribute == name => continue,
                _ => Header::Text(text.to_owned()),
            };
            arrival
                .headers
                .push((format!("cloudEvents:{attribute}"), value));
        }
        assert_eq!(told(&arrival, &queue()), expected, "{name} {value:?}");
    };
    let fine = "cloudevents-binary s/i: debit 30 of 1@1";
    check("", None, fine);
    check("type", Some(Header::Unreadable), fine);
    check("type", None, fine);
    check("time", Some(Header::Unreadable), fine);
    let late = Some(Header::Text("9999-12-31T23:59:59-23:59".to_owned()));
    check("time", late, fine);
    check("specversion", Some(Header::Unreadable), fine);
    let old = Some(Header::Text("0.3".to_owned()));
    check("specversion", old, "invalid specversion unknown");
    check("id", Some(Header::Unreadable), "invalid id type");
    check("id", Some(Header::Flag(true)), "invalid id type");
    check("id", None, "invalid id required");
    let number = "cloudevents-binary s/17: debit 30 of 1@1";
    check("id", Some(Header::Integer(17)), number);
    check("source", Some(Header::Unreadable), "invalid source type");
    check("source", Some(Header::Integer(17)), "invalid source type");
    check("source", None, "invalid source required");
    let nul = || Some(Header::Text("a\0".to_owned()));
    check("id", nul(), "invalid id format");
    check("source", nul(), "invalid source format");
    check("type", nul(), "invalid type format");
    let long = || Some(Header::Text("x".repeat(256)));
    check("id", long(), "invalid id length");
    check("source", long(), "invalid source length");
}

#[test]
fn http_headers_are_decoded_as_the_binding_says() {
    let check = |value: &str, expected: &str| assert_eq!(decode_http_header(value), expected);
    check("/shop", "/shop");
    check("Euro%20%E2%82%AC", "Euro €");
    check("100%", "100%");
    check("%zz%4", "%zz%4");
    check("%FF", "%FF");
}
