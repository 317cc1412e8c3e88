//! What a peer with valid keys may use of a node, and that others keep what is theirs.

use serde_json::json;
use tally_contracts::{Name, Timestamp};

use super::behaviour::registry;
use super::world::{World, name};
use crate::message::{Body, encode};
use crate::{Delivered, DeliveryError, FlowError, FlowId, Limits, Message, SessionId};

fn small() -> Limits {
    Limits { flows: 8, peers_flows: 6, peer_flows: 4, peer_bytes: 12_000, ..Limits::default() }
}

fn deliver(world: &World, from: &str, message: &Message) -> Result<Delivered, DeliveryError> {
    let taken = world.node("Bob").engine.deliver(&name(from), message.encode(), 1, [7; 32], world.now);
    world.settle();
    taken
}

/// The `number`th session of a liar at `from`, and the flow at Bob that answers it.
fn session(from: &Name, number: u8) -> (SessionId, FlowId) {
    let mut bytes = [number; 16];
    bytes[..4].copy_from_slice(&from.to_string().as_bytes()[2..6]);
    let session = SessionId(bytes);
    (session, FlowId::of_session(from, session))
}

/// Has Bob do as it is ordered, in a session of its own.
fn order(world: &World, from: &str, number: u8, what: &str) -> FlowId {
    let (session, flow) = session(&name(from), number);
    let body = Body::Open { flow: "Ask".to_owned(), version: 1, payload: Some(encode(what)) };
    let message = Message { session, number: 0, last: false, body };
    assert_eq!(deliver(world, from, &message).expect("a good message"), Delivered::Taken(flow));
    flow
}

fn say(world: &World, from: &str, number: u8, place: u64, bytes: usize) -> Delivered {
    let (session, _) = session(&name(from), number);
    let body = Body::Data(vec![0; bytes]);
    let message = Message { session, number: place, last: false, body };
    deliver(world, from, &message).expect("a good message")
}

#[test]
fn a_peer_that_fills_its_share_keeps_nobody_out() {
    let mut world = World::with_limits(registry, small());
    for number in 0..4 {
        let flow = order(&world, "Alice", number, "wait");
        assert_eq!(world.outcome("Bob", flow), None);
    }
    let refused = order(&world, "Alice", 4, "wait");
    assert_eq!(world.outcome("Bob", refused), Some(Err(FlowError::Busy { limit: 4 })));
    assert_eq!(world.node("Bob").engine.share_of(&name("Alice")).0, 4);
    // Others have their own share.
    order(&world, "Carol", 0, "wait");
    order(&world, "Carol", 1, "wait");
    let refused = order(&world, "Carol", 2, "wait");
    assert_eq!(world.outcome("Bob", refused), Some(Err(FlowError::Busy { limit: 6 })));
    // What peers together cannot use up is for Bob's own users, and what these start of Bob himself is theirs.
    let own = world.start("Bob", "Ask", &json!({ "to": "Bob answer" })).expect("a start");
    world.settle();
    assert!(matches!(world.outcome("Bob", own), Some(Ok(_))));

    // Nothing is heard of them for a day: their flows end, and there is room again.
    world.now = Timestamp::from_millis(world.now.as_millis() + world.limits.silence_ms);
    world.settle();
    assert!(world.node("Bob").engine.is_empty());
    let (_, first) = session(&name("Alice"), 0);
    assert_eq!(world.outcome("Bob", first), Some(Err(FlowError::Timeout { party: name("Alice") })));
    assert_eq!(world.node("Bob").engine.share_of(&name("Alice")), (0, 0));
    let flow = order(&world, "Alice", 5, "answer");
    assert!(matches!(world.outcome("Bob", flow), Some(Ok(_))));
}

#[test]
fn a_peer_that_is_heard_of_is_not_silent_and_a_person_decides_about_what_is_paused() {
    let mut world = World::with_limits(registry, small());
    let (heard, paused) = (order(&world, "Alice", 0, "wait"), order(&world, "Alice", 1, "wait"));
    world.node("Bob").engine.pause(paused).expect("a pause");
    let half = world.limits.silence_ms / 2 + 1;
    world.now = Timestamp::from_millis(world.now.as_millis() + half);
    world.settle();
    say(&world, "Alice", 0, 1, 10);
    world.now = Timestamp::from_millis(world.now.as_millis() + half);
    world.settle();
    assert_eq!((world.outcome("Bob", heard), world.outcome("Bob", paused)), (None, None));
    // The time that Bob himself was away is not the peer's silence.
    world.now = Timestamp::from_millis(world.now.as_millis() + half);
    world.restart("Bob", registry);
    world.settle();
    assert_eq!(world.outcome("Bob", heard), None);
    assert_eq!(world.node("Bob").engine.share_of(&name("Alice")).0, 2, "counted again after a restart");
    world.now = Timestamp::from_millis(world.now.as_millis() + 2 * half);
    world.settle();
    assert!(matches!(world.outcome("Bob", heard), Some(Err(FlowError::Timeout { .. }))));
    assert_eq!(world.outcome("Bob", paused), None);
    world.node("Bob").engine.retry(paused).expect("a retry");
    world.settle();
    assert!(matches!(world.outcome("Bob", paused), Some(Err(FlowError::Timeout { .. }))));
}

