//! The sequence: each decision's place in the one global order.

use super::{Message, Source, decode_all};
use bytemuck::{Pod, Zeroable};
use tally_crypto::log::{SignedTreeHead, TreeHead};
use tally_crypto::{Hash, Signature};
use tally_ledger::Timestamp;
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::refusal::verdict_from_number;
use tally_ledger::wire::{DecodeError, write, write_count, write_slice};
use tally_proof::sequence::BatchLeaf;

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
/// The record is one leaf of the network's RFC 9162 Merkle log; the decisions themselves are committed to by `root`, a
/// BLAKE3 Merkle root over their [leaves](tally_proof::sequence::leaf). Ids are not stored again: they follow from the
/// accepted batch, which lies before this record in the journal.
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

    /// What the Merkle log's leaf holds: see [`BatchLeaf::data`].
    pub fn leaf_data(&self) -> [u8; 68] {
        let leaf = BatchLeaf {
            root: self.root,
            first: self.first,
            count: self.count,
            scheduler: self.source.scheduler,
            batch: self.source.number,
            timestamp: self.timestamp,
        };
        leaf.data()
    }
}

/// 1 had tree heads that were signed without the network.
const VERSION: u8 = 2;

impl Message for SequenceBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        write(out, &self.first);
        write(out, &self.count);
        self.source.encode(out);
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
                (reader.value::<u64>()?, reader.value::<u32>()?, Source::decode(reader)?, reader.value()?);
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
