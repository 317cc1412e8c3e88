//! What must hold at every moment. Shares no code with the cluster: it knows requests, answers and
//! clocks.

use std::collections::{BTreeMap, BTreeSet};

use tally_consensus::{Message as Round, Packet, Protocol, View};
use tally_contracts::{StateRef, TransactionId};
use tally_notary::{Answer, Commit, Message, Outcome};

use super::plan::{EPOCH_MS, Plan};

#[derive(Debug, Default)]
pub(crate) struct Model {
    /// By accepted attestations.
    consumed: BTreeMap<StateRef, TransactionId>,
    /// By what members that are right signed, over all their lives.
    signed: BTreeMap<StateRef, TransactionId>,
    committed: BTreeSet<TransactionId>,
    /// Transactions that some member that is right signed for.
    agreed: BTreeSet<TransactionId>,
    refused: BTreeMap<TransactionId, Outcome>,
    /// Decided batches, by their height.
    batches: BTreeMap<u64, [u8; 32]>,
    /// What members that are right proposed and voted for, by round and kind of message.
    votes: BTreeMap<(usize, View, u8), [u8; 32]>,
}

fn wish<'a>(plan: &'a Plan, transaction: &TransactionId) -> &'a super::plan::Wish {
    let found = plan.wishes.iter().find(|wish| wish.request.commit.transaction == *transaction);
    found.unwrap_or_else(|| panic!("nobody asked for {transaction}"))
}

/// The earliest and the latest time that a clock of a correct member may show.
fn clocks(plan: &Plan, now_ms: u64) -> (u64, u64) {
    let latest = plan.skew_ms.iter().max().copied().unwrap_or(0);
    (EPOCH_MS + now_ms, EPOCH_MS + now_ms + latest)
}

fn check(plan: &Plan, consumed: &mut BTreeMap<StateRef, TransactionId>, commit: &Commit, now_ms: u64) {
    for state in &commit.inputs {
        let by = *consumed.entry(*state).or_insert(commit.transaction);
        assert_eq!(by, commit.transaction, "two transactions consume {state}");
    }
    let wish = wish(plan, &commit.transaction);
    assert!(wish.founded, "{} was committed without evidence", commit.transaction);
    if let Some(window) = commit.time_window {
        let (_, latest) = clocks(plan, now_ms);
        let (earliest, _) = clocks(plan, wish.at_ms);
        // Batches are two seconds ahead of a clock at most, and may be behind by the tolerance.
        assert!(window.from.is_none_or(|from| from.as_millis() <= latest + 2_000), "{commit:?} at {now_ms}");
        let tolerance = plan.config.clock_tolerance_ms;
        assert!(
            window.until.is_none_or(|until| until.as_millis() + tolerance + 2_000 > earliest),
            "{commit:?} at {now_ms}"
        );
    }
}

impl Model {
    /// A member that is right signs an answer.
    pub(crate) fn signs(&mut self, plan: &Plan, answer: &Answer, now_ms: u64) {
        if answer.outcome == Outcome::Committed {
            // Whoever was told that it is refused may have used its states otherwise.
            assert!(
                !self.refused.contains_key(&answer.transaction),
                "{} after its refusal",
                answer.transaction
            );
            self.agreed.insert(answer.transaction);
            let commit = &wish(plan, &answer.transaction).request.commit;
            check(plan, &mut self.signed, commit, now_ms);
        }
    }

    /// A member that is right sends a message to another. It votes once in a round, over all its
    /// lives.
    pub(crate) fn says(&mut self, node: usize, bytes: &[u8]) {
        let Ok(Message::Round { code, bytes }) = Message::from_bytes(bytes, usize::MAX) else { return };
        let packet = Packet { code, bytes: bytes.into() };
        let message = Round::decode(Protocol::QBFT, &packet).expect("what a right member says can be read");
        let digest = match &message {
            Round::Proposal(proposal) => proposal.block.digest(),
            Round::Prepare(prepare) => prepare.payload.digest,
            Round::Commit(commit) => commit.payload.digest,
            Round::RoundChange(_) => return,
        };
        let known = *self.votes.entry((node, message.view(), code)).or_insert(digest.0);
        assert_eq!(known, digest.0, "member {node} contradicts itself in {:?}", message.view());
    }

    /// A client accepts an attestation.
    pub(crate) fn accepts(&mut self, plan: &Plan, transaction: TransactionId, now_ms: u64) {
        let commit = &wish(plan, &transaction).request.commit;
        check(plan, &mut self.consumed, commit, now_ms);
        self.committed.insert(transaction);
    }

    /// A client accepts a refusal.
    pub(crate) fn refuses(&mut self, plan: &Plan, transaction: TransactionId, outcome: Outcome) {
        let commit = &wish(plan, &transaction).request.commit;
        match outcome {
            Outcome::Committed => panic!("that is no refusal"),
            Outcome::Conflict { state, consumed_by } => {
                assert!(commit.inputs.contains(&state) || commit.references.contains(&state), "{state}");
                assert_ne!(consumed_by, transaction);
                let other = wish(plan, &consumed_by);
                assert!(
                    other.founded && other.request.commit.inputs.contains(&state),
                    "{consumed_by} has {state}"
                );
            }
            Outcome::OutsideTimeWindow { at } => {
                assert!(commit.time_window.is_some_and(|window| !window.contains(at)), "{commit:?} at {at}");
            }
        }
        assert!(!self.agreed.contains(&transaction), "{transaction} is refused after it was committed");
        self.refused.insert(transaction, outcome);
    }

    /// A member that is right appends a batch.
    pub(crate) fn appends(&mut self, height: u64, hash: [u8; 32]) {
        let known = *self.batches.entry(height).or_insert(hash);
        assert_eq!(known, hash, "two batches at height {height}");
    }

    /// At the end: who was named as the reason of a refusal was committed.
    pub(crate) fn ends(&self) {
        for (transaction, outcome) in &self.refused {
            assert!(!self.committed.contains(transaction), "{transaction} was committed and refused");
            if let Outcome::Conflict { consumed_by, .. } = outcome {
                let other = self.refused.get(consumed_by);
                // It may have been asked for when its window was not open yet.
                let refused = matches!(other, Some(Outcome::Conflict { .. }));
                assert!(!refused, "{transaction} lost against {consumed_by}, which was refused: {other:?}");
            }
        }
    }

    pub(crate) fn heights(&self) -> u64 {
        self.batches.len() as u64
    }

    pub(crate) fn committed(&self) -> u64 {
        self.committed.len() as u64
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.len() as u64
    }
}
