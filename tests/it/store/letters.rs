//! A dead letter is the last place that a message can go to: every database keeps every
//! letter, whatever it says.

use std::sync::Arc;

use onceledger::{
    domain::{Letter, Raw, Reason},
    envelope::{self, Arrival, Header, Origin},
    store::LetterFilter,
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use rstest::rstest;
use serde_json::json;

use super::{On, scene::*};

/// Letters of each kind; few enough for one page.
const COUNT: usize = 240;

/// Text as nobody should write it: U+0000, other controls, astral planes, far too long.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[\\x00-\\x1f\u{80}\u{fffe}\u{10ffff}a-c\"\\\\]{0,20}",
        (any::<char>(), 200..9_000_usize).prop_map(|(it, count)| it.to_string().repeat(count)),
    ]
}

fn name() -> impl Strategy<Value = Option<Arc<str>>> {
    prop::option::of(text().prop_map(Arc::from))
}

/// A letter made of whatever texts, as if nothing before it had looked at them.
fn any_letter() -> impl Strategy<Value = Letter> {
    let names = (name(), name(), name());
    let raw = (text(), any::<Vec<u8>>(), text(), text());
    (names, raw, text()).prop_map(
        |((source, event_id, account_id), (queue, body, headers, marks), said)| Letter {
            tenant: "default".into(),
            reason: Reason::Invalid,
            detail: json!({"message": said, said: 1}),
            source,
            event_id,
            account_id,
            event: None,
            raw: Arc::new(Raw {
                queue: queue.into(),
                body,
                headers: headers.into(),
                marks: marks.into(),
            }),
        },
    )
}

/// A message that was read and found to be no event, or none that could be read.
fn malformed() -> impl Strategy<Value = Letter> {
    let value = prop_oneof![
        text().prop_map(Header::Text),
        any::<i64>().prop_map(Header::Integer),
        Just(Header::Unreadable),
    ];
    let id = prop::sample::select(vec!["ce-id", "ce-source", "ce-specversion", "cap-msg-id"]);
    let header = (prop_oneof![id.prop_map(str::to_owned), text()], value);
    let body = prop_oneof![
        any::<Vec<u8>>(),
        text().prop_map(
            |it| json!({"event_id": it, "account_id": it, (it.as_str()): it})
                .to_string()
                .into()
        ),
    ];
    let properties = (name(), name(), name());
    let headers = prop::collection::vec(header, 0..5);
    (body, properties, headers).prop_filter_map("no event", |(body, properties, headers)| {
        let (content_type, message_id, message_type) = &properties;
        let arrival = Arrival {
            body: &body,
            content_type: content_type.as_deref(),
            message_id: message_id.as_deref(),
            message_type: message_type.as_deref(),
            headers,
        };
        let malformed = envelope::read(&arrival, &origin()).err()?;
        Some(malformed.letter("default".into()))
    })
}

fn origin() -> Origin {
    Origin {
        tenant: "default".into(),
        queue: "q".into(),
        source: "orders".into(),
        scope: None,
        kind: None,
        body_names_source: true,
        event_bytes_max: 65_536,
    }
}

fn sample<T>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::default();
    let mut one = || strategy.new_tree(&mut runner).unwrap().current();
    (0..COUNT).map(|_| one()).collect()
}

#[rstest]
#[tokio::test]
async fn every_letter_is_kept_whatever_it_says(#[values(On::Postgres, On::Sqlite)] on: On) {
    let books = on.books().await;
    let store = &*books.store;
    let mut letters = sample(any_letter());
    letters.extend(sample(malformed()));
    for letter in &letters {
        // Alone, as a letter goes that was not kept at the first attempt.
        let kept = store.set_aside(std::slice::from_ref(letter), NOW).await;
        assert_eq!(kept, Ok(()), "{letter:#?}");
    }
    store.set_aside(&letters, NOW).await.unwrap();
    let (mut seen, mut after) = (0, None);
    loop {
        let filter = LetterFilter::default();
        let page = store.letters("default", &filter, after, 500).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        seen += page.iter().map(|it| it.seen).sum::<i64>();
    }
    assert_eq!(seen, 2 * letters.len() as i64);
}

#[rstest]
#[tokio::test]
async fn what_no_database_keeps_is_made_visible_and_the_body_stays(
    #[values(On::Postgres, On::Sqlite)] on: On,
) {
    let books = on.books().await;
    let mut odd = letter(Reason::Invalid, "a\0b");
    odd.event_id = Some("e\0".into());
    odd.account_id = Some("\u{e4}".repeat(4_000).into());
    odd.detail = json!({"message": "m\0"});
    books.store.set_aside(&[odd.clone()], NOW).await.unwrap();
    let filter = LetterFilter::default();
    let list = books.store.letters("default", &filter, None, 9).await;
    let kept = list.unwrap().remove(0).letter;
    assert_eq!(kept.event_id.as_deref(), Some("e\u{fffd}"));
    assert_eq!(kept.account_id.unwrap().len(), 254);
    assert_eq!(kept.raw.body, b"a\0b");
    assert_eq!(kept.detail, odd.detail);
}
