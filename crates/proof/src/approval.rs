//! Approvals: an institution's answer to one transaction, out of a batch of answers under one signature.
//!
//! ```text
//! leaf      = BLAKE3_keyed(LEAF, id (32) ‖ index (4) ‖ verdict (2) ‖ 0 (26))
//! key       = BLAKE3_derive_key("tallystick settlement v2 approval", network id (32))
//! statement = BLAKE3_keyed(key, root (32) ‖ batch (8) ‖ scheduler (8) ‖ participant (2) ‖ batch length (4) ‖ 0 (10))
//! ```
//!
//! Integers are little-endian; `root` is the BLAKE3 Merkle root over the leaves; the institution
//! signs the 32 bytes of the statement with Ed25519. The key makes it worth nothing on another
//! network. What the id commits to (expiry, participants, network) is not repeated in the leaf. The
//! statement has no count of answers, so that a path says itself on which side each sibling stands:
//! nodes and leaves are hashed under keys of their own, and nothing but an answer leads to the
//! root.

use serde::{Deserialize, Serialize};
use tally_crypto::{Hash, PublicKey, Signature, SignatureError, merkle};
use tally_ledger::{NetworkId, ParticipantId, TransactionId};

const STATEMENT_CONTEXT: &str = "tallystick settlement v2 approval";
const LEAF_KEY: &[u8; 32] = b"tallystick 2026 approval leaf 02";

/// One answer of a batch of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The transaction, recomputed from what the institution was shown.
    pub id: TransactionId,
    /// Which transaction of the accepted batch it is.
    pub index: u32,
    /// The verdict by its number.
    pub verdict: u16,
}

impl Answer {
    fn input(&self) -> [u8; 64] {
        let mut input = [0; 64];
        input[..32].copy_from_slice(self.id.as_bytes());
        input[32..36].copy_from_slice(&self.index.to_le_bytes());
        input[36..38].copy_from_slice(&self.verdict.to_le_bytes());
        input
    }

    /// Its leaf in the tree of the batch of answers.
    pub fn leaf(&self) -> Hash {
        tally_crypto::keyed(LEAF_KEY, &self.input())
    }
}

/// Computes the leaves of many answers; keeps its buffer.
#[derive(Default)]
pub struct AnswerHasher {
    inputs: Vec<[u8; 64]>,
}

impl AnswerHasher {
    /// Appends the leaf of every answer to `out`, in order.
    pub fn hash(&mut self, answers: impl Iterator<Item = Answer>, out: &mut Vec<Hash>) {
        self.inputs.clear();
        self.inputs.extend(answers.map(|answer| answer.input()));
        tally_crypto::hash_many_keyed(LEAF_KEY, &self.inputs, out);
    }
}

/// What an institution signs over a batch of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statement {
    /// BLAKE3 Merkle root over the answers' leaves.
    pub root: Hash,
    /// The scheduler that accepted the transactions.
    pub scheduler: u64,
    /// Which batch of that scheduler they were accepted in.
    pub batch: u64,
    /// Whose answers.
    pub participant: ParticipantId,
    /// How many transactions the accepted batch has.
    pub batch_len: u32,
}

impl Statement {
    /// The 32 bytes that are signed in `network`.
    pub fn hash(&self, network: &NetworkId) -> Hash {
        let mut statement = [0; 64];
        statement[..32].copy_from_slice(self.root.as_bytes());
        statement[32..40].copy_from_slice(&self.batch.to_le_bytes());
        statement[40..48].copy_from_slice(&self.scheduler.to_le_bytes());
        statement[48..50].copy_from_slice(&self.participant.0.to_le_bytes());
        statement[50..54].copy_from_slice(&self.batch_len.to_le_bytes());
        tally_crypto::keyed(&tally_crypto::derive_key(STATEMENT_CONTEXT, &network.0), &statement)
    }
}

/// The longest path from an answer to the root: batches have at most 2^16 transactions.
const MAX_PATH: usize = 16;

/// A hash beside the path from an answer to the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sibling {
    /// It stands before the path.
    Left(Hash),
    /// It stands after it.
    Right(Hash),
}

