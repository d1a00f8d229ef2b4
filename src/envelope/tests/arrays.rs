//! A JSON array, cut into its elements.

use super::*;

fn check(body: &str, expected: &[&str]) {
    let elements = split_array(body.as_bytes()).unwrap();
    let expected: Vec<&[u8]> = expected.iter().map(|text| text.as_bytes()).collect();
    assert_eq!(elements, expected, "{body}");
}

#[test]
fn elements_are_cut_out_byte_for_byte() {
    check("[]", &[]);
    check(" [ ] ", &[]);
    check("[1]", &["1"]);
    check(
        "[ {\"a\": [1, 2]} ,\n\"x,]\" , null,[ ]]",
        &["{\"a\": [1, 2]}", "\"x,]\"", "null", "[ ]"],
    );
    check(" {\"a\": 1} ", &["{\"a\": 1}"]);
}

#[test]
fn the_array_itself_is_granted_one_level() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let body = nested(65);
    check(&body, &[&nested(64)]);
    assert!(split_array(nested(66).as_bytes()).is_err());
    let object = format!("{{\"a\":{}}}", nested(64));
    assert!(split_array(object.as_bytes()).is_err());
}

#[test]
fn what_is_no_document_is_undecodable() {
    for body in ["", "[", "[1,]", "[1]]", "[\"\\ud800\"]"] {
        let error = split_array(body.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("not readable as JSON: "));
    }
}

#[test]
fn a_flaw_in_one_element_is_left_to_that_element() {
    check("[{\"a\":1,\"a\":2},1]", &["{\"a\":1,\"a\":2}", "1"]);
}

#[test]
fn an_array_is_told_by_its_first_byte() {
    let check = |body: &[u8], expected| assert_eq!(is_array(body), expected);
    check(b"[]", true);
    check(b" \r\n\t[", true);
    check(b"{}", false);
    check(b"", false);
}
