//! The broker's dead-letter queue: whatever gets there is kept once, unless the books
//! know what became of it.

use lapin::types::{AMQPValue, FieldArray, FieldTable};
use onceledger::{
    domain::{Reason, Status},
    store::LetterView,
};
use serde_json::json;

use super::{
    broker::{self, Broker},
    service::{BALANCE, SOON, Service, debit, until},
};

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// An `x-death` header as the broker writes it, newest first.
fn died(entries: &[(&str, &str)]) -> FieldTable {
    let entry = |(queue, reason): &(&str, &str)| {
        let mut entry = FieldTable::default();
        entry.insert("queue".into(), text(queue));
        entry.insert("reason".into(), text(reason));
        entry.insert("count".into(), AMQPValue::LongLongInt(2));
        entry.insert("exchange".into(), text("shop"));
        entry.insert("time".into(), AMQPValue::Timestamp(1_796_083_200));
        let keys = vec![text("orders.paid"), AMQPValue::Void];
        let keys = AMQPValue::FieldArray(FieldArray::from(keys));
        entry.insert("routing-keys".into(), keys);
        AMQPValue::FieldTable(entry)
    };
    let mut headers = FieldTable::default();
    let deaths: Vec<AMQPValue> = entries.iter().map(entry).collect();
    headers.insert(
        "x-death".into(),
        AMQPValue::FieldArray(FieldArray::from(deaths)),
    );
    headers
}

async fn letters(service: &Service, count: usize) -> Vec<LetterView> {
    until("the letters", SOON, async || {
        service.letters().await.len() >= count
    })
    .await;
    let letters = service.letters().await;
    assert_eq!(letters.len(), count, "{letters:#?}");
    letters
}

