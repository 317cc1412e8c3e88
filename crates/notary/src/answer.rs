//! What members say to clients, and the form in which they sign it.

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{
    PublicKey, Role, Signature, SigningKey, StateRef, Timestamp, TransactionId, TransactionSignature, encode,
    sign,
};
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

/// The signed form of the flows ledger: [`Outcome::Committed`] is the signature that a notary gives
/// to a transaction ([`tally_contracts::sign`] as [`Role::Notary`]), so that it can stand among the
/// signatures of the transaction. A refusal is signed in [`AnswerForm`].
///
/// The two forms are hashes under different keys, so that no refusal is an attestation and no
/// attestation a refusal. The id of a transaction covers the network; which cluster has to attest
/// to it is what the transaction says of its notary.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionForm;

impl TransactionForm {
    /// Signs an answer as the member with this key.
    #[must_use]
    pub fn sign(self, cluster: &Cluster, key: &SigningKey, answer: Answer) -> SignedAnswer {
        match answer.outcome {
            Outcome::Committed => {
                let TransactionSignature { by, signature, .. } = sign(key, Role::Notary, answer.transaction);
                SignedAnswer { answer, by, signature }
            }
            Outcome::Conflict { .. } | Outcome::OutsideTimeWindow { .. } => {
                AnswerForm.sign(cluster, key, answer)
            }
        }
    }
}

impl Signatures for TransactionForm {
    fn verify(&self, cluster: &Cluster, by: &PublicKey, answer: &Answer, signature: &Signature) -> bool {
        match answer.outcome {
            Outcome::Committed => {
                let attested = TransactionSignature { by: *by, role: Role::Notary, signature: *signature };
                attested.verify(Role::Notary, answer.transaction).is_ok()
            }
            Outcome::Conflict { .. } | Outcome::OutsideTimeWindow { .. } => {
                AnswerForm.verify(cluster, by, answer, signature)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collector, Member, Progress};
    use tally_contracts::{Name, Scheme};
    use tally_crypto::Hash;

    fn key(n: u8) -> SigningKey {
        SigningKey::from_secret(Scheme::Ed25519, &[n; 32]).unwrap()
    }

    fn cluster(network: u8) -> Cluster {
        let member = |n: u8| Member {
            name: Name::new(&format!("Notary {n}"), "Zurich", "CH").unwrap(),
            voter: [n; 20],
            key: key(n).public_key(),
        };
        Cluster::new(Hash::from_bytes([network; 32]), (1..=4).map(member).collect()).unwrap()
    }

    fn answers() -> [Answer; 3] {
        let transaction = TransactionId::from_bytes([7; 32]);
        let state = StateRef { transaction, index: 0 };
        let conflict = Outcome::Conflict { state, consumed_by: TransactionId::from_bytes([8; 32]) };
        let late = Outcome::OutsideTimeWindow { at: Timestamp::from_millis(9) };
        [Outcome::Committed, conflict, late].map(|outcome| Answer { transaction, outcome })
    }

    #[test]
    fn a_committed_answer_is_a_notarys_signature_over_the_transaction_and_a_refusal_is_none() {
        let cluster = cluster(1);
        for answer in answers() {
            let SignedAnswer { by, signature, .. } = TransactionForm.sign(&cluster, &key(1), answer);
            assert!(TransactionForm.verify(&cluster, &by, &answer, &signature));
            for other in answers().into_iter().filter(|other| *other != answer) {
                assert!(
                    !TransactionForm.verify(&cluster, &by, &other, &signature),
                    "{answer:?} as {other:?}"
                );
            }
            for role in [Role::Notary, Role::Party, Role::Oracle] {
                let shown = TransactionSignature { by, role, signature };
                let counts = role == Role::Notary && answer.outcome == Outcome::Committed;
                assert_eq!(shown.verify(role, answer.transaction).is_ok(), counts, "{answer:?} as {role}");
            }
        }
        // What a node signs as a party of a transaction attests to nothing.
        let [committed, ..] = answers();
        let party = sign(&key(1), Role::Party, committed.transaction);
        assert!(!TransactionForm.verify(&cluster, &party.by, &committed, &party.signature));
    }

    #[test]
    fn refusals_of_all_members_never_attest_and_are_of_one_cluster() {
        let (here, there) = (cluster(1), cluster(2));
        let [committed, conflict, _] = answers();
        let mut collector = Collector::new(&here, committed.transaction);
        for n in 1..=4 {
            let mut shown = TransactionForm.sign(&here, &key(n), conflict);
            shown.answer = committed;
            assert_eq!(collector.take(&shown, &TransactionForm), Progress::Waiting);
            let mut shown = TransactionForm.sign(&here, &key(n), committed);
            shown.answer = conflict;
            assert_eq!(collector.take(&shown, &TransactionForm), Progress::Waiting);
            let elsewhere = TransactionForm.sign(&there, &key(n), conflict);
            assert_eq!(collector.take(&elsewhere, &TransactionForm), Progress::Waiting);
        }
        assert_eq!(collector.refusal(&conflict.outcome), []);
        let refused = [1, 2].map(|n| TransactionForm.sign(&here, &key(n), conflict));
        assert_eq!(collector.take(&refused[0], &TransactionForm), Progress::Waiting);
        assert_eq!(collector.take(&refused[1], &TransactionForm), Progress::Refused(conflict.outcome));
        let mut shown = collector.refusal(&conflict.outcome);
        shown.sort_by_key(|signed| signed.by != key(1).public_key());
        assert_eq!(shown, refused);
    }
}
