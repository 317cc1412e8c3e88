//! Nodes that find each other, lose each other, and may or may not talk.

use super::support::*;
use crate::permissions::{Lists, Permissions};
use crate::{AddError, DisconnectReason, Enode, Event, NoEvent, Role};
use bytes::Bytes;
use std::time::Duration;

#[test]
fn two_nodes_meet_and_talk_both_ways() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let a = Node::knowing(&runtime, 1, &[&b]);
    assert_eq!((a.expect_connected(), b.expect_connected()), (b.address(), a.address()));
    a.network.send(&b.address(), VOTE, Bytes::from_static(b"yes")).unwrap();
    assert!(b.network.broadcast(TRANSACTIONS, &Bytes::from(vec![7; 3 << 20])).is_empty());
    assert!(
        matches!(b.next(), Event::Message { peer, kind: VOTE, payload } if peer == a.address() && payload == "yes")
    );
    assert!(
        matches!(a.next(), Event::Message { kind: TRANSACTIONS, payload, .. } if payload == vec![7; 3 << 20])
    );
    until(|| a.network.peers()[0].round_trip.is_some());
    let (at_a, at_b) = (a.network.peers().remove(0), b.network.peers().remove(0));
    assert_eq!((at_a.role, at_b.role), (Role::Initiator, Role::Responder));
    assert_eq!((at_a.known, at_b.known), (true, false));
    assert_eq!((at_a.enode, at_b.enode), (b.enode(), a.enode()), "the port where it listens is said");
    assert!(at_a.bytes_in > 3 << 20 && at_b.bytes_in > 3 && at_a.score == 100);
}

#[test]
fn nodes_that_connect_to_each_other_at_once_end_with_one_session() {
    let runtime = runtime();
    for round in 0..20 {
        let a = Node::plain(&runtime, 10 + round);
        let b = Node::plain(&runtime, 50 + round);
        a.network.add(b.enode()).unwrap();
        b.network.add(a.enode()).unwrap();
        assert_eq!(a.expect_connected(), b.address());
        assert_eq!(b.expect_connected(), a.address());
        a.network.send(&b.address(), VOTE, Bytes::from_static(b"a")).unwrap();
        b.network.send(&a.address(), VOTE, Bytes::from_static(b"b")).unwrap();
        assert!(matches!(a.next(), Event::Message { .. }), "one session, and it stands");
        assert!(matches!(b.next(), Event::Message { .. }), "one session, and it stands");
        assert_ne!(a.network.peers()[0].role, b.network.peers()[0].role);
    }
}

#[test]
fn nodes_that_do_not_belong_together_learn_why() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let other_network = Node::start(&runtime, 1, |config| {
        config.network_id = 5;
        config.known = vec![b.enode()];
    });
    assert_eq!(other_network.failure(), "the peer refused: it is on network 1337");
    let other_chain = Node::start(&runtime, 3, |config| {
        config.genesis = alloy_primitives::B256::ZERO;
        config.known = vec![b.enode()];
    });
    assert_eq!(other_chain.failure(), "the peer refused: its chain has another genesis block");
    let mistaken = Node::start(&runtime, 4, |config| {
        config.known = vec![Enode { id: key(77).id(), ..b.enode() }];
    });
    assert!(mistaken.failure().ends_with("or is meant for another node"), "{}", mistaken.failure());
    let twin = Node::start(&runtime, 2, |_| ());
    assert_eq!(twin.network.add(b.enode()), Err(AddError::Itself));
    assert_eq!(b.events.try_recv().unwrap_err(), NoEvent::Timeout);
}

#[test]
fn there_is_room_for_so_many_strangers_and_for_known_peers() {
    let runtime = runtime();
    let known = Node::plain(&runtime, 9);
    let b = Node::start(&runtime, 2, |config| config.limits.peers = 1);
    let first = Node::knowing(&runtime, 1, &[&b]);
    assert_eq!(b.expect_connected(), first.address());
    let second = Node::knowing(&runtime, 3, &[&b]);
    assert_eq!(second.failure(), "the peer refused: it has as many peers as it may");
    b.network.add(known.enode()).unwrap();
    assert_eq!(b.expect_connected(), known.address());
    assert_eq!(b.network.peer_count(), 2);
}

