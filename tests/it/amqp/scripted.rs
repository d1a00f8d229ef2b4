//! The scripts through a real queue, one message at a time.

use lapin::types::FieldTable;
use onceledger::{config::QueueConfig, telemetry::EventLabels};

use super::{
    broker::{self, Broker},
    service::{SOON, Service, until},
};
use crate::support::script::{self, Line};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_hold_through_a_queue() {
    let broker = Broker::new().await;
    let other = broker.name("theirs");
    broker.declare(&other, FieldTable::default()).await;
    // Sources `s` and `t` of the scripts are two queues.
    let (events, url) = (broker.name("events"), broker::url());
    let service = Service::consume(&broker, &url, &events, |config| {
        config.queues[0].source = "s".into();
        let second = QueueConfig {
            name: other.as_str().into(),
            source: "t".into(),
            ..config.queues[0].clone()
        };
        config.queues.push(second);
    })
    .await;
    service.consuming().await;
    for (name, lines) in script::all() {
        for line in &lines {
            play(&broker, &service, &other, line, &format!("-{name}")).await;
        }
    }
    service.end().await;
}

async fn play(broker: &Broker, service: &Service, other: &str, line: &Line, suffix: &str) {
    let Some(work) = line.work(suffix) else {
        line.look(&*service.store, suffix).await.unwrap();
        return;
    };
    let expected = line.expected.as_deref().unwrap();
    if !line.is_plain_event() {
        let answer = service.ask(work).await;
        assert_eq!(script::spell(&answer), expected, "{}", line.place);
        return;
    }
    // What a consumer tells is counted by outcome and reason.
    let labels = labels(expected);
    let count = || service.metrics.events.get_or_create(&labels).get();
    let before = count();
    let queue = if line.source() == "t" {
        other
    } else {
        &service.queue
    };
    broker.publish(queue, [line.body(suffix).to_string()]).await;
    until(&format!("{}: {expected}", line.place), SOON, async || {
        count() > before
    })
    .await;
    assert!(broker.waiting(queue).await == Some(0), "{}", line.place);
}

fn labels(expected: &str) -> EventLabels {
    let mut words = expected.split(' ').map(|word| &*word.to_owned().leak());
    let outcome = words.next().unwrap();
    let reason = words
        .next()
        .filter(|word| !word.contains('='))
        .unwrap_or("");
    EventLabels { outcome, reason }
}
