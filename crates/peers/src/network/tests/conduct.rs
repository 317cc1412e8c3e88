//! How peers are treated that ask, that are slow, and that misbehave.

use super::support::*;
use crate::frame::{Goodbye, Unanswered};
use crate::{DisconnectReason, Event, RequestError, SendError};
use bytes::Bytes;
use std::time::Duration;

fn pair(runtime: &tokio::runtime::Runtime) -> (Node, Node) {
    let b = Node::plain(runtime, 2);
    let a = Node::knowing(runtime, 1, &[&b]);
    a.expect_connected();
    b.expect_connected();
    (a, b)
}

#[test]
fn requests_are_answered_refused_or_given_up() {
    let runtime = runtime();
    let (a, b) = pair(&runtime);
    let ask = |payload: &'static str, timeout| {
        a.network.request(&b.address(), BLOCKS, Bytes::from_static(payload.as_bytes()), timeout)
    };
    let asked = || match b.next() {
        Event::Request { payload, respond, .. } => (payload, respond),
        other => panic!("{other:?}"),
    };
    let pending = ask("1", LONG);
    let (payload, respond) = asked();
    assert_eq!(payload, "1");
    respond.send(Bytes::from(vec![3; 5 << 20])).unwrap();
    assert_eq!(pending.wait().unwrap().len(), 5 << 20);

    let pending = ask("2", LONG);
    drop(asked());
    assert_eq!(pending.wait(), Err(RequestError::Unanswered(Unanswered::Refused)));

    let pending = ask("3", Duration::from_millis(20));
    let (_, late) = asked();
    assert_eq!(runtime.block_on(pending), Err(RequestError::Timeout));
    late.send(Bytes::from_static(b"late")).unwrap();

    let pending = ask("4", LONG);
    let (_, respond) = asked();
    let long = respond.send(Bytes::from(vec![0; (8 << 20) + 1]));
    assert!(matches!(long, Err(SendError::Long { .. })));
    assert_eq!(pending.wait(), Err(RequestError::Unanswered(Unanswered::Refused)), "it is not left waiting");

    assert_eq!(
        a.network.request(&b.address(), VOTE, Bytes::new(), LONG).wait(),
        Err(RequestError::Send(SendError::Kind { kind: VOTE }))
    );
    assert_eq!(a.network.send(&b.address(), BLOCKS, Bytes::new()), Err(SendError::Kind { kind: BLOCKS }));
    let long = ask(&*"x".repeat(65).leak(), LONG).wait();
    assert!(matches!(long, Err(RequestError::Send(SendError::Long { longest: 64, found: 65, .. }))));
}

#[test]
fn a_peer_that_asks_too_much_at_once_is_told_so() {
    let runtime = runtime();
    let b = Node::start(&runtime, 2, |config| config.limits.requests = 2);
    let a = Node::knowing(&runtime, 1, &[&b]);
    a.expect_connected();
    b.expect_connected();
    let ask = || a.network.request(&b.address(), BLOCKS, Bytes::new(), LONG);
    let (first, _second, third) = (ask(), ask(), ask());
    assert_eq!(third.wait(), Err(RequestError::Unanswered(Unanswered::Busy)));
    let Event::Request { respond, .. } = b.next() else { panic!("no request") };
    respond.send(Bytes::from_static(b"one")).unwrap();
    assert_eq!(first.wait().unwrap(), "one");
    let fourth = ask();
    let Event::Request { respond: second, .. } = b.next() else { panic!("no request") };
    let Event::Request { respond, .. } = b.next() else { panic!("no request") };
    respond.send(Bytes::from_static(b"four")).unwrap();
    assert_eq!(fourth.wait().unwrap(), "four");
    second.refuse();
}

#[test]
fn a_host_that_takes_no_bulk_stops_bulk_and_nothing_else() {
    let runtime = runtime();
    let (a, b) = pair(&runtime);
    let megabyte = Bytes::from(vec![1; 1 << 20]);
    let mut sent = 0_u64;
    let full = loop {
        match a.network.send(&b.address(), TRANSACTIONS, megabyte.clone()) {
            Ok(()) => sent += 1,
            Err(error) => {
                // What is under way may still make room, until the window is used up.
                let waiting = a.network.peers()[0].bulk_waiting;
                let out = a.network.peers()[0].bytes_out;
                if waiting >= 15 << 20 && out >= 1 << 20 {
                    break error;
                }
            }
        }
        assert!(sent < 100, "{sent} MB are sent to a host that takes nothing");
    };
    assert_eq!(full, SendError::Full { peer: b.address() });
    a.network.send(&b.address(), VOTE, Bytes::from_static(b"now")).unwrap();
    until(|| b.network.peers()[0].messages_in >= 2);
    assert!(matches!(b.next(), Event::Message { kind: VOTE, .. }), "urgent ones go ahead, here too");
    for _ in 0..sent {
        assert!(matches!(b.next(), Event::Message { kind: TRANSACTIONS, .. }), "and all of it arrives");
    }
}

