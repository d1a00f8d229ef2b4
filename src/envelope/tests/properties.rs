//! What holds for all messages, tried on many.

use proptest::prelude::*;

use super::*;
use crate::domain::{AccountKey, Identity};

/// Bounds that hold for whatever was read.
fn check_bounds(arrival: &Arrival<'_>, origin: &Origin) {
    match read(arrival, origin) {
        Ok(reading) => {
            let event = &reading.event;
            let text = 1..=Identity::TEXT_MAX;
            assert!(text.contains(&event.identity.source.len()));
            assert!(text.contains(&event.identity.event_id.len()));
            assert!(AccountKey::id_is_valid(&event.content.account_id));
            assert!(event.content.amount >= 1);
            assert!(
                event
                    .content
                    .expected_version
                    .is_none_or(|version| version >= 1)
            );
            assert!(event.content.kind != Kind::Opening);
            assert!(
                event
                    .reference
                    .as_ref()
                    .is_none_or(|text| text.len() <= 255)
            );
            let year = event.occurred_at.map(|at| at.rfc3339().find('-'));
            assert!(year.is_none_or(|dash| dash == Some(4)));
            assert_clean([Some(&event.identity.source), Some(&event.identity.event_id)]);
            assert_clean([event.reference.as_ref(), event.metadata.as_ref()]);
            assert_eq!(reading.raw.body, arrival.body);
        }
        Err(letter) => {
            assert_eq!(letter.rule.is_none(), letter.reason == Reason::Undecodable);
            assert_clean([letter.source.as_ref(), letter.event_id.as_ref()]);
            assert_clean([letter.account_id.as_ref(), Some(&letter.raw.marks)]);
            assert!(!letter.message.contains('\0'));
            assert!(!letter.field.is_some_and(|field| field.contains('\0')));
        }
    }
}

fn assert_clean<const N: usize>(texts: [Option<&Arc<str>>; N]) {
    assert!(texts.into_iter().flatten().all(|text| !text.contains('\0')));
}

const SAMPLES: [&str; 5] = [
    r#"{"event_id":"pay-1","type":"debit","account_id":"1","amount":500,"currency":"CNY","version":1,"reference":"o","occurred_at":"2026-11-30T08:00:00Z","metadata":{"a":[1,{"b":"\u00e4"}]}}"#,
    r#"{"id":1,"money":500,"version":1}"#,
    r#"{"specversion":"1.0","id":"ce","source":"/s","type":"a.credit","data":{"account_id":"1","amount":30}}"#,
    r#"{"specversion":"1.0","id":"ce","source":"/s","data_base64":"eyJpZCI6MX0="}"#,
    r#"{"EventId":"env","Message":"{\"account_id\":\"s3\",\"amount\":250,\"version\":1}"}"#,
];

/// Valid messages with bytes replaced, put in, or cut out.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), any::<u8>(), 0..4_u8);
    let edits = prop::collection::vec(edit, 0..4);
    (prop::sample::select(SAMPLES.to_vec()), edits).prop_map(|(sample, edits)| {
        let mut body = sample.as_bytes().to_vec();
        for (index, byte, what) in edits {
            let at = index.index(body.len());
            let plain = b"\"{}[]:,\\0-.eu 1ns"[usize::from(byte) % 17];
            match what {
                0 => body[at] = byte,
                1 => body[at] = plain,
                2 => body.insert(at, plain),
                _ => drop(body.remove(at)),
            }
        }
        body
    })
}

