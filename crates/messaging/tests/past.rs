//! Databases that were restored, made anew or copied: what each end of a connection learns of it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod support;

use std::time::Duration;

use support::{Network, within};
use tally_messaging::{Bytes, QueueId, Reason};

/// Looks again until it is so.
async fn until(wish: impl Fn() -> bool) {
    within(async {
        while !wish() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_sender_on_an_older_database_than_before_is_refused_and_shown_the_newer_one() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    b.past.seen.lock().unwrap().insert(a.name.clone(), 5);
    a.send(&b.name, b"from the past");
    let error = within(b.refusal(Reason::Superseded)).await;
    assert!(error.to_string().contains("an older database"), "{error}");
    until(|| a.past.shown.lock().unwrap().contains(&5)).await;
    assert!(b.received(&a).is_empty());
    // It has been recovered: it goes on from something newer than what was shown to it.
    *a.past.own.lock().unwrap() = 6;
    a.messaging.nudge(&b.name);
    within(b.until_received(&a, 1)).await;
}

#[tokio::test]
async fn a_receiver_on_an_older_database_than_before_is_sent_nothing_and_shown_the_newer_one() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    a.past.seen.lock().unwrap().insert(b.name.clone(), 5);
    a.send(&b.name, b"for the newer one");
    until(|| b.past.shown.lock().unwrap().contains(&5)).await;
    assert!(b.received(&a).is_empty());
    assert!(within(a.problem(&b.name)).await.to_string().contains("an older database"));
    *b.past.own.lock().unwrap() = 5;
    a.messaging.nudge(&b.name);
    within(b.until_received(&a, 1)).await;
}

#[tokio::test]
async fn a_standing_told_while_the_connection_lasts_is_judged_too() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    a.send(&b.name, b"one");
    within(b.until_received(&a, 1)).await;
    *a.past.own.lock().unwrap() = 9;
    a.messaging.announce();
    until(|| b.past.seen.lock().unwrap().get(&a.name) == Some(&9)).await;
    // A copy that is behind announces as well: its connection ends, with the proof.
    *a.past.own.lock().unwrap() = 3;
    a.messaging.announce();
    within(b.refusal(Reason::Superseded)).await;
    until(|| a.past.shown.lock().unwrap().contains(&9)).await;
}

#[tokio::test]
async fn a_receiver_that_has_more_than_was_sent_sets_the_queue_astray_until_it_begins_anew() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    // B holds three messages of a queue in which A remembers none: A's database is older.
    let key = (a.name.clone(), a.queue);
    b.store.state().received.insert(key, vec![b"lost".to_vec(); 3]);
    a.send(&b.name, b"one");
    until(|| a.past.astray.lock().unwrap().contains(&(b.name.clone(), a.queue))).await;
    let anew = QueueId([8; 16]);
    a.past.anew.lock().unwrap().insert(b.name.clone(), anew);
    a.messaging.reset(&b.name);
    a.messaging.send(&b.name, 1, Bytes::from_static(b"one"));
    within(b.store.until(|state| state.received.contains_key(&(a.name.clone(), anew)))).await;
    assert_eq!(b.store.received_from(&a.name, anew), [b"one".to_vec()]);
    assert_eq!(b.past.senders.lock().unwrap().get(&a.name), Some(&anew));
}

#[tokio::test]
async fn a_receiver_that_lost_what_it_had_acknowledged_sets_the_queue_astray() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    a.send(&b.name, b"one");
    within(a.until_acknowledged(&b.name, 1)).await;
    b.store.state().received.clear();
    a.messaging.disconnect(&b.name);
    a.send(&b.name, b"two");
    until(|| a.past.astray.lock().unwrap().contains(&(b.name.clone(), a.queue))).await;
}
