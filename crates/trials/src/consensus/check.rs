//! What must hold at every moment.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, keccak256};
use tally_consensus::{
    Block, Expectation, Message, Misbehaviour, Packet, Protocol, ValidatorSet, ValidatorsFrom, View,
};

use super::host::is_right;
use super::keys::{PlainKeys, address, node_of};
use super::plan::Plan;

/// Marks the state root of a block that no host executes.
pub(super) const INVALID: u8 = 0xee;

/// What correct validators have said and made final, over all their lives.
#[derive(Debug, Default)]
pub(super) struct Check {
    finals: BTreeMap<u64, B256>,
    said: BTreeMap<(usize, View, u8), B256>,
    pub(super) blamed: u64,
}

impl Check {
    /// A correct host has learnt that a block is final.
    pub(super) fn is_final(
        &mut self,
        plan: &Plan,
        block: &Block,
        validators: &ValidatorSet,
        earliest_s: u64,
    ) {
        let expectation =
            Expectation { protocol: plan.protocol, validators, named: ValidatorsFrom::Headers, earliest_s };
        expectation.check(block.header(), block.extra()).expect("a final block keeps the rules");
        let keys = PlainKeys(Address::ZERO);
        expectation.check_seals(block.header(), block.extra(), &keys).expect("a final block has its seals");
        assert!(is_right(block), "an invalid block, or another body, became final: {block:?}");
        let known = self.finals.entry(block.number()).or_insert(block.hash());
        assert_eq!(*known, block.hash(), "two blocks are final at {}", block.number());
    }

    /// A correct validator sends a message.
    pub(super) fn says(&mut self, protocol: Protocol, node: usize, packet: &Packet) {
        let message = Message::decode(protocol, packet).expect("a correct validator's message can be read");
        let author = message.author(protocol, &PlainKeys(Address::ZERO));
        if author != Some(address(node)) {
            return;
        }
        let what = match &message {
            Message::Proposal(proposal) => proposal.block.digest(),
            Message::Prepare(prepare) => prepare.payload.digest,
            Message::Commit(commit) => commit.payload.digest,
            Message::RoundChange(change) => {
                let prepared = change.signed.payload.prepared.as_ref();
                prepared.map_or(B256::ZERO, |prepared| {
                    keccak256([&prepared.digest[..], &prepared.round.to_be_bytes()].concat())
                })
            }
        };
        let known = self.said.entry((node, message.view(), packet.code)).or_insert(what);
        assert_eq!(*known, what, "validator {node} contradicts itself in {message:?}");
    }

    /// A correct validator blames somebody.
    pub(super) fn blames(&mut self, plan: &Plan, by: usize, peer: Address, what: &Misbehaviour) {
        self.blamed += 1;
        let guilty = node_of(peer).is_some_and(|node| !plan.is_correct(node));
        assert!(guilty || plan.broken.is_some(), "validator {by} blames {peer}: {what}: {what:?}");
    }

    pub(super) fn heights(&self) -> u64 {
        self.finals.len() as u64
    }
}
