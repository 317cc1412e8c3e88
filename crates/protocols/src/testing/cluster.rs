//! What the members of a clustered notary have agreed on, in memory: one sequence, and everybody's signatures.

use std::collections::BTreeMap;

use tally_contracts::{Party, Role, SigningKey, StateRef, Timestamp, TransactionId, sign};
use tally_flows::ClusterAnswer;
use tally_notary::{Answer, Cluster, Commit, Judge, Outcome, Request, TransactionForm, Unfounded};

use crate::notarise::BlindJudge;

pub(super) struct Agreed {
    cluster: Cluster,
    judge: BlindJudge,
    services: Vec<SigningKey>,
    consumed: BTreeMap<StateRef, TransactionId>,
    outcomes: BTreeMap<TransactionId, Outcome>,
}

impl Agreed {
    pub(super) fn new(cluster: Cluster, notary: Party, services: Vec<SigningKey>) -> Self {
        let judge = BlindJudge::new(super::network::NETWORK, notary);
        Self { cluster, judge, services, consumed: BTreeMap::new(), outcomes: BTreeMap::new() }
    }

    pub(super) fn decide(&mut self, request: &Request, now: Timestamp) -> Result<ClusterAnswer, Unfounded> {
        self.judge.judge(request)?;
        let transaction = request.commit.transaction;
        let outcome = match self.outcomes.get(&transaction) {
            Some(outcome) => *outcome,
            None => self.outcome(&request.commit, now),
        };
        self.outcomes.insert(transaction, outcome);
        Ok(match outcome {
            Outcome::Committed => {
                let signers = self.services.iter().take(self.cluster.quorum());
                ClusterAnswer::Attested(signers.map(|key| sign(key, Role::Notary, transaction)).collect())
            }
            refusal => {
                let answer = Answer { transaction, outcome: refusal };
                let signers = self.services.iter().take(self.cluster.faulty() + 1);
                let signed = signers.map(|key| TransactionForm.sign(&self.cluster, key, answer));
                ClusterAnswer::Refused(signed.collect())
            }
        })
    }

    /// By what a state is consumed.
    pub(super) fn consumer(&self, state: &StateRef) -> Option<TransactionId> {
        self.consumed.get(state).copied()
    }

    fn outcome(&mut self, commit: &Commit, now: Timestamp) -> Outcome {
        let mut states = commit.inputs.iter().chain(&commit.references);
        let taken = states.find_map(|state| Some((*state, *self.consumed.get(state)?)));
        if let Some((state, consumed_by)) = taken {
            return Outcome::Conflict { state, consumed_by };
        }
        if commit.time_window.is_some_and(|window| !window.contains(now)) {
            return Outcome::OutsideTimeWindow { at: now };
        }
        self.consumed.extend(commit.inputs.iter().map(|state| (*state, commit.transaction)));
        Outcome::Committed
    }
}
