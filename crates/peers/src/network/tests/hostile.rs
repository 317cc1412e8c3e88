//! Those who are not who they say, and those who only want to do harm.

use super::support::*;
use crate::frame::{ChunkLane, FrameFault};
use crate::handshake::{Opening, Refusal};
use crate::tls::Tls;
use crate::{DisconnectReason, Enode, Event, NoEvent};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

#[test]
fn a_man_in_the_middle_gets_nowhere() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let middle = listener.local_addr().unwrap();
    let to = b.at();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut near = Tls::new().unwrap().acceptor.accept(BufReader::new(stream)).await.unwrap();
            let mut far = Raw::connect(to).await.stream;
            drop(copy_bidirectional(&mut near, &mut far).await);
        }
    });
    let a = Node::start(&runtime, 1, |config| {
        config.known = vec![Enode::new(key(2).id(), middle)];
    });
    assert!(a.failure().starts_with("the peer refused: the proof of the node's key does not hold"));
    assert_eq!(a.events.try_recv().unwrap_err(), NoEvent::Timeout);
    assert_eq!(b.events.try_recv().unwrap_err(), NoEvent::Timeout);
}

#[test]
fn an_impostor_without_the_key_gets_nowhere() {
    let runtime = runtime();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let at = listener.local_addr().unwrap();
    // It answers the hello with that of another session, which is the best that it has.
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stream = Tls::new().unwrap().acceptor.accept(BufReader::new(stream)).await.unwrap();
            let mut stream = stream;
            let mut hello = vec![0; 1024];
            let read = stream.read(&mut hello).await.unwrap();
            stream.write_all(&hello[..read]).await.unwrap();
            stream.flush().await.unwrap();
            drop(stream.read(&mut hello).await);
        }
    });
    let a = Node::start(&runtime, 1, |config| config.known = vec![Enode::new(key(2).id(), at)]);
    assert!(a.failure().starts_with("refused the peer: the proof of the node's key"), "{}", a.failure());
    assert_eq!(a.events.try_recv().unwrap_err(), NoEvent::Timeout);
}

#[test]
fn a_hello_that_was_recorded_is_worth_nothing() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    runtime.block_on(async {
        let recorded = Raw::connect(b.at()).await.hello(&key(1), 1, &b.network.id());
        let mut raw = Raw::connect(b.at()).await;
        raw.write(&recorded).await;
        assert_eq!(raw.read_opening().await, Opening::Refused(Refusal::Proof));
        let mut raw = Raw::connect(b.at()).await;
        let meant_for_another = raw.hello(&key(1), 1, &key(3).id());
        raw.write(&meant_for_another).await;
        assert_eq!(raw.read_opening().await, Opening::Refused(Refusal::Proof));
    });
    assert_eq!(b.events.try_recv().unwrap_err(), NoEvent::Timeout);
}

#[test]
fn a_handshake_that_is_cut_off_anywhere_leaves_nothing() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    runtime.block_on(async {
        let mut length = 0;
        loop {
            let mut raw = Raw::connect(b.at()).await;
            let hello = raw.hello(&key(1), 1, &b.network.id());
            if length >= hello.len() {
                // Hello without a word after the answer.
                raw.write(&hello).await;
                raw.read_opening().await;
                break;
            }
            raw.write(&hello[..length]).await;
            length += 1;
        }
        let mut raw = Raw::connect(b.at()).await;
        raw.write(&[1, 2, 1]).await;
        assert!(raw.is_closed_within(LONG).await, "a length beyond the limit is not waited for");
    });
    assert_eq!(b.events.try_recv().unwrap_err(), NoEvent::Timeout);
    // And there is no trace of it when the node itself comes.
    drop(runtime.block_on(Raw::session(&b, 1, 1)));
    assert_eq!(b.expect_connected(), key(1).address());
}

#[test]
fn a_session_that_is_cut_off_anywhere_delivers_whole_messages_only() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let bytes = message(ChunkLane::Urgent, VOTE, b"payload");
    for length in 0..=bytes.len() {
        let mut raw = runtime.block_on(Raw::session(&b, 1, length as u64));
        b.expect_connected();
        runtime.block_on(raw.write(&bytes[..length]));
        if length == bytes.len() {
            assert!(matches!(b.next(), Event::Message { kind: VOTE, .. }));
        }
        drop(raw);
        assert!(matches!(b.expect_disconnected(), DisconnectReason::Closed | DisconnectReason::Broken(_)));
    }
}

#[test]
fn whoever_says_nothing_is_not_waited_for() {
    let runtime = runtime();
    let b = Node::start(&runtime, 2, |config| config.timing.handshake = Duration::from_millis(200));
    runtime.block_on(async {
        let mut silent = TcpStream::connect(b.at()).await.unwrap();
        let mut slow = TcpStream::connect(b.at()).await.unwrap();
        slow.write_all(&[22]).await.unwrap();
        let mut polite = Raw::connect(b.at()).await;
        polite.write(&[1]).await;
        let mut byte = [0];
        assert!(matches!(silent.read(&mut byte).await, Ok(0) | Err(_)));
        assert!(matches!(slow.read(&mut byte).await, Ok(0) | Err(_)));
        assert!(polite.is_closed_within(LONG).await);
    });
}

