//! Receipts: proof that a transaction has its place and its verdict in the one global order.
//!
//! A receipt leads from the transaction's id to its batch's root (BLAKE3) and from the batch to a tree
//! head that the operator signed (RFC 9162 section 2.1.3). Whoever holds it needs nothing else but the
//! operator's key; it shows no other transaction's id, only hashes.

use crate::journal::{Entry, JournalError};
use crate::message::{SequenceBatch, Source, sequence_leaf};
use std::collections::HashMap;
use tally_crypto::log::{LogHash, MerkleLog, SignedTreeHead, leaf_hash, verify_inclusion};
use tally_crypto::{Hash, ProofError, PublicKey, SignatureError, merkle};
use tally_ledger::batch::{Hashed, Hasher};
use tally_ledger::refusal::{Verdict, verdict_from_number};
use tally_ledger::{Timestamp, TransactionId, Uetr};
use tally_log::Ticket;

/// Proof of an outcome.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The transaction.
    pub id: TransactionId,
    /// Its place in the one global order.
    pub sequence: u64,
    /// Its verdict by its number: 0 for made, else the refusal's.
    pub verdict: u16,
    /// Sequence number of the first decision of its batch.
    pub first: u64,
    /// How many decisions its batch has.
    pub count: u32,
    /// The scheduler that accepted it.
    pub scheduler: u64,
    /// Which batch of that scheduler it was accepted in.
    pub batch: u64,
    /// When its batch was sequenced.
    pub timestamp: Timestamp,
    /// From the decision to the root of its batch, from below.
    pub decision_path: Vec<Hash>,
    /// The root of its batch.
    pub root: Hash,
    /// Which leaf of the Merkle log its batch is.
    pub leaf: u64,
    /// From the batch to the root of the Merkle log, from below; each 32 bytes in hexadecimal.
    pub tree_path: Vec<Hash>,
    /// The signed head of the Merkle log.
    pub head: SignedTreeHead,
}

/// Why a receipt proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReceiptError {
    /// Its numbers do not belong together.
    #[error("the receipt's numbers do not belong together")]
    Form,
    /// The decision is not in the batch.
    #[error("the decision does not belong to the batch")]
    Decision(#[source] ProofError),
    /// The batch is not in the log.
    #[error("the batch does not belong to the log")]
    Batch(#[source] ProofError),
    /// The head is not the operator's.
    #[error("the operator did not sign the tree head")]
    Head(#[source] SignatureError),
}

impl Receipt {
    /// Checks the receipt against the key of the network's operator, and says what it proves of [`Self::id`].
    ///
    /// # Errors
    /// When it proves nothing.
    pub fn verify(&self, operator: &PublicKey) -> Result<Verdict, ReceiptError> {
        let verdict = verdict_from_number(self.verdict).ok_or(ReceiptError::Form)?;
        let position = self.sequence.checked_sub(self.first).ok_or(ReceiptError::Form)?;
        let decision = sequence_leaf(&self.id, self.sequence, self.verdict);
        merkle::verify_path(&self.root, u64::from(self.count), position, &decision, &self.decision_path)
            .map_err(ReceiptError::Decision)?;
        let batch = leaf_hash(&self.leaf_data());
        let path: Vec<LogHash> = self.tree_path.iter().map(|hash| *hash.as_bytes()).collect();
        let head = self.head.verify(operator).map_err(ReceiptError::Head)?;
        verify_inclusion(&head.root, head.size, self.leaf, &batch, &path).map_err(ReceiptError::Batch)?;
        Ok(verdict)
    }

    fn leaf_data(&self) -> [u8; 68] {
        let source = Source::new(self.scheduler, self.batch);
        SequenceBatch::leaf_data_of(&self.root, self.first, self.count, source, self.timestamp)
    }
}

/// The receipt of the transaction with that reference under the latest head of the log; none while it is
/// not sequenced. `entries` are the journal from its beginning.
///
/// # Errors
/// When the journal cannot be read.
pub fn find(
    entries: impl Iterator<Item = Result<(Ticket, Entry), JournalError>>,
    uetr: Uetr,
) -> Result<Option<Receipt>, JournalError> {
    let mut tree = MerkleLog::new();
    let mut head = None;
    let mut accepted: HashMap<Source, (u32, Vec<TransactionId>)> = HashMap::new();
    let mut receipt: Option<Receipt> = None;
    let mut hasher = Hasher::default();
    for entry in entries {
        match entry?.1 {
            Entry::Accepted(source, batch) => {
                let found = (0u32..).zip(&batch.batch.headers).find(|(_, header)| header.uetr == uetr);
                if let Some((index, _)) = found {
                    let mut hashed = Hashed::default();
                    hasher.hash(&batch.batch, &mut hashed);
                    accepted.insert(source, (index, hashed.ids));
                }
            }
            Entry::Sequenced(_, batch) => {
                let leaf = tree.append(&batch.leaf_data());
                head = Some(batch.tree_head());
                if let Some((index, ids)) = accepted.get(&batch.source)
                    && let Some(proven) = prove(&batch, *index, ids, leaf)
                {
                    receipt = Some(proven);
                }
            }
        }
    }
    let (Some(mut receipt), Some(head)) = (receipt, head) else { return Ok(None) };
    let Ok(path) = tree.inclusion_proof(receipt.leaf, tree.len()) else { return Ok(None) };
    receipt.tree_path = path.into_iter().map(Hash::from_bytes).collect();
    receipt.head = head;
    Ok(Some(receipt))
}

/// The receipt under the head of its own batch, without the path there, if the batch decides the transaction.
fn prove(batch: &SequenceBatch, index: u32, ids: &[TransactionId], leaf: u64) -> Option<Receipt> {
    let decisions: Vec<(u32, u16)> = batch.decisions().collect();
    let position = decisions.iter().position(|(decided, _)| *decided == index)?;
    let leaves: Option<Vec<Hash>> = decisions
        .iter()
        .zip(batch.first..)
        .map(|((decided, verdict), sequence)| {
            Some(sequence_leaf(ids.get(*decided as usize)?, sequence, *verdict))
        })
        .collect();
    Some(Receipt {
        id: *ids.get(index as usize)?,
        sequence: batch.first + position as u64,
        verdict: decisions[position].1,
        first: batch.first,
        count: batch.count,
        scheduler: batch.source.scheduler,
        batch: batch.source.number,
        timestamp: batch.timestamp,
        decision_path: merkle::path(&leaves?, position)?,
        root: batch.root,
        leaf,
        tree_path: Vec::new(),
        head: batch.tree_head(),
    })
}
