//! The notary's memory: what is consumed, durably or on its way there.

use std::collections::HashMap;

use tally_contracts::{StateRef, Timestamp, TransactionId};
use tally_flows::{Commit, Committed, LedgerWrite, Performed, Response};
use tally_store::{Store, StoreError};

/// States that are consumed and not durably so yet.
#[derive(Default)]
pub(crate) struct Notary {
    pending: HashMap<StateRef, TransactionId>,
}

/// A transaction without inputs consumes this, so that being asked again it gets the same answer.
fn own_mark(transaction: TransactionId) -> StateRef {
    StateRef { transaction, index: u32::MAX }
}

impl Notary {
    /// Consumes the inputs of a transaction, if nothing speaks against it: a state that another transaction has
    /// consumed, then the time. A transaction that was committed before is so again, whatever the time.
    pub(crate) fn commit(
        &mut self,
        store: &dyn Store,
        commit: &Commit,
        now: Timestamp,
    ) -> Result<Performed, StoreError> {
        let mut inputs = commit.inputs.clone();
        if inputs.is_empty() {
            inputs.push(own_mark(commit.transaction));
        }
        let asked: Vec<StateRef> = inputs.iter().chain(&commit.references).copied().collect();
        let durable = store.consumed(&asked)?;
        let consumer = |index: usize| {
            let state: &StateRef = &asked[index];
            self.pending
                .get(state)
                .copied()
                .or_else(|| durable[index].as_ref().map(|consumption| consumption.by))
        };
        if (0..inputs.len()).all(|index| consumer(index) == Some(commit.transaction)) {
            return Ok(Response::Committed(Committed::Yes).into());
        }
        for (index, state) in asked.iter().enumerate() {
            if let Some(consumed_by) = consumer(index) {
                return Ok(Response::Committed(Committed::Conflict { state: *state, consumed_by }).into());
            }
        }
        if commit.time_window.is_some_and(|window| !window.contains(now)) {
            return Ok(Response::Committed(Committed::OutsideTimeWindow { at: now }).into());
        }
        self.pending.extend(inputs.iter().map(|state| (*state, commit.transaction)));
        Ok(Performed {
            response: Response::Committed(Committed::Yes),
            writes: vec![LedgerWrite::Consume {
                states: inputs,
                by: commit.transaction,
                requester: commit.requester.clone(),
            }],
        })
    }

    /// These states are durably consumed.
    pub(crate) fn durable(&mut self, states: &[StateRef]) {
        for state in states {
            self.pending.remove(state);
        }
    }
}
