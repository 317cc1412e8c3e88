//! Every message arrives once and in order, whatever happens to the line and to the nodes.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod support;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use support::line::Line;
use support::{Network, Party, settings, within};
use tally_messaging::{Link, Settings};
use tally_sim::Rng;

/// Different sizes, contents that say which they are.
fn text(number: u64) -> Vec<u8> {
    let mut bytes = format!("message {number} ").into_bytes();
    bytes.resize(bytes.len() + (number as usize * 37) % 900, b'.');
    bytes
}

fn texts(count: u64) -> Vec<Vec<u8>> {
    (1..=count).map(text).collect()
}

#[tokio::test]
async fn messages_arrive_in_order_and_are_acknowledged() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    for number in 1..=5000 {
        a.send(&b.name, &text(number));
        if number % 3 == 0 {
            b.send(&a.name, &text(number / 3));
        }
    }
    within(b.until_received(&a, 5000)).await;
    within(a.until_received(&b, 1666)).await;
    assert!(b.received(&a) == texts(5000) && a.received(&b) == texts(1666));
    within(a.until_acknowledged(&b.name, 5000)).await;
    within(b.until_acknowledged(&a.name, 1666)).await;
    let metrics = a.messaging.metrics();
    assert_eq!((metrics.messages_sent, metrics.reconnections), (5000, 0));
    assert_eq!(metrics.bytes_sent, texts(5000).iter().map(|text| text.len() as u64).sum::<u64>());
    assert!(metrics.writes < 5000, "messages share writes");
    let received = b.messaging.metrics();
    assert_eq!((received.messages_received, received.messages_repeated), (5000, 0));
    assert_eq!(received.bytes_received, metrics.bytes_sent);
    let status = a.messaging.peer(&b.name).outbound.unwrap();
    assert_eq!((status.link, status.announced, status.acknowledged), (Link::Connected, 5000, 5000));
    assert_eq!(a.messaging.peers().len(), 1);
}

#[tokio::test]
async fn a_node_delivers_to_itself() {
    let network = Network::new();
    let a = network.node("A").await;
    a.send(&a.name, b"note to self");
    within(a.until_received(&a, 1)).await;
    within(a.until_acknowledged(&a.name, 1)).await;
}

#[tokio::test]
async fn large_and_small_messages_go_together() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    let sizes = [0, 1, 40_000, 3, 5_000_000, 70_000, 0, 32 << 10, 10 << 20];
    let messages: Vec<Vec<u8>> = sizes.iter().zip(1_u8..).map(|(size, fill)| vec![fill; *size]).collect();
    for message in &messages {
        a.send(&b.name, message);
    }
    within(b.until_received(&a, sizes.len())).await;
    assert!(b.received(&a) == messages);
}

#[tokio::test]
async fn a_line_cut_at_any_byte_neither_loses_nor_repeats() {
    const COUNT: u64 = 3000;
    for seed in 0..12 {
        let network = Network::new();
        let (a, b) = (network.node("A").await, network.node("B").await);
        // From cuts within the handshake to cuts after many messages.
        let reach = if seed % 2 == 0 { 8_000 } else { 120_000 };
        let line = Line::new(b.messaging.local_addr(), seed, 25, reach).await;
        network.directory.set(&b.name, line.address);
        let mut rng = Rng::new(seed);
        let mut number = 0;
        while number < COUNT {
            for _ in 0..=rng.below(50) {
                number += 1;
                a.send(&b.name, &text(number));
            }
            tokio::task::yield_now().await;
        }
        within(b.until_received(&a, number as usize)).await;
        within(a.until_acknowledged(&b.name, number)).await;
        assert!(b.received(&a) == texts(number), "seed {seed}");
        let reconnections = a.messaging.metrics().reconnections;
        assert!(
            reach == 8_000 || (line.cuts.load(Relaxed) > 10 && reconnections > 3),
            "seed {seed}: {reconnections}"
        );
    }
}

