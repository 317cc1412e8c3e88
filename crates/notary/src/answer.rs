//! What members say to clients, and the form in which they sign it.

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{PublicKey, Signature, SigningKey, StateRef, Timestamp, TransactionId, encode};
use tally_crypto::derive_key;

use crate::Cluster;

/// What became of a request. It never changes between committed and refused, whoever brings the
/// request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Outcome {
    /// The transaction consumes its inputs, now or since it was first asked for.
    Committed,
    /// One of its states was consumed by another transaction.
    Conflict {
        /// That state.
        state: StateRef,
        /// That transaction.
        consumed_by: TransactionId,
    },
    /// The time that the members agreed on is outside the time window.
    OutsideTimeWindow {
        /// The time of the batch.
        at: Timestamp,
    },
}

/// A member's answer about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Answer {
    /// The transaction.
    pub transaction: TransactionId,
    /// What became of it.
    pub outcome: Outcome,
}

/// An answer with its member's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignedAnswer {
    /// The answer.
    pub answer: Answer,
    /// The member's key for answers.
    pub by: PublicKey,
    /// The member's signature.
    pub signature: Signature,
}

/// How signatures over answers are verified.
///
/// [`AnswerForm`] is the form of this crate. A ledger whose transactions carry the notary's
/// signature in a form of their own implements it for [`Outcome::Committed`] with that form.
pub trait Signatures {
    /// Whether `signature` is by `by` over this answer of this cluster.
    fn verify(&self, cluster: &Cluster, by: &PublicKey, answer: &Answer, signature: &Signature) -> bool;
}

/// The signed form of an answer: a key derivation (BLAKE3) whose context names protocol, version
/// and purpose, over the cluster's id (which covers the network and all members) and the answer in
/// its canonical encoding.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerForm;

impl AnswerForm {
    fn message(cluster: &Cluster, answer: &Answer) -> [u8; 32] {
        derive_key("tallystick clustered notary answer v1", &encode(&(*cluster.id(), answer)))
    }

    /// Signs an answer as the member with this key.
    #[must_use]
    pub fn sign(self, cluster: &Cluster, key: &SigningKey, answer: Answer) -> SignedAnswer {
        let signature = key.sign(&Self::message(cluster, &answer));
        SignedAnswer { answer, by: key.public_key(), signature }
    }
}

impl Signatures for AnswerForm {
    fn verify(&self, cluster: &Cluster, by: &PublicKey, answer: &Answer, signature: &Signature) -> bool {
        by.verify(&Self::message(cluster, answer), signature).is_ok()
    }
}
