use super::*;
use crate::key::NodeKey;
use alloy_primitives::B256;

fn hello(id: NodeId, instance: u64) -> Hello {
    let client = String::new();
    Hello {
        oldest: 1,
        newest: 1,
        id,
        network_id: 1,
        genesis: B256::ZERO,
        instance,
        window: 0,
        port: 0,
        client,
    }
}

/// Two nodes, the one with the smaller key first.
fn two() -> (NodeId, NodeId) {
    let (a, b) = (NodeKey::new(&[1; 32]).unwrap().id(), NodeKey::new(&[2; 32]).unwrap().id());
    (a.min(b), a.max(b))
}

fn table(own: NodeId) -> Admission {
    Admission::new(own, 2, 2)
}

fn held(connection: u64, role: Role) -> Held {
    Held { connection, role, instance: 7 }
}

const CROSSED: Refused = Refused { why: Refusal::AlreadyConnected, probe: false };

#[test]
fn of_two_that_meet_half_way_the_one_of_the_smaller_stands() {
    let (small, large) = two();
    let (mut at_small, mut at_large) = (table(small), table(large));
    assert!(at_small.propose(large) && at_large.propose(small));
    assert_eq!(at_small.answer(&hello(large, 7), true), Err(CROSSED));
    assert_eq!(at_large.answer(&hello(small, 7), true), Ok(()));
    at_large.proposed(&small);
    at_large.answered(&small);
    at_small.proposed(&large);
    assert!(at_large.opened(small, held(1, Role::Responder)).is_none());
    assert!(at_small.opened(large, held(1, Role::Initiator)).is_none());
    assert!(!at_small.propose(large) && !at_large.propose(small), "one is enough");
}

#[test]
fn whoever_answers_does_not_propose() {
    let (small, large) = two();
    let mut at_small = table(small);
    at_small.answer(&hello(large, 7), true).unwrap();
    assert!(!at_small.propose(large));
    at_small.answered(&large);
    assert!(at_small.propose(large) && !at_small.propose(large));
}

#[test]
fn a_session_that_the_other_has_lost_gives_way() {
    let (small, large) = two();
    let mut at_small = table(small);
    at_small.opened(large, held(1, Role::Initiator));
    let late = at_small.answer(&hello(large, 7), true);
    assert_eq!(late, Err(Refused { why: Refusal::AlreadyConnected, probe: true }), "it may have crossed");
    assert_eq!(at_small.answer(&hello(large, 8), true), Ok(()), "the other has restarted");
    assert_eq!(at_small.opened(large, held(2, Role::Responder)).map(|held| held.connection), Some(1));
    assert!(!at_small.closed(&large, 1), "the old one counts no more");
    assert_eq!(at_small.answer(&hello(large, 7), true), Ok(()), "it would not say hello if it had it");
    assert!(at_small.closed(&large, 2));

    let mut at_large = table(large);
    at_large.opened(small, held(1, Role::Initiator));
    assert_eq!(at_large.answer(&hello(small, 7), true), Ok(()), "what the smaller opens stands");
}

#[test]
fn strangers_find_room_or_not_and_known_peers_always() {
    let (small, _) = two();
    let mut table = table(small);
    let id = |number: u8| NodeKey::new(&[number; 32]).unwrap().id();
    for number in 10..12 {
        assert_eq!(table.answer(&hello(id(number), 1), false), Ok(()));
        table.opened(id(number), held(u64::from(number), Role::Responder));
    }
    let full = Err(Refused { why: Refusal::TooManyPeers, probe: false });
    assert_eq!(table.answer(&hello(id(12), 1), false), full);
    assert!(!table.has_room(&id(12)) && table.has_room(&id(11)));
    assert_eq!(table.answer(&hello(id(12), 1), true), Ok(()));
}

#[test]
fn one_address_does_not_take_every_place() {
    let (small, _) = two();
    let mut table = table(small);
    let (here, there) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    assert!(table.enter(here) && table.enter(here) && !table.enter(here) && table.enter(there));
    table.leave(here);
    assert!(table.enter(here));
    for _ in 0..2 {
        table.leave(here);
    }
    table.leave(there);
    assert!(table.from.is_empty());
}
