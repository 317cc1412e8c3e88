//! Hands what peers send to whoever it is for.

use tally_consensus::Packet;
use tally_peers::{Event, Events};

use super::{Node, driver, gossip, serve, standing, sync};
use crate::protocol::{self, BLOCK, CONSENSUS, HASHES, HEAD, STANDING, TRANSACTIONS};

/// What an unreadable message costs of a peer's score.
pub(super) const UNREADABLE: u32 = 20;

pub(super) fn run(node: Node, events: Events) {
    let shared = &node.shared;
    while !node.is_stopping() {
        let Some(event) = events.recv() else { break };
        // A thread that has ended takes nothing more; the node is then stopping.
        match event {
            Event::Connected { peer, .. } => {
                let head = shared.chain.head();
                let message = protocol::Head { number: head.number(), hash: head.hash() };
                if let Some(network) = node.network() {
                    let _ = network.send(&peer, HEAD, protocol::encode(&message));
                }
                standing::tell(&node, Some(peer));
                let _ = shared.driver.send(driver::Told::Connected(peer));
                let _ = shared.gossip.send(gossip::Told::Connected(peer));
            }
            Event::Disconnected { peer, .. } => {
                standing::forget(&node, &peer);
                let _ = shared.driver.send(driver::Told::Disconnected(peer));
                let _ = shared.gossip.send(gossip::Told::Disconnected(peer));
                let _ = shared.sync.send(sync::Told::Disconnected(peer));
            }
            Event::Message { peer, kind, payload } if CONSENSUS.contains(&kind) => {
                let packet = Packet { code: kind, bytes: payload.into() };
                shared.packets.enter(packet.bytes.len(), || node.is_stopping());
                let _ = shared.driver.send(driver::Told::Packet { from: peer, packet });
            }
            Event::Message { peer, kind: HEAD, payload } => match protocol::decode("head", &payload) {
                Ok(head) => {
                    let _ = shared.sync.send(sync::Told::Head { peer, head });
                }
                Err(error) => blame(&node, peer, &error),
            },
            Event::Message { peer, kind: BLOCK, payload } => {
                shared.received.enter(payload.len(), || node.is_stopping());
                let _ = shared.sync.send(sync::Told::Block { peer, payload: payload.into() });
            }
            Event::Message { peer, kind: TRANSACTIONS, payload } => {
                shared.received.enter(payload.len(), || node.is_stopping());
                let _ =
                    shared.gossip.send(gossip::Told::Transactions { from: peer, payload: payload.into() });
            }
            Event::Message { peer, kind: HASHES, payload } => {
                let _ = shared.gossip.send(gossip::Told::Hashes { from: peer, payload: payload.into() });
            }
            Event::Message { peer, kind: STANDING, payload } => standing::take(&node, peer, &payload),
            Event::Message { .. } => {}
            Event::Request { peer, kind, payload, respond } => {
                serve::answer(&node, peer, kind, payload, respond);
            }
        }
    }
}

/// A peer sent what cannot be read.
pub(super) fn blame(node: &Node, peer: alloy_primitives::Address, error: &dyn std::error::Error) {
    if let Some(network) = node.network() {
        network.report(&peer, UNREADABLE);
    }
    node.notice(super::Notice::Misbehaviour { peer, what: error.to_string() });
}