#[test]
fn a_peer_that_was_away_is_found_again() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let at = b.at();
    let a = Node::knowing(&runtime, 1, &[&b]);
    a.expect_connected();
    // Until then a node that stops breaks off the handshake.
    b.expect_connected();
    let pending = a.network.request(&b.address(), BLOCKS, Bytes::new(), LONG);
    b.network.stop_and_wait();
    assert_eq!(pending.wait(), Err(crate::RequestError::Disconnected));
    assert_eq!(a.expect_disconnected(), DisconnectReason::Said(crate::frame::Goodbye::Stopping));
    assert_eq!(
        a.network.send(&b.address(), VOTE, Bytes::new()),
        Err(crate::SendError::NotConnected { peer: b.address() })
    );
    while b.events.recv().is_some() {}
    until(|| a.network.known()[0].failure.is_some());
    let b = Node::start(&runtime, 2, |config| config.listen = Some(at));
    assert_eq!((a.expect_connected(), b.expect_connected()), (b.address(), a.address()));
}

#[test]
fn a_peer_is_added_and_removed_while_the_node_runs() {
    let runtime = runtime();
    let (a, b) = (Node::plain(&runtime, 1), Node::plain(&runtime, 2));
    assert_eq!(a.network.add(b.enode()), Ok(true));
    assert_eq!(a.network.add(b.enode()), Ok(false));
    a.expect_connected();
    assert!(a.network.remove(&b.network.id()));
    assert_eq!(a.expect_disconnected(), DisconnectReason::Removed);
    assert!(a.network.known().is_empty() && !a.network.remove(&b.network.id()));
    b.expect_connected();
    assert_eq!(b.expect_disconnected(), DisconnectReason::Said(crate::frame::Goodbye::Removed));
}

#[test]
fn permissions_count_from_when_they_are_read_again() {
    let runtime = runtime();
    let a = Node::plain(&runtime, 1);
    let only_a = Lists { nodes: Some([(a.network.id(), a.enode())].into()), accounts: None };
    let permissions = Permissions::of(only_a.clone());
    let b = Node::start(&runtime, 2, |config| config.permissions = permissions.clone());
    a.network.add(b.enode()).unwrap();
    a.expect_connected();
    b.expect_connected();
    let stranger = Node::knowing(&runtime, 3, &[&b]);
    assert_eq!(stranger.failure(), "the peer refused: the node is not on the list of permitted nodes");
    assert_eq!(b.network.add(stranger.enode()), Err(AddError::NotPermitted));

    permissions.replace(Lists { nodes: Some([].into()), accounts: None });
    b.network.apply_permissions();
    assert_eq!(b.expect_disconnected(), DisconnectReason::NotPermitted);
    assert_eq!(a.expect_disconnected(), DisconnectReason::Said(crate::frame::Goodbye::NotPermitted));
    permissions.replace(only_a);
    b.network.apply_permissions();
    assert_eq!(b.expect_connected(), a.address());
}

#[test]
fn a_node_that_restarted_takes_its_place_at_once() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let mut before = runtime.block_on(Raw::session(&b, 1, 1));
    b.expect_connected();
    let _after = runtime.block_on(Raw::session(&b, 1, 2));
    assert_eq!(b.expect_disconnected(), DisconnectReason::Replaced);
    assert_eq!(b.expect_connected(), key(1).address());
    assert!(runtime.block_on(before.is_closed_within(LONG)));
    assert_eq!(b.network.peer_count(), 1);
}

#[test]
fn a_name_is_looked_up() {
    let runtime = runtime();
    let b = Node::plain(&runtime, 2);
    let a = Node::start(&runtime, 1, |config| {
        config.known = vec![Enode { host: "localhost".parse().unwrap(), ..b.enode() }];
    });
    assert_eq!(a.expect_connected(), b.address());
    let lost = Node::start(&runtime, 3, |config| {
        config.known = vec![Enode { host: "nowhere.invalid".parse().unwrap(), ..b.enode() }];
        config.timing.connect = Duration::from_secs(2);
    });
    assert!(!lost.failure().is_empty());
}