#[test]
fn thousands_at_the_door_do_not_keep_a_node_out() {
    let runtime = runtime();
    let b = Node::start(&runtime, 2, |config| {
        config.limits.handshakes = 16;
        config.limits.inbound_from_address = 64;
        config.timing.handshake = LONG;
    });
    let to = b.at();
    let others: Vec<_> = runtime.block_on(async {
        let mut others = Vec::new();
        for number in 0..3000 {
            let other = TcpStream::connect(to).await.unwrap();
            // As many file descriptors as a process usually has.
            if number < 400 {
                others.push(other);
            }
        }
        others
    });
    let a = Node::knowing(&runtime, 1, &[&b]);
    assert_eq!(b.expect_connected(), a.address());
    drop(others);
    assert_eq!(b.network.peer_count(), 1);
}

#[test]
fn one_address_gets_so_many_connections() {
    let runtime = runtime();
    let b = Node::start(&runtime, 2, |config| config.limits.inbound_from_address = 2);
    let sessions: Vec<_> = (1..3).map(|number| runtime.block_on(Raw::session(&b, number + 10, 1))).collect();
    for _ in &sessions {
        b.expect_connected();
    }
    runtime.block_on(async {
        let mut third = TcpStream::connect(b.at()).await.unwrap();
        assert!(matches!(third.read(&mut [0]).await, Ok(0) | Err(_)));
    });
    drop(sessions);
    b.expect_disconnected();
    b.expect_disconnected();
    // The place is free as soon as the task of the session has ended.
    until(|| b.network.core.state().admission.enter([127, 0, 0, 1].into()));
}

#[test]
fn whoever_breaks_the_protocol_is_dropped_and_then_refused() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let mut too_long = message(ChunkLane::Urgent, VOTE, b"x");
    too_long[14..18].copy_from_slice(&(9_u32 << 20).to_be_bytes());
    let mut raw = runtime.block_on(Raw::session(&b, 1, 1));
    b.expect_connected();
    runtime.block_on(raw.write(&too_long));
    assert!(matches!(
        b.expect_disconnected(),
        DisconnectReason::Violation(FrameFault::Long { name: "vote", longest: 8_388_608, .. })
    ));
    assert!(runtime.block_on(raw.is_closed_within(LONG)));
    let mut raw = runtime.block_on(Raw::session(&b, 1, 2));
    b.expect_connected();
    assert_eq!(b.network.peers()[0].score, 40);
    runtime.block_on(raw.write(&[255; 64]));
    assert_eq!(b.expect_disconnected(), DisconnectReason::Violation(FrameFault::Header { found: 255 }));
    runtime.block_on(async {
        let mut raw = Raw::connect(b.at()).await;
        let hello = raw.hello(&key(1), 3, &b.network.id());
        raw.write(&hello).await;
        let refused = raw.read_opening().await;
        assert!(
            matches!(refused, Opening::Refused(Refusal::Misbehaved { seconds }) if seconds > 3000),
            "a stranger stays away for long: {refused:?}"
        );
    });
}

#[test]
fn bulk_without_credit_is_not_taken() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let mut raw = runtime.block_on(Raw::session(&b, 1, 1));
    b.expect_connected();
    let part = message(ChunkLane::Bulk, TRANSACTIONS, &[0; 64 << 10]);
    runtime.block_on(async {
        // The host takes nothing, so there is credit for two windows at most.
        for _ in 0..130 {
            if raw.stream.write_all(&part).await.is_err() || raw.stream.flush().await.is_err() {
                break;
            }
        }
    });
    assert_eq!(b.expect_disconnected_after_messages(), DisconnectReason::Violation(FrameFault::Credit));
}

#[test]
fn urgent_messages_that_the_host_does_not_take_are_not_read() {
    let runtime = runtime();
    let b = Node::start(&runtime, 2, |config| config.limits.urgent_bytes = 256 << 10);
    let mut raw = runtime.block_on(Raw::session(&b, 1, 1));
    b.expect_connected();
    let part = message(ChunkLane::Urgent, VOTE, &[0; 32 << 10]);
    let mut sent = 0_u64;
    runtime.block_on(async {
        let flood = async {
            loop {
                raw.stream.write_all(&part).await.unwrap();
                raw.stream.flush().await.unwrap();
                sent += 1;
            }
        };
        // Until nothing moves any more: the buffers of the system are full.
        assert!(tokio::time::timeout(Duration::from_millis(500), flood).await.is_err());
    });
    let read = b.network.peers()[0].messages_in;
    assert!(read <= 9, "{read} messages of 32 KiB were read");
    assert!(sent > read);
    for _ in 0..read + 20 {
        assert!(matches!(b.next(), Event::Message { kind: VOTE, .. }), "it goes on when they are taken");
    }
}

#[test]
fn whoever_asks_without_reading_is_dropped() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let mut raw = runtime.block_on(Raw::session(&b, 1, 1));
    b.expect_connected();
    let pings: Vec<u8> = ping().repeat(4096);
    runtime.block_on(async {
        for _ in 0..10_000 {
            if raw.stream.write_all(&pings).await.is_err() || raw.stream.flush().await.is_err() {
                break;
            }
        }
    });
    assert_eq!(b.expect_disconnected(), DisconnectReason::Flood);
}

impl Node {
    /// The next event that is no message, which is that a peer has gone.
    fn expect_disconnected_after_messages(&self) -> DisconnectReason {
        loop {
            match self.next() {
                Event::Message { .. } => {}
                Event::Disconnected { reason, .. } => return reason,
                other => panic!("{other:?}"),
            }
        }
    }
}
