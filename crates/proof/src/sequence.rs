//! What the operator's log commits to: the leaf of a decision in its batch, and the leaf of a batch in the log.

use tally_crypto::Hash;
use tally_ledger::{Timestamp, TransactionId};

const LEAF_KEY: &[u8; 32] = b"tallystick 2026 decision leaf 01";

/// The leaves of decisions: `BLAKE3_keyed(LEAF, id (32) ‖ sequence (8) ‖ verdict (2) ‖ 0 (22))`.
#[derive(Default)]
pub struct LeafHasher {
    inputs: Vec<[u8; 64]>,
}

impl LeafHasher {
    /// Appends the leaves of decisions that start at sequence number `first`.
    pub fn hash(
        &mut self,
        first: u64,
        ids: &[TransactionId],
        verdicts: impl Iterator<Item = u16>,
        out: &mut Vec<Hash>,
    ) {
        self.inputs.clear();
        for ((id, verdict), sequence) in ids.iter().zip(verdicts).zip(first..) {
            self.inputs.push(input(id, sequence, verdict));
        }
        tally_crypto::hash_many_keyed(LEAF_KEY, &self.inputs, out);
    }
}

fn input(id: &TransactionId, sequence: u64, verdict: u16) -> [u8; 64] {
    let mut input = [0; 64];
    input[..32].copy_from_slice(id.as_bytes());
    input[32..40].copy_from_slice(&sequence.to_le_bytes());
    input[40..42].copy_from_slice(&verdict.to_le_bytes());
    input
}

/// The leaf of one decision.
pub fn leaf(id: &TransactionId, sequence: u64, verdict: u16) -> Hash {
    tally_crypto::keyed(LEAF_KEY, &input(id, sequence, verdict))
}

/// A batch of decisions as a leaf of the operator's Merkle log (RFC 9162 section 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchLeaf {
    /// BLAKE3 Merkle root over the [`leaf`]s of the decisions.
    pub root: Hash,
    /// Global sequence number of the first decision.
    pub first: u64,
    /// How many decisions.
    pub count: u32,
    /// The scheduler that accepted the transactions.
    pub scheduler: u64,
    /// Which batch of that scheduler they were accepted in.
    pub batch: u64,
    /// When they were sequenced.
    pub timestamp: Timestamp,
}

impl BatchLeaf {
    /// What the leaf holds:
    /// root (32) ‖ first (8) ‖ count (4) ‖ scheduler (8) ‖ batch (8) ‖ timestamp (8), integers little-endian.
    pub fn data(&self) -> [u8; 68] {
        let mut data = [0; 68];
        data[..32].copy_from_slice(self.root.as_bytes());
        data[32..40].copy_from_slice(&self.first.to_le_bytes());
        data[40..44].copy_from_slice(&self.count.to_le_bytes());
        data[44..52].copy_from_slice(&self.scheduler.to_le_bytes());
        data[52..60].copy_from_slice(&self.batch.to_le_bytes());
        data[60..68].copy_from_slice(&self.timestamp.0.to_le_bytes());
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leaf_is_as_many() {
        let ids: Vec<_> = (0u8..40).map(|n| tally_crypto::hash(&[n])).collect();
        let mut leaves = Vec::new();
        LeafHasher::default().hash(7, &ids, (0..40).map(|n| n % 3), &mut leaves);
        for (at, id) in (0u16..).zip(&ids) {
            assert_eq!(leaves[usize::from(at)], leaf(id, 7 + u64::from(at), at % 3));
        }
    }
}
