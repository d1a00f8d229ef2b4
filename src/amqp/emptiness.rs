//! Asks every few seconds whether a queue is empty, until each was seen so once
//! after its consumer was set to work.
//!
//! The sweeper wants to know: while a queue was never seen empty, what a parked
//! event waits for may still be in it. What must not live here: expiry.

use std::{sync::Arc, time::Duration};

use lapin::Connection;
use tokio_util::sync::CancellationToken;

use super::{
    connection::Link,
    status::{QueueCell, QueueState, Status},
    topology,
};

/// How often is asked. Two answers are wanted, so that a message on its way from
/// the broker to us at the first is in hand, or done, at the second.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// A broker that does not answer in this time is asked again later.
const ANSWER_MAX: Duration = Duration::from_secs(5);

pub(super) async fn watch(status: Status, link: Link, stop: CancellationToken) {
    let mut quiet: Vec<Option<u64>> = vec![None; status.cells().len()];
    while stop
        .run_until_cancelled(tokio::time::sleep(ASK_EVERY))
        .await
        .is_some()
    {
        let Some(connection) = link.now() else {
            continue;
        };
        for (cell, quiet) in status.cells().iter().zip(&mut quiet) {
            let asked = stop.run_until_cancelled(ask(cell, *quiet, &connection));
            match asked.await {
                Some(answer) => *quiet = answer,
                None => return,
            }
        }
    }
}

/// The epoch in which the queue was just found empty, if it was. The second time
/// in a row is believed.
async fn ask(cell: &Arc<QueueCell>, quiet: Option<u64>, connection: &Connection) -> Option<u64> {
    if cell.seen_empty() || cell.state() != QueueState::Consuming {
        return None;
    }
    let epoch = cell.epoch();
    let found = tokio::time::timeout(ANSWER_MAX, topology::passive(connection, &cell.name)).await;
    let empty = matches!(found, Ok(Ok(queue)) if queue.message_count() == 0) && cell.in_hand() == 0;
    if empty && quiet == Some(epoch) {
        cell.saw_empty(epoch);
    }
    empty.then_some(epoch)
}
