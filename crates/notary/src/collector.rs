//! A client of the cluster: when it may believe what members answer.

use std::collections::BTreeMap;

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{PublicKey, Signature, TransactionId};

use crate::{Answer, Cluster, Outcome, Signatures, SignedAnswer};

/// Proof that a transaction is notarised: signatures of `2f + 1` members.
///
/// `f + 1` would do while the members agree on one sequence. With `2f + 1`, two attestations for
/// transactions that consume one state have at least `f + 1` members in common, so that one of them
/// is right and never signs the second, even if the agreement itself failed.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Attestation {
    /// The transaction.
    pub transaction: TransactionId,
    /// Keys of distinct members with their signatures over [`Outcome::Committed`], ascending by
    /// key.
    pub signatures: Vec<(PublicKey, Signature)>,
}

impl Attestation {
    /// Whether it proves that the cluster notarised its transaction.
    #[must_use]
    pub fn verify(&self, cluster: &Cluster, form: &dyn Signatures) -> bool {
        let answer = Answer { transaction: self.transaction, outcome: Outcome::Committed };
        let ascending = self.signatures.is_sorted_by(|a, b| a.0 < b.0);
        ascending
            && self.signatures.len() >= cluster.quorum()
            && self.signatures.iter().all(|(by, signature)| {
                cluster.position(by).is_some() && form.verify(cluster, by, &answer, signature)
            })
    }
}

/// How far a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More members have to answer. Ask those again that have not, or that answered otherwise.
    Waiting,
    /// It is notarised.
    Committed(Attestation),
    /// It is refused: `f + 1` members say so, and one of them is right.
    Refused(Outcome),
}

/// Gathers the answers of members about one transaction. Bounded by the number of members.
#[derive(Debug)]
pub struct Collector<'a> {
    cluster: &'a Cluster,
    transaction: TransactionId,
    committed: BTreeMap<PublicKey, Signature>,
    /// The last refusal of each member.
    refused: BTreeMap<PublicKey, (Outcome, Signature)>,
}

impl<'a> Collector<'a> {
    /// Waits for answers about `transaction`.
    #[must_use]
    pub fn new(cluster: &'a Cluster, transaction: TransactionId) -> Self {
        Self { cluster, transaction, committed: BTreeMap::new(), refused: BTreeMap::new() }
    }

    /// Takes an answer. One that is of no member, about another transaction or without a good
    /// signature changes nothing.
    pub fn take(&mut self, signed: &SignedAnswer, form: &dyn Signatures) -> Progress {
        let SignedAnswer { answer, by, signature } = signed;
        if answer.transaction == self.transaction
            && self.cluster.position(by).is_some()
            && form.verify(self.cluster, by, answer, signature)
        {
            match answer.outcome {
                Outcome::Committed => {
                    self.committed.insert(*by, *signature);
                }
                refusal => {
                    self.refused.insert(*by, (refusal, *signature));
                }
            }
        }
        self.progress()
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        if self.committed.len() >= self.cluster.quorum() {
            let signatures = self.committed.iter().map(|(by, signature)| (*by, *signature)).collect();
            return Progress::Committed(Attestation { transaction: self.transaction, signatures });
        }
        let agreed = |outcome: &Outcome| {
            self.refused.values().filter(|(other, _)| other == outcome).count() > self.cluster.faulty()
        };
        match self.refused.values().find(|(outcome, _)| agreed(outcome)) {
            Some((outcome, _)) => Progress::Refused(*outcome),
            None => Progress::Waiting,
        }
    }

    /// The answers with this refusal, one of each member that gave it. With `f + 1` of them, which
    /// [`Progress::Refused`] says, they prove the refusal to anybody who takes them in turn.
    #[must_use]
    pub fn refusal(&self, outcome: &Outcome) -> Vec<SignedAnswer> {
        let answer = Answer { transaction: self.transaction, outcome: *outcome };
        self.refused
            .iter()
            .filter(|(_, (other, _))| other == outcome)
            .map(|(by, (_, signature))| SignedAnswer { answer, by: *by, signature: *signature })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerForm, Member};
    use tally_contracts::{Name, Scheme, SigningKey, StateRef, Timestamp};
    use tally_crypto::Hash;

