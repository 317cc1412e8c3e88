//! What is consumed, and what follows from it for a request.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tally_contracts::{StateRef, Timestamp, TransactionId};

use crate::{Batch, Commit, Outcome};

/// A transaction without inputs consumes this, so that being asked again it gets the same answer.
fn own_mark(transaction: TransactionId) -> StateRef {
    StateRef { transaction, index: u32::MAX }
}

/// What a member has seen consumed, for others to read while it works.
#[derive(Clone, Debug, Default)]
pub struct Consumptions(Arc<RwLock<HashMap<StateRef, TransactionId>>>);

impl Consumptions {
    /// By which transaction each of these states is consumed, as far as this member has carried batches out.
    #[must_use]
    pub fn consumers(&self, states: &[StateRef]) -> Vec<Option<TransactionId>> {
        let consumed = self.read();
        states.iter().map(|state| consumed.get(state).copied()).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<StateRef, TransactionId>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The states that were consumed, and by what. It follows from the batches alone.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    consumed: Consumptions,
    /// When transactions were refused whose window was not open yet. Whoever was told so may have
    /// used the states otherwise, or told a person that nothing was paid; a member that lies, or
    /// one that is behind, can bring the request again later. Other refusals stay what they are by
    /// themselves: what is consumed stays so, and time does not go back.
    early: HashMap<TransactionId, Timestamp>,
}

impl Memory {
    /// What comes of a batch after all batches before it: an outcome for each request, in order.
    pub(crate) fn outcomes(&self, batch: &Batch) -> Vec<Outcome> {
        let mut within = HashMap::new();
        let outcomes =
            batch.requests.iter().map(|request| self.decide(&mut within, &request.commit, batch.time));
        outcomes.collect()
    }

    /// Carries a batch out.
    pub(crate) fn apply(&mut self, batch: &Batch) -> Vec<Outcome> {
        let mut within = HashMap::new();
        let outcomes =
            batch.requests.iter().map(|request| self.decide(&mut within, &request.commit, batch.time));
        let outcomes: Vec<Outcome> = outcomes.collect();
        self.consumed.0.write().unwrap_or_else(PoisonError::into_inner).extend(within);
        for (request, outcome) in batch.requests.iter().zip(&outcomes) {
            let from = request.commit.time_window.and_then(|window| window.from);
            if let Outcome::OutsideTimeWindow { at } = *outcome
                && from.is_some_and(|from| at < from)
            {
                self.early.entry(request.commit.transaction).or_insert(at);
            }
        }
        outcomes
    }

    /// Whether this transaction was committed before.
    pub(crate) fn is_committed(&self, commit: &Commit) -> bool {
        let consumed = self.consumed.read();
        inputs(commit).iter().all(|state| consumed.get(state) == Some(&commit.transaction))
    }

    pub(crate) fn consumptions(&self) -> Consumptions {
        self.consumed.clone()
    }

    /// A state that another transaction has consumed goes before the time. A transaction that was
    /// committed is so again, and one that was refused is refused again, whatever the time.
    fn decide(
        &self,
        within: &mut HashMap<StateRef, TransactionId>,
        commit: &Commit,
        time: Timestamp,
    ) -> Outcome {
        let inputs = inputs(commit);
        let consumed = self.consumed.read();
        let consumer = |state: &StateRef| within.get(state).or_else(|| consumed.get(state)).copied();
        if inputs.iter().all(|state| consumer(state) == Some(commit.transaction)) {
            return Outcome::Committed;
        }
        if let Some(at) = self.early.get(&commit.transaction) {
            return Outcome::OutsideTimeWindow { at: *at };
        }
        for state in inputs.iter().chain(&commit.references) {
            if let Some(consumed_by) = consumer(state) {
                return Outcome::Conflict { state: *state, consumed_by };
            }
        }
        if commit.time_window.is_some_and(|window| !window.contains(time)) {
            return Outcome::OutsideTimeWindow { at: time };
        }
        within.extend(inputs.iter().map(|state| (*state, commit.transaction)));
        Outcome::Committed
    }
}

fn inputs(commit: &Commit) -> Vec<StateRef> {
    if commit.inputs.is_empty() { vec![own_mark(commit.transaction)] } else { commit.inputs.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;
    use tally_contracts::{Name, TimeWindow};

    fn id(n: u8) -> TransactionId {
        TransactionId::from_bytes([n; 32])
    }

    fn state(n: u8) -> StateRef {
        StateRef { transaction: id(n), index: 0 }
    }

    fn request(transaction: u8, inputs: &[u8], references: &[u8]) -> Request {
        let commit = Commit {
            inputs: inputs.iter().map(|n| state(*n)).collect(),
            references: references.iter().map(|n| state(*n)).collect(),
            transaction: id(transaction),
            time_window: None,
            requester: Name::new("Bank", "Zurich", "CH").unwrap(),
        };
        Request { commit, evidence: Vec::new() }
    }

    fn batch(at: u64, requests: Vec<Request>) -> Batch {
        Batch { time: Timestamp::from_millis(at), requests }
    }

    #[test]
    fn the_first_consumer_wins_also_within_a_batch_and_is_told_so_again() {
        let mut memory = Memory::default();
        let conflict = |n, by| Outcome::Conflict { state: state(n), consumed_by: id(by) };
        let first =
            batch(1, vec![request(1, &[10, 11], &[]), request(2, &[11, 12], &[]), request(3, &[12], &[10])]);
        let expected = [Outcome::Committed, conflict(11, 1), conflict(10, 1)];
        assert_eq!(memory.outcomes(&first), expected);
        assert!(!memory.is_committed(&first.requests[0].commit), "to look changes nothing");
        assert_eq!(memory.apply(&first), expected);
        assert_eq!(memory.apply(&first), expected, "asked again");
        // What was refused consumed nothing.
        assert_eq!(memory.apply(&batch(2, vec![request(4, &[12], &[])])), [Outcome::Committed]);
        assert!(
            memory.is_committed(&first.requests[0].commit) && !memory.is_committed(&first.requests[1].commit)
        );
    }

    #[test]
    fn the_time_counts_the_first_time_only() {
        let timed = |number| {
            let mut timed = request(number, &[], &[]);
            let window = TimeWindow::between(Timestamp::from_millis(10), Timestamp::from_millis(20));
            timed.commit.time_window = Some(window);
            timed
        };
        let outside = |at| Outcome::OutsideTimeWindow { at: Timestamp::from_millis(at) };
        let mut memory = Memory::default();
        for (at, number, outcome) in [
            (9, 1, outside(9)),
            (10, 1, outside(9)),
            (10, 2, Outcome::Committed),
            (20, 2, Outcome::Committed),
            (20, 3, outside(20)),
            (21, 1, outside(9)),
        ] {
            assert_eq!(memory.apply(&batch(at, vec![timed(number)])), [outcome], "{number} at {at}");
        }
    }
}