#[test]
fn a_peer_that_does_not_read_is_refused_bulk_and_then_dropped() {
    let runtime = runtime();
    let b = Node::start(&runtime, 2, |config| config.limits.urgent_bytes = 1 << 20);
    let mut raw = runtime.block_on(Raw::session(&b, 1, 1));
    let peer = b.expect_connected();
    let part = Bytes::from(vec![1; 64 << 10]);
    let mut bulk = 0;
    while b.network.send(&peer, TRANSACTIONS, part.clone()).is_ok() {
        bulk += part.len();
    }
    assert!(bulk <= 18 << 20, "{bulk} bytes of bulk");
    let mut urgent = 0;
    let error = loop {
        match b.network.send(&peer, VOTE, part.clone()) {
            Ok(()) => urgent += part.len(),
            Err(error) => break error,
        }
    };
    assert_eq!(error, SendError::Slow { peer });
    assert!(urgent <= 32 << 20, "{urgent} bytes beyond what the system takes");
    assert_eq!(b.expect_disconnected(), DisconnectReason::Slow);
    assert!(runtime.block_on(raw.is_closed_within(LONG)));
}

#[test]
fn a_peer_that_misbehaves_is_dropped_and_a_known_one_comes_back() {
    let runtime = runtime();
    let a = Node::plain(&runtime, 1);
    let b = Node::start(&runtime, 2, |config| {
        config.known = vec![a.enode()];
        config.scores.first_exile = Duration::from_millis(300);
    });
    a.network.add(b.enode()).unwrap();
    a.expect_connected();
    let peer = b.expect_connected();
    assert!(!b.network.report(&peer, 40));
    assert_eq!(b.network.peers()[0].score, 60);
    assert!(b.network.report(&peer, 60));
    assert_eq!(b.expect_disconnected(), DisconnectReason::Misbehaved);
    assert_eq!(a.expect_disconnected(), DisconnectReason::Said(Goodbye::Misbehaved));
    assert_eq!(b.expect_connected(), peer, "the exile is over");
    assert!(!b.network.report(&alloy_primitives::Address::ZERO, 1000), "nobody there");
}

#[test]
fn a_dead_peer_is_noticed() {
    let runtime = runtime();
    let b = Node::start(&runtime, 2, |config| {
        config.timing.ping = Duration::from_millis(50);
        config.timing.silence = Duration::from_millis(1500);
    });
    // It keeps the connection and answers no ping.
    let mut raw = runtime.block_on(Raw::session(&b, 1, 1));
    b.expect_connected();
    assert_eq!(b.expect_disconnected(), DisconnectReason::Silent);
    assert!(runtime.block_on(raw.is_closed_within(LONG)));
    let a = Node::start(&runtime, 3, |config| {
        config.known = vec![b.enode()];
        config.timing.ping = Duration::from_millis(50);
        config.timing.silence = Duration::from_millis(1500);
    });
    a.expect_connected();
    assert!(a.events.recv_timeout(Duration::from_millis(2500)).is_err(), "a quiet one that answers stays");
}

#[test]
fn the_host_is_woken() {
    let runtime = runtime();
    let (sender, receiver) = std::sync::mpsc::channel();
    let b = Node::start(&runtime, 2, |config| {
        config.waker = Some(Box::new(move || sender.send(()).unwrap()));
    });
    let a = Node::knowing(&runtime, 1, &[&b]);
    receiver.recv_timeout(LONG).unwrap();
    b.expect_connected();
    a.expect_connected();
    a.network.send(&b.address(), VOTE, Bytes::new()).unwrap();
    receiver.recv_timeout(LONG).unwrap();
    assert!(b.events.try_recv().is_ok());
    b.network.stop_and_wait();
    receiver.recv_timeout(LONG).unwrap();
}