fn any_header() -> impl Strategy<Value = (String, Header)> {
    let name = prop_oneof![
        prop::sample::select(vec![
            "cloudEvents:specversion",
            "cloudEvents:id",
            "cloudEvents:source",
            "ce-type",
            "ce-specversion",
            "ce-id",
            "ce-source",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    let value = prop_oneof![
        Just(Header::Text("1.0".to_owned())),
        any::<String>().prop_map(Header::Text),
        any::<i64>().prop_map(Header::Integer),
        any::<bool>().prop_map(Header::Flag),
        Just(Header::Unreadable),
    ];
    (name, value)
}

/// JSON trees whose every number is small enough for serde's own reader.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        "[^\\x00]*".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::hash_map("[^\\x00]*", inner, 0..20)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Blanks as JSON allows them.
fn blanks() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", " ", "\n", "\t \r\n"]).prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..200),
        content_type in prop::option::of(any::<String>()),
        message_id in prop::option::of(any::<String>()),
        headers in prop::collection::vec(any_header(), 0..6),
    ) {
        let arrival = Arrival {
            body: &body,
            content_type: content_type.as_deref(),
            message_id: message_id.as_deref(),
            message_type: message_id.as_deref(),
            headers,
        };
        check_bounds(&arrival, &queue());
        let _elements = split_array(&body);
    }

    #[test]
    fn mutated_messages_never_panic_and_keep_the_bounds(
        body in mutated(),
        headers in prop::collection::vec(any_header(), 0..4),
    ) {
        let arrival = Arrival { body: &body, headers, ..Arrival::default() };
        check_bounds(&arrival, &http());
        let without = Arrival { headers: Vec::new(), ..arrival };
        check_bounds(&without, &http());
    }

    #[test]
    fn the_grammar_is_the_one_of_an_independent_reader(body in mutated()) {
        let theirs = serde_json::from_slice::<serde_json::Value>(&body);
        let ours = json::parse(&body, json::DEPTH_MAX);
        // Serde's reader alone refuses numbers past a float's range.
        let range = theirs.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
        prop_assert!(range || theirs.is_ok() == ours.is_ok(), "{ours:?} {theirs:?}");
    }

    #[test]
    fn any_document_is_read_and_an_array_is_cut_into_its_own_elements(
        document in any_json(),
        pretty in any::<bool>(),
    ) {
        let text = if pretty {
            serde_json::to_string_pretty(&document).unwrap()
        } else {
            document.to_string()
        };
        prop_assert!(json::parse(text.as_bytes(), json::DEPTH_MAX).unwrap().blemish.is_none());
        if let serde_json::Value::Array(expected) = &document {
            let elements: Vec<serde_json::Value> = split_array(text.as_bytes())
                .unwrap()
                .into_iter()
                .map(|element| serde_json::from_slice(element).unwrap())
                .collect();
            prop_assert_eq!(&elements, expected);
        }
    }

    #[test]
    fn any_time_is_kept_in_four_digit_years_or_refused(
        (year, month, day) in (0..=9999_u16, 0..14_u8, 0..33_u8),
        (hour, minute, second) in (0..26_u8, 0..62_u8, 0..62_u8),
        edge in prop::sample::select(vec!["", "0000-01-01", "9999-12-31"]),
        offset in "[Zz]|[+-][0-2][0-9]:[0-5][0-9]",
    ) {
        let date = format!("{year:04}-{month:02}-{day:02}");
        let date = if edge.is_empty() { date.as_str() } else { edge };
        let time = format!("{date}T{hour:02}:{minute:02}:{second:02}{offset}");
        let body = format!(
            r#"{{"event_id":"e","account_id":"1","amount":5,"occurred_at":"{time}"}}"#
        );
        check_bounds(&bare(&body), &queue());
    }

    #[test]
    fn a_native_event_is_the_same_whatever_its_order_and_spacing(
        (event_id, reference) in ("[^\\x00]{1,60}", "[^\\x00]{0,60}"),
        account_id in "[A-Za-z0-9_:-]{1,128}",
        (amount, version) in (1..=i64::MAX, 1..=i64::MAX),
        credit in any::<bool>(),
        order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
        gap in blanks(),
        quoted in any::<bool>(),
    ) {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let kind = if credit { Kind::Credit } else { Kind::Debit };
        let number = if quoted { text(&amount.to_string()) } else { amount.to_string() };
        let fields = [
            ("event_id", text(&event_id)),
            ("account_id", text(&account_id)),
            ("amount", number),
            ("version", version.to_string()),
            ("reference", text(&reference)),
            ("type", text(kind.as_str())),
        ];
        let members: Vec<String> = order
            .into_iter()
            .map(|index| &fields[index])
            .map(|(name, json)| format!("{gap}\"{name}\"{gap}:{gap}{json}{gap}"))
            .collect();
        let body = format!("{gap}{{{}}}{gap}", members.join(","));
        let event = read(&bare(&body), &queue()).unwrap().event;
        prop_assert_eq!(&*event.identity.event_id, event_id);
        prop_assert_eq!(&*event.content.account_id, account_id);
        prop_assert_eq!(event.content.amount, amount);
        prop_assert_eq!(event.content.expected_version, Some(version));
        prop_assert_eq!(event.content.kind, kind);
        prop_assert_eq!(event.reference.as_deref(), Some(reference.as_str()));
    }
}
