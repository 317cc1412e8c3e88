//! Messages, blocks and extra data of the chain's consensus, and its engine.

use std::sync::OnceLock;

use super::Small;
use super::damage::damage;
use crate::consensus::Traffic;
use alloy_primitives::Bytes;
use tally_consensus::{Block, Cover, ExtraData, Message, Packet};
use tally_sim::Rng;

/// What some networks of validators really said.
fn networks() -> &'static [Traffic] {
    static ALL: OnceLock<Vec<Traffic>> = OnceLock::new();
    ALL.get_or_init(|| (1..=12).map(Traffic::of).collect())
}

fn damaged(rng: &mut Rng, traffic: &Traffic) -> Packet {
    let packet = &traffic.packets[rng.index(traffic.packets.len())];
    let other = &traffic.packets[rng.index(traffic.packets.len())];
    let mut bytes = packet.bytes.to_vec();
    damage(rng, &mut bytes, &other.bytes);
    let code = if rng.chance(1, 16) { traffic.protocol.codes()[rng.index(4)] } else { packet.code };
    Packet { code, bytes: bytes.into() }
}

/// What can be read has one form only.
pub(super) fn message(rng: &mut Rng, _: &Small) {
    let traffic = &networks()[rng.index(networks().len())];
    let packet = damaged(rng, traffic);
    if let Ok(message) = Message::decode(traffic.protocol, &packet) {
        assert_eq!(message.encode(traffic.protocol), packet, "read from another form than it is written in");
    }
}

/// A block and its extra data; proposed again, it keeps its hash.
pub(super) fn block(rng: &mut Rng, _: &Small) {
    let traffic = &networks()[rng.index(networks().len())];
    let protocol = traffic.protocol;
    let packet = &traffic.packets[rng.index(traffic.packets.len())];
    let Ok(Message::Proposal(proposal)) = Message::decode(protocol, packet) else { return };
    let mut bytes = proposal.block.bytes().to_vec();
    damage(rng, &mut bytes, &packet.bytes);
    if let Ok(block) = Block::decode(protocol, Bytes::from(bytes)) {
        let again = block.with_round(block.round() ^ 1);
        assert!(block.number() == 0 || again.hash() == block.hash(), "another hash in another round");
        assert_eq!(Block::decode(protocol, again.bytes().clone()).as_ref(), Ok(&again));
    }
    let mut extra = proposal.block.extra().encode(protocol, Cover::Everything);
    damage(rng, &mut extra, &packet.bytes);
    if let Ok(read) = ExtraData::decode(protocol, &extra) {
        assert_eq!(
            read.encode(protocol, Cover::Everything),
            extra,
            "read from another form than it is written in"
        );
    }
}

/// An engine in the middle of a height survives whatever is said to it.
pub(super) fn engine(rng: &mut Rng, _: &Small) {
    let traffic = &networks()[rng.index(networks().len())];
    let mut listener = traffic.listener();
    for _ in 0..rng.below(24) {
        let packet = if rng.chance(1, 3) {
            damaged(rng, traffic)
        } else {
            traffic.packets[rng.index(traffic.packets.len())].clone()
        };
        listener.hears(rng, packet);
    }
}
