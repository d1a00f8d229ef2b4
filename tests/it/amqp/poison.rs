//! A message that ends the process whenever it is handed out: the broker's delivery
//! limit takes it away, and its neighbours don't go with it.

use std::sync::{Arc, Mutex};

use lapin::types::{AMQPValue, FieldTable};
use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::Reason,
    ledger::Ledger,
    store::{self, LetterFilter, StoreOptions},
    telemetry::Metrics,
};

use super::{
    broker::Broker,
    frames::Deliveries,
    killed::{Program, serve},
    proxy::Proxy,
    service::{BALANCE, SOON, account, debit, opening, until},
};
use crate::support::databases::{self, TestDatabase};

const GOOD: usize = 200;
const POISON: &str = "poison";

/// The running program, to be killed from the network.
type Running = Arc<Mutex<Option<Program>>>;

/// A network that kills the program for real whenever the broker hands the poison out
/// from a queue of events; what gives up on it may read it.
async fn deadly(running: &Running, dead: String) -> Proxy {
    let running = running.clone();
    Proxy::watched(move || {
        let (running, dead) = (running.clone(), dead.clone());
        let mut deliveries = Deliveries::default();
        Box::new(move |bytes| {
            for (exchange, body) in deliveries.of(bytes) {
                let poisonous = String::from_utf8_lossy(&body).contains(POISON);
                if poisonous
                    && exchange != dead
                    && let Some(program) = running.lock().unwrap().as_mut()
                {
                    program.kill();
                }
            }
        })
    })
    .await
}

/// The messages with the poison among them, at a place.
fn messages(place: usize) -> Vec<String> {
    let mut bodies: Vec<String> = (0..GOOD).map(|n| debit(&format!("e{n}"), "0", 1)).collect();
    bodies.insert(place, debit(POISON, "0", 1_000));
    bodies
}

/// Restarts the program until everything is over; answers how often it was killed. That
/// is about the queue's limit: the broker may count a delivery that no process lived to
/// see, and a neighbour may cost a round.
async fn survives(database: TestDatabase, broker: Broker, place: usize) -> usize {
    let running: Running = Arc::default();
    let proxy = deadly(&running, broker.name("dead")).await;
    let books = store::open(&database.url, &StoreOptions::default())
        .await
        .unwrap();
    let (clock, copies) = (Clock::system(), Copies::default());
    let mut ledger = Ledger::new(books.clone(), clock, Metrics::default(), copies);
    ledger.settle(&[opening("0")]).await.remove(0).unwrap();
    let queue = broker.name("events");
    if broker.waiting(&queue).await.is_none() {
        let mut first = serve(&database, &broker, &proxy.url());
        until("the queue is declared", SOON, async || {
            broker.waiting(&queue).await.is_some()
        })
        .await;
        first.kill();
    }
    broker.publish(&queue, messages(place)).await;

    let kills = Mutex::new(0);
    until(
        "the poison is set aside and the rest applied",
        SOON * 6,
        async || {
            {
                let mut running = running.lock().unwrap();
                if running.as_mut().is_none_or(Program::has_ended) {
                    *kills.lock().unwrap() += usize::from(running.is_some());
                    *running = Some(serve(&database, &broker, &proxy.url()));
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            let found = books.account(&account("0")).await.unwrap().unwrap();
            let filter = LetterFilter::default();
            let letters = books.letters("default", &filter, None, 10).await.unwrap();
            found.version == 1 + GOOD as i64 && !letters.is_empty()
        },
    )
    .await;
    until("everything is acknowledged", SOON, async || {
        broker.waiting(&queue).await == Some(0)
            && broker.waiting(&broker.name("dead")).await == Some(0)
    })
    .await;
    running.lock().unwrap().take();

    let found = books.account(&account("0")).await.unwrap().unwrap();
    assert_eq!(found.balance, BALANCE - GOOD as i64);
    let filter = LetterFilter::default();
    let letters = books.letters("default", &filter, None, 10).await.unwrap();
    assert_eq!(letters.len(), 1, "a neighbour went with it: {letters:#?}");
    assert_eq!(letters[0].letter.reason, Reason::DeliveryLimit);
    assert_eq!(letters[0].letter.event_id.as_deref(), Some(POISON));
    assert_eq!(books.verify().await.unwrap().offences, []);
    books.close().await;
    kills.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_in_the_middle_of_our_own_queue_on_postgres() {
    // Almost at the end of what a process takes second: if each life brought it one
    // nearer to the front, the limit would come first.
    let place = 64;
    let kills = survives(databases::postgres().await, Broker::new().await, place).await;
    assert!((15..=25).contains(&kills), "killed {kills} times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_at_the_head_of_our_own_queue_on_sqlite() {
    let kills = survives(databases::sqlite().await, Broker::new().await, 0).await;
    assert!((15..=25).contains(&kills), "killed {kills} times");
}

/// A queue that an operator declared, with a limit of his own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_at_the_end_of_an_operators_queue_on_postgres() {
    let broker = Broker::new().await;
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(4));
    arguments.insert("x-dead-letter-exchange".into(), text(&broker.name("dead")));
    broker.declare(&broker.name("events"), arguments).await;
    let database = databases::postgres().await;
    // Its dead-letter exchange must be there before the first message needs it.
    let mut first = serve(&database, &broker, &super::broker::url());
    until("the dead-letter queue is there", SOON, async || {
        broker.waiting(&broker.name("dead")).await.is_some()
    })
    .await;
    first.kill();
    let kills = survives(database, broker, GOOD).await;
    assert!((2..=9).contains(&kills), "killed {kills} times");
}
