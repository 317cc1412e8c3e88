//! The sequencer: gives each decision its place in the one global order and commits to it in a
//! Merkle log (RFC 9162, section 2.1). It sees hashes and verdicts, nothing else.

use crate::message::SequenceBatch;
use crate::message::{DecisionBatch, SequenceLeafHasher};
use tally_crypto::log::{Frontier, SignedTreeHead, TreeHead};
use tally_crypto::merkle::RootBuilder;
use tally_crypto::{Hash, SigningKey};
use tally_ledger::{NetworkId, Timestamp};

/// The one sequencer of a network.
pub struct Sequencer {
    next: u64,
    tree: Frontier,
    network: NetworkId,
    key: SigningKey,
    clock: Timestamp,
    leaves: Vec<Hash>,
    hasher: SequenceLeafHasher,
    root: RootBuilder,
}

impl Sequencer {
    /// The sequencer of `network` that goes on after `next` decisions, committed to by `tree`.
    pub fn new(network: NetworkId, key: SigningKey, next: u64, tree: Frontier, clock: Timestamp) -> Self {
        Self {
            next,
            tree,
            network,
            key,
            clock,
            leaves: Vec::new(),
            hasher: SequenceLeafHasher::default(),
            root: RootBuilder::new(),
        }
    }

    /// The number that the next decision gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The Merkle log up to there.
    pub fn tree(&self) -> &Frontier {
        &self.tree
    }
    /// The time of the last record.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Gives decisions their places. A clock that goes back stands still instead.
    pub fn step(&mut self, now: Timestamp, decisions: &DecisionBatch) -> SequenceBatch {
        self.clock = self.clock.max(now);
        self.leaves.clear();
        self.hasher.hash(self.next, &decisions.ids, decisions.verdicts.iter().copied(), &mut self.leaves);
        let mut batch = SequenceBatch {
            first: self.next,
            count: u32::try_from(decisions.indices.len()).expect("batches are bounded"),
            source: decisions.source,
            timestamp: self.clock,
            runs: SequenceBatch::runs_of(&decisions.indices, &decisions.verdicts),
            root: self.root.root(&self.leaves),
            tree_root: [0; 32],
            tree_size: 0,
            signature: tally_crypto::Signature::from_bytes([0; 64]),
        };
        self.next += u64::from(batch.count);
        self.tree.append(&batch.leaf_data());
        let head = TreeHead { size: self.tree.len(), root: self.tree.root(), timestamp_ms: self.clock.0 };
        (batch.tree_size, batch.tree_root) = (head.size, head.root);
        batch.signature = SignedTreeHead::sign(head, &self.network.0, &self.key).signature;
        batch
    }
}
