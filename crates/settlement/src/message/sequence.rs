//! The sequence: each decision's place in the one global order.

use super::{Message, Source, decode_all};
use bytemuck::{Pod, Zeroable};
use tally_crypto::log::{SignedTreeHead, TreeHead};
use tally_crypto::{Hash, Signature};
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::refusal::verdict_from_number;
use tally_ledger::wire::{DecodeError, write, write_count, write_slice};
use tally_ledger::{Timestamp, TransactionId};

/// Consecutive transactions of the source with one verdict.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
pub struct Run {
    /// The first of them.
    pub index: u32,
    /// How many.
    pub count: u16,
    /// The verdict by its number.
    pub verdict: u16,
}

/// Decisions in their final order. Transaction `first + k` of the global order is the `k`-th that the
/// runs name. Finality is this record's being durable.
///
/// The record is one leaf of the network's RFC 9162 Merkle log; the decisions themselves are
/// committed to by `root`, a BLAKE3 Merkle root over [`leaf`]s. Ids are not stored again: they follow
/// from the accepted batch, which lies before this record in the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceBatch {
    /// Global sequence number of the first decision.
    pub first: u64,
    /// How many decisions.
    pub count: u32,
    /// The accepted batch.
    pub source: Source,
    /// When they were sequenced, by the sequencer's clock, which never goes back.
    pub timestamp: Timestamp,
    /// The decisions in order.
    pub runs: Vec<Run>,
    /// Root over the decisions.
    pub root: Hash,
    /// RFC 9162 root of the log up to and with this record.
    pub tree_root: [u8; 32],
    /// Number of leaves of that log.
    pub tree_size: u64,
    /// The sequencer's signature over the tree head.
    pub signature: Signature,
}

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
            let mut input = [0; 64];
            input[..32].copy_from_slice(id.as_bytes());
            input[32..40].copy_from_slice(&sequence.to_le_bytes());
            input[40..42].copy_from_slice(&verdict.to_le_bytes());
            self.inputs.push(input);
        }
        tally_crypto::hash_many_keyed(LEAF_KEY, &self.inputs, out);
    }
}

/// The leaf of one decision.
pub fn leaf(id: &TransactionId, sequence: u64, verdict: u16) -> Hash {
    let mut out = Vec::with_capacity(1);
    LeafHasher::default().hash(sequence, std::slice::from_ref(id), std::iter::once(verdict), &mut out);
    out[0]
}

impl SequenceBatch {
    /// The runs of decisions in order.
    pub fn runs_of(indices: &[u32], verdicts: &[u16]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (index, verdict) in indices.iter().zip(verdicts) {
            match runs.last_mut() {
                Some(run)
                    if run.verdict == *verdict
                        && run.count < u16::MAX
                        && run.index + u32::from(run.count) == *index =>
                {
                    run.count += 1;
                }
                _ => runs.push(Run { index: *index, count: 1, verdict: *verdict }),
            }
        }
        runs
    }

    /// Every decision: position in the source and verdict number.
    pub fn decisions(&self) -> impl Iterator<Item = (u32, u16)> + '_ {
        self.runs
            .iter()
            .flat_map(|run| (run.index..run.index + u32::from(run.count)).map(|i| (i, run.verdict)))
    }

    /// The signed head of the Merkle log with this record as its last leaf; unverified.
    pub fn tree_head(&self) -> SignedTreeHead {
        let head = TreeHead { size: self.tree_size, root: self.tree_root, timestamp_ms: self.timestamp.0 };
        SignedTreeHead { head, signature: self.signature }
    }

    /// What the Merkle log's leaf holds.
    pub fn leaf_data(&self) -> [u8; 68] {
        Self::leaf_data_of(&self.root, self.first, self.count, self.source, self.timestamp)
    }

    /// The leaf of a batch with these properties:
    /// root (32) ‖ first (8) ‖ count (4) ‖ scheduler (8) ‖ batch (8) ‖ timestamp (8).
    pub(crate) fn leaf_data_of(
        root: &Hash,
        first: u64,
        count: u32,
        source: Source,
        timestamp: Timestamp,
    ) -> [u8; 68] {
        let mut data = [0; 68];
        data[..32].copy_from_slice(root.as_bytes());
        data[32..40].copy_from_slice(&first.to_le_bytes());
        data[40..44].copy_from_slice(&count.to_le_bytes());
        data[44..52].copy_from_slice(&source.scheduler.to_le_bytes());
        data[52..60].copy_from_slice(&source.number.to_le_bytes());
        data[60..68].copy_from_slice(&timestamp.0.to_le_bytes());
        data
    }
}

const VERSION: u8 = 1;

impl Message for SequenceBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        write(out, &self.first);
        write(out, &self.count);
        write(out, &self.source);
        write(out, &self.timestamp);
        write_count(out, self.runs.len());
        write_slice(out, &self.runs);
        write(out, &self.root);
        write(out, &self.tree_root);
        write(out, &self.tree_size);
        write(out, &self.signature);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("sequence", bytes, |reader| {
            reader.version(VERSION)?;
            let (first, count, source, timestamp) =
                (reader.value::<u64>()?, reader.value::<u32>()?, reader.value()?, reader.value()?);
            let runs = reader.count(MAX_BATCH)?;
            let batch = Self {
                first,
                count,
                source,
                timestamp,
                runs: reader.values(runs)?,
                root: reader.value()?,
                tree_root: reader.value()?,
                tree_size: reader.value()?,
                signature: reader.value()?,
            };
            let mut counted = 0u64;
            for run in &batch.runs {
                if verdict_from_number(run.verdict).is_none() {
                    return Err(reader.error("a verdict is unknown"));
                }
                if run.index.checked_add(u32::from(run.count)).is_none() || run.count == 0 {
                    return Err(reader.error("a run is out of range"));
                }
                counted += u64::from(run.count);
            }
            if counted > MAX_BATCH as u64 {
                return Err(reader.error("a count is above its limit"));
            }
            if counted != u64::from(count) || first.checked_add(counted).is_none() {
                return Err(reader.error("the runs do not add up to the count"));
            }
            Ok(batch)
        })
    }
}
