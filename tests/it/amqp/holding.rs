//! A delivery that can't be settled for so long that the broker would close the channel.

use std::time::Duration;

use super::{
    broker::{self, Broker},
    service::{BALANCE, SOON, Service, account, debit, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_of_a_locked_account_is_given_back_in_time_and_applied_in_the_end() {
    let broker = Broker::new().await;
    let (url, queue) = (broker::url(), broker.name("events"));
    let hold_max = Duration::from_secs(2);
    let service = Service::hold(&broker, &url, &queue, hold_max, |_| {}).await;
    service.open_accounts(2).await;
    service.consuming().await;

    service.store.lock(&[account("0")]);
    broker.publish(&queue, [debit("held", "0", 5)]).await;
    for round in 1..=3 {
        until("it is in hand", SOON, async || service.in_hand() == 1).await;
        until("it is given back", SOON, async || {
            broker.waiting(&queue).await == Some(1)
        })
        .await;
        // Others go on meanwhile.
        let other = debit(&format!("other-{round}"), "1", 1);
        broker.publish(&queue, [other]).await;
        until("the other one is applied", SOON, async || {
            service.balance("1").await == BALANCE - round
        })
        .await;
        assert_eq!(service.balance("0").await, BALANCE);
    }

    service.store.lock(&[]);
    service.settled(&broker, 2, 2 * BALANCE - 3 - 5).await;
    service.consuming().await;
    // Each giving back was one count of the delivery limit, far from its end.
    let letters = service.letters().await;
    assert!(letters.is_empty(), "{letters:#?}");
    assert_eq!(broker.waiting(&broker.name("dead")).await, Some(0));
    service.end().await;
}