    fn keys() -> Vec<SigningKey> {
        (1..=4).map(|n| SigningKey::from_secret(Scheme::Ed25519, &[n; 32]).unwrap()).collect()
    }

    fn cluster(network: u8) -> Cluster {
        let member = |(n, key): (usize, &SigningKey)| Member {
            name: Name::new(&format!("Notary {n}"), "Zurich", "CH").unwrap(),
            voter: [u8::try_from(n).unwrap(); 20],
            key: key.public_key(),
        };
        Cluster::new(Hash::from_bytes([network; 32]), keys().iter().enumerate().map(member).collect())
            .unwrap()
    }

    fn transaction(n: u8) -> TransactionId {
        TransactionId::from_bytes([n; 32])
    }

    fn committed(n: u8) -> Answer {
        Answer { transaction: transaction(n), outcome: Outcome::Committed }
    }

    #[test]
    fn it_takes_two_thirds_and_one_of_distinct_members_for_an_attestation() {
        let (cluster, keys) = (cluster(0), keys());
        let sign = |key: &SigningKey, answer| AnswerForm.sign(&cluster, key, answer);
        let mut collector = Collector::new(&cluster, transaction(1));
        for _ in 0..5 {
            assert_eq!(collector.take(&sign(&keys[0], committed(1)), &AnswerForm), Progress::Waiting);
        }
        assert_eq!(collector.take(&sign(&keys[1], committed(2)), &AnswerForm), Progress::Waiting);
        assert_eq!(collector.take(&sign(&keys[1], committed(1)), &AnswerForm), Progress::Waiting);
        let mut forged = sign(&keys[1], committed(1));
        forged.by = keys[2].public_key();
        assert_eq!(collector.take(&forged, &AnswerForm), Progress::Waiting);
        let stranger = SigningKey::from_secret(Scheme::Ed25519, &[9; 32]).unwrap();
        assert_eq!(collector.take(&sign(&stranger, committed(1)), &AnswerForm), Progress::Waiting);
        let Progress::Committed(attestation) = collector.take(&sign(&keys[3], committed(1)), &AnswerForm)
        else {
            panic!("three members signed")
        };
        assert!(attestation.verify(&cluster, &AnswerForm));
        let mut twice = attestation.clone();
        twice.signatures[1] = twice.signatures[0];
        assert!(!twice.verify(&cluster, &AnswerForm), "one member twice");
        let mut other = attestation.clone();
        other.transaction = transaction(2);
        assert!(!other.verify(&cluster, &AnswerForm), "another transaction");
        assert!(!attestation.verify(&super::tests::cluster(1), &AnswerForm), "another network");
    }

    #[test]
    fn one_member_alone_refuses_nothing() {
        let (cluster, keys) = (cluster(0), keys());
        let state = StateRef { transaction: transaction(7), index: 0 };
        let refusal = |by| Answer {
            transaction: transaction(1),
            outcome: Outcome::Conflict { state, consumed_by: transaction(by) },
        };
        let mut collector = Collector::new(&cluster, transaction(1));
        let mut take =
            |key: usize, answer| collector.take(&AnswerForm.sign(&cluster, &keys[key], answer), &AnswerForm);
        assert_eq!(take(0, refusal(2)), Progress::Waiting);
        let late = Outcome::OutsideTimeWindow { at: Timestamp::EPOCH };
        assert_eq!(take(1, Answer { transaction: transaction(1), outcome: late }), Progress::Waiting);
        assert_eq!(take(1, refusal(3)), Progress::Waiting, "for other reasons");
        assert_eq!(take(2, refusal(3)), Progress::Refused(refusal(3).outcome));
    }
}