#[test]
fn what_a_peer_leaves_unread_is_bounded_in_all_its_sessions_together() {
    let mut world = World::with_limits(registry, small());
    let (deaf, hears) = (order(&world, "Alice", 0, "wait"), order(&world, "Alice", 1, "listen"));
    assert!(matches!(say(&world, "Alice", 0, 1, 5_000), Delivered::Taken(_)));
    assert!(matches!(say(&world, "Alice", 0, 2, 5_000), Delivered::Taken(_)));
    let (_, bytes) = world.node("Bob").engine.share_of(&name("Alice"));
    assert!((10_000..12_000).contains(&bytes), "{bytes}");
    // One more is more than her share: it ends the session that it came in, in words that both sides hear.
    say(&world, "Alice", 1, 1, 5_000);
    let Some(Err(FlowError::TooLarge { limit: 12_000, .. })) = world.outcome("Bob", hears) else {
        panic!("the session ends with the limit: {:?}", world.outcome("Bob", hears))
    };
    // Also where the flow does not look: what comes after it is not kept.
    assert!(matches!(say(&world, "Alice", 0, 3, 5_000), Delivered::Taken(_)));
    assert_eq!(say(&world, "Alice", 0, 4, 10), Delivered::Late);
    world.restart("Bob", registry);
    world.settle();
    assert_eq!(say(&world, "Alice", 0, 5, 10), Delivered::Late, "ended durably");
    let (_, again) = world.node("Bob").engine.share_of(&name("Alice"));
    assert!((10_000..12_000).contains(&again), "{again}");
    // Carol's share is hers.
    let carols = order(&world, "Carol", 0, "wait");
    assert!(matches!(say(&world, "Carol", 0, 1, 5_000), Delivered::Taken(_)));
    // The flow goes, and with it what was kept for it.
    for flow in [deaf, carols] {
        world.node("Bob").engine.kill(flow).expect("a kill");
    }
    world.settle();
    assert_eq!(world.node("Bob").engine.share_of(&name("Alice")), (0, 0));
    let flow = order(&world, "Alice", 2, "answer");
    assert!(matches!(world.outcome("Bob", flow), Some(Ok(_))));
}

#[test]
fn only_a_node_itself_says_that_it_ended_a_session() {
    let world = World::with_limits(registry, small());
    let flow = order(&world, "Alice", 0, "listen");
    let (session, _) = session(&name("Alice"), 0);
    let body = Body::Cut(FlowError::Killed);
    let message = Message { session, number: 1, last: true, body };
    assert!(matches!(deliver(&world, "Alice", &message), Err(DeliveryError::Undecodable(_))));
    assert_eq!(world.outcome("Bob", flow), None);
}

#[test]
fn the_flows_of_a_peer_that_is_no_longer_a_member_end_durably() {
    let mut world = World::with_limits(registry, small());
    let (first, second) = (order(&world, "Alice", 0, "wait"), order(&world, "Alice", 1, "listen"));
    let carols = order(&world, "Carol", 0, "wait");
    let own = world.start("Bob", "Ask", &json!({ "to": "Alice wait" })).expect("a start");
    world.settle();
    let gone = FlowError::UnknownParty { name: name("Alice").to_string() };
    let engine = &world.node("Bob").engine;
    assert_eq!(engine.starters().len(), 2);
    assert_eq!(engine.end_of_peer(&name("Alice"), &gone), 2);
    world.settle();
    for flow in [first, second] {
        assert_eq!(world.outcome("Bob", flow), Some(Err(gone.clone())));
    }
    assert_eq!(world.node("Bob").engine.starters(), [name("Carol")]);
    world.restart("Bob", registry);
    world.settle();
    assert_eq!((world.outcome("Bob", carols), world.outcome("Bob", own)), (None, None));
    assert_eq!(world.node("Bob").engine.len(), 2);
}

#[test]
fn what_is_remembered_of_digested_messages_counts_in_the_peers_share() {
    let mut world = World::with_limits(registry, small());
    let flow = order(&world, "Alice", 0, "digest");
    let send = |world: &World, place: u64| {
        let (session, _) = session(&name("Alice"), 0);
        let body = Body::Data(encode(&vec![0_u8; 1_000]));
        let message = Message { session, number: place, last: false, body };
        deliver(world, "Alice", &message).expect("a good message");
    };
    let share = |world: &World| world.node("Bob").engine.share_of(&name("Alice")).1;
    let before = share(&world);
    send(&world, 1);
    let each = share(&world) - before;
    assert!((3_000..4_000).contains(&each), "{each}");
    send(&world, 2);
    send(&world, 3);
    assert_eq!(share(&world), before + 3 * each);
    // Restarts and runs from the beginning count it once.
    world.restart("Bob", registry);
    world.settle();
    assert_eq!(share(&world), before + 3 * each);
    // With no room left the session ends, and all of its share is free again.
    send(&world, 4);
    assert_eq!(world.outcome("Bob", flow), None);
    send(&world, 5);
    assert!(matches!(world.outcome("Bob", flow), Some(Err(FlowError::TooLarge { .. }))));
    assert_eq!(share(&world), 0);
}
