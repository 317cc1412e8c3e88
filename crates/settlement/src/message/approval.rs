//! Approvals: a participant's answers to a batch of proposals under one signature.

use super::{Message, Source, decode_all};
use tally_crypto::merkle::RootBuilder;
use tally_crypto::{Hash, PublicKey, Signature, SigningKey};
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::refusal::{Verdict, verdict_from_number};
use tally_ledger::wire::{DecodeError, write, write_count, write_slice};
use tally_ledger::{NetworkId, ParticipantId, TransactionId};
use tally_proof::Approval;
use tally_proof::approval::{Answer, AnswerHasher, Sibling, Statement};

/// A participant's answers to one [`super::ProposalBatch`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalBatch {
    /// The accepted batch.
    pub source: Source,
    /// How many transactions the accepted batch has.
    pub source_len: u32,
    /// Whose answers.
    pub participant: ParticipantId,
    /// Which transactions of the accepted batch, ascending.
    pub indices: Vec<u32>,
    /// The id of each, recomputed from what the participant was shown.
    pub ids: Vec<TransactionId>,
    /// The verdict on each by its number.
    pub verdicts: Vec<u16>,
    /// Which answer stands at each leaf of the tree that is signed; empty where they stand in their own order. So answers
    /// that concern the same institutions stand side by side, and few hashes lead from them to the root.
    pub leaves: Vec<u16>,
    /// Ed25519 over [`ApprovalSigner`]'s statement of the root of the answers.
    pub signature: Signature,
}

/// Computes what a participant of one network signs over a batch of answers; keeps its buffers.
pub struct ApprovalSigner {
    network: NetworkId,
    hasher: AnswerHasher,
    leaves: Vec<Hash>,
    root: RootBuilder,
}

impl ApprovalSigner {
    /// Signs and verifies answers of `network`.
    pub fn new(network: NetworkId) -> Self {
        Self { network, hasher: AnswerHasher::default(), leaves: Vec::new(), root: RootBuilder::default() }
    }
    /// The statement: a keyed hash of who answers what, and of the Merkle root over the answers.
    pub fn statement(&mut self, batch: &ApprovalBatch) -> Hash {
        self.leaves.clear();
        self.hasher.hash(batch.leaves(), &mut self.leaves);
        let statement = Statement {
            root: self.root.root(&self.leaves),
            scheduler: batch.source.scheduler,
            batch: batch.source.number,
            participant: batch.participant,
            batch_len: batch.source_len,
        };
        statement.hash(&self.network)
    }
    /// Signs the batch.
    pub fn sign(&mut self, batch: &mut ApprovalBatch, key: &SigningKey) {
        batch.signature = key.sign(self.statement(batch).as_bytes());
    }
    /// Whether `key` signed the batch.
    pub fn verifies(&mut self, batch: &ApprovalBatch, key: &PublicKey) -> bool {
        tally_crypto::verify(key, self.statement(batch).as_bytes(), &batch.signature).is_ok()
    }
}

impl ApprovalBatch {
    /// The verdict on the transaction at `item`.
    ///
    /// # Panics
    /// Past the end, or on a verdict that [`Message::decode`] would have refused.
    pub fn verdict(&self, item: usize) -> Verdict {
        verdict_from_number(self.verdicts[item]).expect("verdicts are checked when decoded")
    }

    /// Puts answers about the same `participants`, given for each answer, side by side in the tree that is signed.
    pub(crate) fn group(&mut self, participants: &[&[ParticipantId]]) {
        let items = u16::try_from(self.indices.len().saturating_sub(1)).expect("batches are bounded");
        self.leaves.clear();
        if participants.is_sorted() {
            return;
        }
        self.leaves.extend(0..=items);
        self.leaves.sort_by_key(|item| participants[usize::from(*item)]);
    }

    /// The answers in the order in which they stand in the tree that is signed.
    pub(super) fn leaves(&self) -> impl Iterator<Item = Answer> + '_ {
        (0..self.indices.len()).map(|leaf| {
            let item = if self.is_grouped() { usize::from(self.leaves[leaf]) } else { leaf };
            Answer { id: self.ids[item], index: self.indices[item], verdict: self.verdicts[item] }
        })
    }

    /// The leaf of the tree that is signed at which each answer stands.
    pub(super) fn places(&self) -> Vec<u32> {
        let mut places: Vec<u32> = (0..).take(self.indices.len()).collect();
        if self.is_grouped() {
            for (leaf, item) in (0u32..).zip(&self.leaves) {
                places[usize::from(*item)] = leaf;
            }
        }
        places
    }

    /// Whether the answers stand in another order than their own. What is made here may have columns that disagree; what
    /// was decoded has not.
    fn is_grouped(&self) -> bool {
        !self.leaves.is_empty() && self.leaves.len() == self.indices.len()
    }

    /// The answer at `item` with the path to what the participant signed; none past the end.
    pub fn approval(&self, item: usize) -> Option<Approval> {
        let leaves: Vec<Hash> = self.leaves().map(|answer| answer.leaf()).collect();
        let place = *self.places().get(item)?;
        Some(Approval {
            participant: self.participant,
            verdict: *self.verdicts.get(item)?,
            index: *self.indices.get(item)?,
            batch_len: self.source_len,
            path: Sibling::path(&leaves, place as usize)?,
            signature: self.signature,
        })
    }
}

/// 1 had statements that were signed without the network, 2 had the answers in their own order alone.
const VERSION: u8 = 3;

impl Message for ApprovalBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.source.encode(out);
        write(out, &self.source_len);
        write(out, &self.participant);
        write_count(out, self.indices.len());
        write_slice(out, &self.indices);
        write_slice(out, &self.ids);
        write_slice(out, &self.verdicts);
        write_count(out, self.leaves.len());
        write_slice(out, &self.leaves);
        write(out, &self.signature);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("approvals", bytes, |reader| {
            reader.version(VERSION)?;
            let (source, source_len, participant) =
                (Source::decode(reader)?, reader.value::<u32>()?, reader.value()?);
            if source_len as usize > MAX_BATCH {
                return Err(reader.error("a count is above its limit"));
            }
            let items = reader.count(MAX_BATCH)?;
            let (indices, ids) = (reader.values(items)?, reader.values(items)?);
            let verdicts = reader.values(items)?;
            let leaves = reader.count(MAX_BATCH)?;
            let batch = Self {
                source,
                source_len,
                participant,
                indices,
                ids,
                verdicts,
                leaves: reader.values(leaves)?,
                signature: reader.value()?,
            };
            let ascending = batch.indices.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascending || batch.indices.last().is_some_and(|last| *last >= source_len) {
                return Err(reader.error("the positions do not ascend within the source"));
            }
            if batch.verdicts.iter().any(|number| verdict_from_number(*number).is_none()) {
                return Err(reader.error("a verdict is unknown"));
            }
            if leaves > 0 && !is_another_order(&batch.leaves, items) {
                return Err(reader.error("the leaves are no other order of the answers"));
            }
            Ok(batch)
        })
    }
}

/// Whether these name each of so many items once, and not in their own order: that has one form, none at all.
fn is_another_order(order: &[u16], items: usize) -> bool {
    let mut named = vec![false; items];
    let once = order.iter().all(|item| {
        let named = named.get_mut(usize::from(*item));
        named.is_some_and(|named| !std::mem::replace(named, true))
    });
    once && order.len() == items && !order.is_sorted()
}