impl Sibling {
    /// The siblings on the way from leaf `position` to the root, from below; none when there is no such leaf.
    pub fn path(leaves: &[Hash], position: usize) -> Option<Vec<Self>> {
        let mut hashes = merkle::path(leaves, position)?.into_iter();
        let (mut at, mut last) = (position, leaves.len().checked_sub(1)?);
        let mut path = Vec::with_capacity(hashes.len());
        while last > 0 {
            if at % 2 == 1 {
                path.push(Self::Left(hashes.next()?));
            } else if at < last {
                path.push(Self::Right(hashes.next()?));
            }
            (at, last) = (at / 2, last / 2);
        }
        Some(path)
    }

    fn above(&self, below: &Hash) -> Hash {
        match self {
            Self::Left(sibling) => merkle::node(sibling, below),
            Self::Right(sibling) => merkle::node(below, sibling),
        }
    }
}

/// One institution's answer with the path to what it signed. The transaction and the accepted batch that it is about
/// are the proof's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// Whose.
    pub participant: ParticipantId,
    /// Its verdict by its number: 0 for yes, else the refusal's.
    pub verdict: u16,
    /// Which transaction of the accepted batch it is about.
    pub index: u32,
    /// How many transactions the accepted batch has.
    pub batch_len: u32,
    /// From the answer to the root of the institution's batch of answers, from below.
    pub path: Vec<Sibling>,
    /// The institution's signature over [`Statement::hash`].
    pub signature: Signature,
}

/// Why an approval proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ApprovalError {
    /// Its numbers do not belong together.
    #[error("its numbers do not belong together")]
    Form,
    /// The institution did not sign this answer to this transaction.
    #[error("the institution did not sign this answer to this transaction")]
    Signature(#[source] SignatureError),
}

/// What an approval has to be about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// The network.
    pub network: NetworkId,
    /// The transaction.
    pub id: TransactionId,
    /// The scheduler that accepted it.
    pub scheduler: u64,
    /// Which batch of that scheduler it was accepted in.
    pub batch: u64,
}

impl Approval {
    /// Checks that the holder of `key` gave this answer to that transaction of that batch.
    ///
    /// # Errors
    /// When it is about something else or not signed by that key.
    pub fn verify(&self, about: &About, key: &PublicKey) -> Result<(), ApprovalError> {
        if self.index >= self.batch_len || self.path.len() > MAX_PATH {
            return Err(ApprovalError::Form);
        }
        let answer = Answer { id: about.id, index: self.index, verdict: self.verdict };
        let statement = Statement {
            root: self.path.iter().fold(answer.leaf(), |below, sibling| sibling.above(&below)),
            scheduler: about.scheduler,
            batch: about.batch,
            participant: self.participant,
            batch_len: self.batch_len,
        };
        tally_crypto::verify(key, statement.hash(&about.network).as_bytes(), &self.signature)
            .map_err(ApprovalError::Signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leaf_is_as_many() {
        let answer =
            |n: u8| Answer { id: tally_crypto::hash(&[n]), index: u32::from(n), verdict: u16::from(n % 2) };
        let mut leaves = Vec::new();
        AnswerHasher::default().hash((0..40).map(answer), &mut leaves);
        assert_eq!(leaves, (0..40).map(|n| answer(n).leaf()).collect::<Vec<_>>());
    }

    #[test]
    fn every_path_leads_to_the_root_and_there_is_no_other() {
        for count in 1u16..70 {
            let leaves: Vec<Hash> = (0..count).map(|n| tally_crypto::hash(&n.to_le_bytes())).collect();
            for (position, leaf) in leaves.iter().enumerate() {
                let path = Sibling::path(&leaves, position).unwrap();
                let root = path.iter().fold(*leaf, |below, sibling| sibling.above(&below));
                assert_eq!(root, merkle::root(&leaves), "leaf {position} of {count}");
            }
            assert_eq!(Sibling::path(&leaves, leaves.len()), None);
        }
    }
}