#[tokio::test]
async fn restarts_of_either_side_lose_nothing_and_repeat_only_what_was_not_durable() {
    for seed in 100..112 {
        let network = Network::new();
        let mut rng = Rng::new(seed);
        let mut a = network.node("A").await;
        let mut b = restart(&network, network.node("B").await).await;
        let mut number = 0;
        for _ in 0..60 {
            match rng.below(6) {
                0 => b = restart(&network, b).await,
                1 => {
                    a = restart(&network, a).await;
                    a.messaging.connect(&b.name);
                }
                2 => b.life.commit(),
                3 => {
                    a.messaging.nudge(&b.name);
                    tokio::task::yield_now().await;
                }
                _ => {
                    for _ in 0..=rng.below(40) {
                        number += 1;
                        a.send(&b.name, &text(number));
                    }
                    tokio::task::yield_now().await;
                }
            }
            a.messaging.nudge(&b.name);
        }
        number += 1;
        a.send(&b.name, &text(number));
        within(async {
            while b.received(&a).len() < number as usize {
                b.life.commit();
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(b.received(&a) == texts(number), "seed {seed}");
        within(a.until_acknowledged(&b.name, number)).await;
    }
}

/// The process dies: what was accepted but not committed is lost, connections break.
async fn restart(network: &Network, party: Party) -> Party {
    let Party { name, store, credentials, messaging, life, .. } = party;
    // Whatever the old process still does, it does before the new one begins.
    messaging.shutdown().await;
    drop((messaging, life));
    let again = Party::start(name, store, credentials, network, settings(), false).await;
    network.directory.set(&again.name, again.messaging.local_addr());
    again
}

#[tokio::test]
async fn an_acknowledgement_lost_with_the_connection_is_made_up_for_by_the_next() {
    let network = Network::new();
    let a = network.node("A").await;
    let b = restart(&network, network.node("B").await).await;
    for number in 1..=10 {
        a.send(&b.name, &text(number));
    }
    within(b.until_accepted(&a, 10)).await;
    // Durable while nobody is connected.
    network.directory.remove(&b.name);
    a.messaging.disconnect(&b.name);
    within(b.until(|messaging| messaging.peer(&a.name).inbound.is_none())).await;
    b.life.commit();
    assert_eq!(a.store.acknowledged_by(&b.name), 0);
    network.directory.set(&b.name, b.messaging.local_addr());
    a.messaging.nudge(&b.name);
    within(a.until_acknowledged(&b.name, 10)).await;
    assert_eq!(a.messaging.metrics().messages_sent, 10, "nothing travelled twice");
}

#[tokio::test]
async fn messages_wait_for_a_peer_that_is_down_in_the_outbox_and_not_in_memory() {
    let network = Network::new();
    let slow = Settings {
        retry_floor: Duration::from_secs(3600),
        retry_ceiling: Duration::from_secs(3600),
        ..settings()
    };
    let a = network.node_with("A", slow).await;
    let b = network.node("B").await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    network.directory.set(&b.name, nobody.local_addr().unwrap());
    drop(nobody);
    a.send(&b.name, &text(1));
    within(a.problem(&b.name)).await;
    for number in 2..=1000 {
        a.send(&b.name, &text(number));
    }
    let status = a.messaging.peer(&b.name).outbound.unwrap();
    assert_eq!((status.announced, status.buffered_messages, status.buffered_bytes), (1000, 0, 0));
    assert!(matches!(status.link, Link::Waiting(wait) if wait >= Duration::from_secs(1800)));
    // The directory has the new address: no need to wait an hour.
    network.directory.set(&b.name, b.messaging.local_addr());
    a.messaging.nudge(&b.name);
    within(b.until_received(&a, 1000)).await;
    assert!(b.received(&a) == texts(1000));
    assert!(a.messaging.peer(&b.name).outbound.unwrap().problem.is_none());
}

#[tokio::test]
async fn a_peer_without_room_is_served_later_and_holds_up_nobody() {
    let network = Network::new();
    let limited = Settings { buffer_limit: 20_000, ..settings() };
    let a = network.node_with("A", limited).await;
    // The silence of a sender that is not read must not be taken for its death.
    let brisk = Settings {
        ping_after: Duration::from_millis(20),
        silence_limit: Duration::from_millis(200),
        ..settings()
    };
    let (b, c) = (network.node_with("B", brisk.clone()).await, network.node("C").await);
    let mut line = Line::new(b.messaging.local_addr(), 0, 0, 1).await;
    network.directory.set(&b.name, line.address);
    b.life.busy.lock().unwrap().insert(a.name.clone());
    // More than the memory of the system's sockets.
    let large = vec![1; 100_000];
    for _ in 0..200 {
        a.send(&b.name, &large);
        a.send(&c.name, b"swift");
    }
    within(c.until_received(&a, 200)).await;
    within(b.until(|messaging| messaging.peer(&a.name).inbound.is_some_and(|inbound| inbound.paused))).await;
    let seen = *line.answers.borrow();
    within(line.answers.wait_for(|answers| *answers > seen + 15)).await.unwrap();
    let status = a.messaging.peer(&b.name).outbound.unwrap();
    assert!(status.buffered_bytes <= 100_000, "{} bytes held", status.buffered_bytes);
    assert_eq!((status.link, status.reconnections), (Link::Connected, 0));
    assert!(b.received(&a).is_empty());
    // Asking again without room changes nothing.
    b.messaging.resume();
    b.life.busy.lock().unwrap().clear();
    b.messaging.resume();
    within(b.until_received(&a, 200)).await;
    assert!(b.received(&a).iter().all(|message| *message == large));
    assert_eq!(a.messaging.peer(&b.name).outbound.unwrap().reconnections, 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_made_again_when_there_is_something_to_say() {
    let network = Network::new();
    let a = network.node_with("A", Settings { linger: Duration::from_millis(5), ..settings() }).await;
    let b = network.node("B").await;
    for round in 1..=3 {
        a.send(&b.name, &text(round));
        within(b.until_received(&a, round as usize)).await;
        let idle = || a.messaging.peer(&b.name).outbound.is_some_and(|outbound| outbound.link == Link::Idle);
        within(a.until(|_| idle())).await;
        within(b.until(|messaging| messaging.connections() == 0)).await;
    }
    assert_eq!(a.messaging.metrics().reconnections, 2);
    assert!(a.messaging.peer(&b.name).outbound.unwrap().problem.is_none(), "silence is no problem");
}

#[tokio::test]
async fn an_old_connection_is_made_anew_without_loss() {
    let network = Network::new();
    let young = Settings { connection_age: Duration::from_millis(10), ..settings() };
    let (a, b) = (network.node_with("A", young).await, network.node("B").await);
    let mut number = 0;
    while a.messaging.metrics().reconnections < 5 {
        number += 1;
        a.send(&b.name, &text(number));
        within(b.until_received(&a, number as usize)).await;
    }
    assert!(b.received(&a) == texts(number));
}

#[tokio::test]
async fn an_outbox_that_fails_is_asked_again() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    a.store.state().broken = true;
    a.send(&b.name, &text(1));
    let problem = within(a.problem(&b.name)).await;
    assert!(matches!(*problem, tally_messaging::ConnectionError::Outbox(_)), "{problem}");
    a.store.state().broken = false;
    within(b.until_received(&a, 1)).await;
}

#[tokio::test]
async fn shutdown_takes_leave_and_ends_every_task() {
    let network = Network::new();
    let (a, b) = (network.node("A").await, network.node("B").await);
    a.send(&b.name, &text(1));
    b.send(&a.name, &text(1));
    within(b.until_received(&a, 1)).await;
    within(a.until_received(&b, 1)).await;
    within(b.messaging.shutdown()).await;
    let problem = within(a.problem(&b.name)).await;
    let said = problem.reason();
    assert!(
        said == Some(tally_messaging::Reason::Stopping)
            || matches!(*problem, tally_messaging::ConnectionError::Unreachable { .. }),
        "{problem}"
    );
    assert_eq!(b.messaging.connections(), 0);
    // Harmless afterwards.
    b.send(&a.name, &text(2));
    within(b.messaging.shutdown()).await;
}
