//! Receipts: proof that a transaction has its place and its verdict in the one global order.
//!
//! A receipt leads from the transaction's id to its batch's root (BLAKE3) and from the batch to a tree
//! head that the operator signed (RFC 9162 section 2.1.3). Whoever holds it needs nothing else but the
//! operator's key; it shows no other transaction's id, only hashes.

use crate::sequence::{self, BatchLeaf};
use crate::witness::HeadCosignature;
use serde::{Deserialize, Serialize};
use tally_crypto::log::{LogHash, SignedTreeHead, leaf_hash, verify_inclusion};
use tally_crypto::{Hash, PublicKey, SignatureError, merkle};
use tally_ledger::refusal::{Verdict, verdict_from_number};
use tally_ledger::{NetworkId, Timestamp, TransactionId};

/// Proof of an outcome.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
    /// Of witnesses on that head.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cosignatures: Vec<HeadCosignature>,
}

/// Why a receipt proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReceiptError {
    /// Its numbers do not belong together.
    #[error("the receipt's numbers do not belong together")]
    Form,
    /// The decision is not in the batch.
    #[error("the decision does not belong to the batch")]
    Decision(#[source] tally_crypto::ProofError),
    /// The batch is not in the log.
    #[error("the batch does not belong to the log")]
    Batch(#[source] tally_crypto::ProofError),
    /// The head is not the operator's.
    #[error("the operator did not sign the tree head")]
    Head(#[source] SignatureError),
    /// The head was signed before the batch was sequenced: a log's clock never goes back.
    #[error("the tree head is of {head} ms and the decision of {decision} ms, which is later")]
    Time {
        /// When the head was signed, in milliseconds since the Unix epoch.
        head: u64,
        /// When the decision was sequenced, in milliseconds since the Unix epoch.
        decision: u64,
    },
}

impl Receipt {
    /// Checks the receipt against the network and the key of its operator, and says what it proves
    /// of [`Self::id`].
    ///
    /// Witnesses are another question: [`Keys::witnessed`](crate::Keys::witnessed) answers it for [`Self::head`] and
    /// [`Self::cosignatures`], and [`Proof::verify`](crate::Proof::verify) asks it.
    ///
    /// # Errors
    /// When it proves nothing.
    pub fn verify(&self, network: &NetworkId, operator: &PublicKey) -> Result<Verdict, ReceiptError> {
        let verdict = verdict_from_number(self.verdict).ok_or(ReceiptError::Form)?;
        let position = self.sequence.checked_sub(self.first).ok_or(ReceiptError::Form)?;
        let decision = sequence::leaf(&self.id, self.sequence, self.verdict);
        merkle::verify_path(&self.root, u64::from(self.count), position, &decision, &self.decision_path)
            .map_err(ReceiptError::Decision)?;
        let batch = leaf_hash(&self.batch_leaf().data());
        let path: Vec<LogHash> = self.tree_path.iter().map(|hash| *hash.as_bytes()).collect();
        let head = self.head.verify(&network.0, operator).map_err(ReceiptError::Head)?;
        verify_inclusion(&head.root, head.size, self.leaf, &batch, &path).map_err(ReceiptError::Batch)?;
        if head.timestamp_ms < self.timestamp.0 {
            let (head, decision) = (head.timestamp_ms, self.timestamp.0);
            return Err(ReceiptError::Time { head, decision });
        }
        Ok(verdict)
    }

    fn batch_leaf(&self) -> BatchLeaf {
        BatchLeaf {
            root: self.root,
            first: self.first,
            count: self.count,
            scheduler: self.scheduler,
            batch: self.batch,
            timestamp: self.timestamp,
        }
    }
}