async fn emptied(broker: &Broker) {
    let dead = broker.name("dead");
    until("the dead-letter queue is drained", SOON, async || {
        broker.waiting(&dead).await == Some(0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_broker_set_aside_is_kept_with_its_word_and_its_event() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.consuming().await;
    service.open_accounts(1).await;
    let (exchange, queue) = (broker.name("dead"), broker.name("events"));
    let body = debit("d1", "0", 5);
    let headers = died(&[(&queue, "delivery_limit"), ("elsewhere", "expired")]);
    broker.post(&exchange, "x", body.as_bytes(), headers).await;
    let letter = letters(&service, 1).await.remove(0);
    let kept = &letter.letter;
    assert_eq!(kept.reason, Reason::DeliveryLimit);
    assert_eq!(&*kept.raw.queue, queue);
    assert_eq!(kept.raw.body, body.as_bytes());
    assert_eq!(kept.source.as_deref(), Some("orders"));
    assert_eq!(kept.event_id.as_deref(), Some("d1"));
    assert_eq!(kept.account_id.as_deref(), Some("0"));
    assert_eq!(kept.detail["broker_reason"], "delivery_limit");
    assert_eq!(kept.detail["count"], 2);
    assert_eq!(kept.detail["routing_keys"], json!(["orders.paid"]));
    assert_eq!(kept.detail["at"], "2026-12-01T00:00:00Z");
    let message = kept.detail["message"].as_str().unwrap();
    assert!(message.contains(&queue), "{message}");
    emptied(&broker).await;

    // The same again is seen once more, and nothing of it took effect.
    let headers = died(&[(&queue, "delivery_limit")]);
    broker.post(&exchange, "x", body.as_bytes(), headers).await;
    until("seen twice", SOON, async || {
        service.letters().await[0].seen == 2
    })
    .await;
    assert_eq!(service.total(1).await, BALANCE);
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_books_know_already_is_dropped_and_other_content_is_not() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.consuming().await;
    service.open_accounts(1).await;
    let (exchange, queue) = (broker.name("dead"), broker.name("events"));
    let parked = r#"{"event_id":"p","account_id":"0","amount":1,"version":9}"#.to_owned();
    let refused = debit("r", "0", BALANCE + 1);
    let known = [debit("a", "0", 1), parked, refused];
    broker.publish(&queue, known.clone()).await;
    until("all three are recorded", SOON, async || {
        let found = service.store_events().await;
        [Status::Applied, Status::Parked, Status::Rejected]
            .iter()
            .all(|status| found.contains(status))
    })
    .await;
    for body in &known {
        let headers = died(&[(&queue, "delivery_limit")]);
        broker.post(&exchange, "x", body.as_bytes(), headers).await;
    }
    // Another amount under the id of what was applied: that one is known nowhere.
    let other = debit("a", "0", 2);
    let headers = died(&[(&queue, "rejected")]);
    broker.post(&exchange, "x", other.as_bytes(), headers).await;
    let letter = letters(&service, 1).await.remove(0);
    assert_eq!(letter.letter.raw.body, other.as_bytes());
    assert_eq!(letter.letter.reason, Reason::DeadLettered);
    assert_eq!(letter.letter.detail["broker_reason"], "rejected");
    emptied(&broker).await;
    assert_eq!(service.letters().await.len(), 1);
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_others_put_there_is_kept() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.consuming().await;
    let (exchange, queue) = (broker.name("dead"), broker.name("events"));
    let nothing = FieldTable::default;
    let mut nonsense = FieldTable::default();
    nonsense.insert("x-death".into(), text("yesterday"));
    let mut nul = died(&[("a\0b", "re\0jected")]);
    nul.insert("n\0n".into(), text("a\0b"));
    let long = "q".repeat(5_000);
    let posts: [(&[u8], FieldTable, Reason, &str); 9] = [
        (b"", nothing(), Reason::DeadLettered, &exchange),
        (b"\xff\xfe", nothing(), Reason::DeadLettered, &exchange),
        (b"by hand", nonsense, Reason::DeadLettered, &exchange),
        (b"no entry", died(&[]), Reason::DeadLettered, &exchange),
        (
            b"theirs",
            died(&[("their.queue", "expired")]),
            Reason::DeadLettered,
            "their.queue",
        ),
        (
            b"limit",
            died(&[("their.queue", "delivery_limit")]),
            Reason::DeliveryLimit,
            "their.queue",
        ),
        (b"nul", nul, Reason::DeadLettered, "a\u{fffd}b"),
        (
            b"long",
            died(&[(&long, "maxlen")]),
            Reason::DeadLettered,
            &long[..255],
        ),
        (
            b"{\"amount\":1.5}",
            died(&[(&queue, "delivery_limit")]),
            Reason::DeliveryLimit,
            &queue,
        ),
    ];
    for (body, headers, ..) in &posts {
        broker.post(&exchange, "x", body, headers.clone()).await;
    }
    let letters = letters(&service, posts.len()).await;
    for (body, _, reason, queue) in &posts {
        let letter = letters
            .iter()
            .find(|it| it.letter.raw.body == *body)
            .unwrap();
        assert_eq!(letter.letter.reason, *reason, "{letter:#?}");
        assert_eq!(&*letter.letter.raw.queue, *queue);
    }
    let flawed = letters
        .iter()
        .find(|it| it.letter.raw.body.starts_with(b"{"))
        .unwrap();
    assert_eq!(flawed.letter.detail["flaw"]["reason"], json!("invalid"));
    assert!(flawed.letter.detail["flaw"]["field"].is_string());
    emptied(&broker).await;
    service.end().await;
}

/// The broker itself, with its own headers: a consumer of somebody's refuses a message
/// of a queue that is configured with a scope.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_somebody_refused_is_read_as_one_of_its_queue() {
    let broker = Broker::new().await;
    let theirs = broker.name("theirs");
    let mut arguments = FieldTable::default();
    arguments.insert("x-dead-letter-exchange".into(), text(&broker.name("dead")));
    broker.declare(&theirs, arguments).await;
    let service = Service::consume(&broker, &broker::url(), &broker.name("events"), |config| {
        let mut queue = config.queues[0].clone();
        queue.name = broker.name("missing").into();
        queue.source = "shop".into();
        queue.scope = Some("main".into());
        config.queues.push(queue);
        let mut queue = config.queues[0].clone();
        queue.name = theirs.as_str().into();
        queue.source = "fees".into();
        queue.scope = Some("main".into());
        // Nobody of ours takes the message before it is refused.
        queue.prefetch = Some(1);
        config.queues.push(queue);
    })
    .await;
    until("the dead-letter queue is there", SOON, async || {
        broker.waiting(&broker.name("dead")).await.is_some()
    })
    .await;
    service.store.set_away(true);
    broker.publish(&theirs, [debit("first", "0", 1)]).await;
    until("ours holds one", SOON, async || {
        broker.waiting(&theirs).await == Some(0)
    })
    .await;
    broker.publish(&theirs, [debit("second", "0", 1)]).await;
    broker.refuse(&theirs).await;
    service.store.set_away(false);
    let letter = letters(&service, 1).await.remove(0).letter;
    assert_eq!(letter.reason, Reason::DeadLettered);
    assert_eq!(letter.detail["broker_reason"], "rejected");
    assert_eq!(&*letter.raw.queue, theirs);
    assert_eq!(letter.source.as_deref(), Some("main/fees"));
    assert_eq!(letter.event_id.as_deref(), Some("second"));
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_dead_letter_queue_is_declared_again_and_drained() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.consuming().await;
    let dead = broker.name("dead");
    broker.delete(&dead).await;
    until("it is there again", SOON, async || {
        broker.waiting(&dead).await.is_some()
    })
    .await;
    service.consuming().await;
    broker
        .post(&dead, "x", b"later", FieldTable::default())
        .await;
    letters(&service, 1).await;
    service.end().await;
}

/// Without the right to declare there need be no such queue; the service is ready.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_is_declared_no_dead_letter_queue_is_needed() {
    let broker = Broker::new().await;
    let queue = broker.name("events");
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    broker.declare(&queue, arguments).await;
    let service = Service::consume(&broker, &broker::url(), &queue, |config| {
        config.queues[0].declare = Some(false);
    })
    .await;
    service.consuming().await;
    assert_eq!(broker.waiting(&broker.name("dead")).await, None);
    service.end().await;
}

/// Reading it may be what ends the process: after some attempts it is kept unread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_handed_out_of_it_many_times_is_kept_without_being_read() {
    let broker = Broker::new().await;
    let service = Service::start(&broker, &broker::url()).await;
    service.consuming().await;
    let mut headers = died(&[(&broker.name("events"), "delivery_limit")]);
    headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(8));
    let body = debit("deadly", "0", 5);
    broker
        .post(&broker.name("dead"), "x", body.as_bytes(), headers)
        .await;
    let letter = letters(&service, 1).await.remove(0).letter;
    assert_eq!(letter.reason, Reason::DeliveryLimit);
    assert_eq!(&*letter.raw.queue, broker.name("events"));
    assert_eq!(letter.raw.body, body.as_bytes());
    assert_eq!(letter.event_id, None);
    assert!(letter.detail["unread"].is_string(), "{}", letter.detail);
    service.end().await;
}

/// What the README recommends to operators whose messages must survive even a broker
/// that dies while it sets one aside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_sets_aside_at_least_once_is_used_as_it_is() {
    let broker = Broker::new().await;
    let (queue, dead) = (broker.name("events"), broker.name("dead"));
    let mut arguments = FieldTable::default();
    for (name, value) in [
        ("x-queue-type", "quorum"),
        ("x-dead-letter-exchange", &*dead),
        ("x-dead-letter-strategy", "at-least-once"),
        ("x-overflow", "reject-publish"),
    ] {
        arguments.insert(name.into(), text(value));
    }
    broker.declare(&queue, arguments).await;
    // The dead-letter queue must be there before the first message needs it.
    let first = Service::start(&broker, &broker::url()).await;
    first.consuming().await;
    first.end().await;
    let bodies = [debit("refused", "0", 5), debit("good", "0", 7)];
    broker.publish(&queue, bodies).await;
    broker.refuse(&queue).await;

    let service = Service::start(&broker, &broker::url()).await;
    service.open_accounts(1).await;
    let letter = letters(&service, 1).await.remove(0).letter;
    assert_eq!(letter.reason, Reason::DeadLettered);
    assert_eq!(letter.detail["broker_reason"], "rejected");
    assert_eq!(letter.event_id.as_deref(), Some("refused"));
    service.settled(&broker, 1, BALANCE - 7).await;
    emptied(&broker).await;
    service.end().await;
}
