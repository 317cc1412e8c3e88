//! What is known of the transactions that a flow has submitted, and what its failure may therefore say.
//!
//! A flow can end at any time: by an error of its own code, by another's, by a person. Whatever ends it, its outcome says
//! of each transaction what is true: the rule is here and not in the flows, so that none of them can break it.

use std::sync::Arc;

use tally_contracts::{Name, SignedTransaction, TransactionId};

use crate::cell::{Next, State};
use crate::journal::Step;
use crate::service::{LedgerWrite, Request};
use crate::{Context, FlowError};

/// Most characters of a reason that are kept: a part of it may be another node's.
const REASON: usize = 400;

/// As much of a reason as is kept.
fn short(reason: &str) -> String {
    reason.chars().take(REASON).collect()
}

impl Context {
    /// Says that the transaction may become final from here on, whatever becomes of this flow, and who has to have it
    /// then. All signatures but the notary's are there. Until [`decided`](Self::decided) is called, a failure of this flow
    /// is told as [`FlowError::Unknown`], and the node goes on to find out.
    pub async fn submitting(&self, transaction: &SignedTransaction, told: &[Name]) {
        let id = transaction.id();
        self.once(|state| match state.next() {
            Next::First => {
                state.did(Step::Submitted { transaction: transaction.encode(), told: told.to_vec() });
                Some(())
            }
            Next::Again(Step::Submitted { transaction: again, .. })
                if SignedTransaction::decode(&again).is_ok_and(|again| again.id() == id) =>
            {
                state.cursor += 1;
                Some(())
            }
            Next::Again(step) => {
                state.disagrees(&step, &format!("submit transaction {id}"));
                None
            }
        })
        .await;
    }

    /// Says what became of a submitted transaction: it is final, and this flow has recorded it, or its notary refused
    /// it. Once it is final, a failure of this flow is told as [`FlowError::Final`].
    pub async fn decided(&self, transaction: TransactionId, is_final: bool) {
        let step = Step::Decided { transaction, is_final };
        self.once(|state| match state.next() {
            Next::First => {
                state.did(step.clone());
                Some(())
            }
            Next::Again(again) if again == step => {
                state.cursor += 1;
                Some(())
            }
            Next::Again(again) => {
                state.disagrees(&again, &format!("learn the fate of transaction {transaction}"));
                None
            }
        })
        .await;
    }

    /// Notes that a party has not confirmed that it has a final transaction, and why. The node delivers it again until
    /// it arrives.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn undelivered(
        &self,
        transaction: TransactionId,
        party: &Name,
        reason: &FlowError,
    ) -> Result<(), FlowError> {
        let reason = short(&reason.to_string());
        self.done(Request::Undelivered { transaction, party: party.clone(), reason }).await
    }

    /// Notes that a party has confirmed that it has a final transaction.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn delivered(&self, transaction: TransactionId, party: &Name) -> Result<(), FlowError> {
        self.done(Request::Delivered { transaction, party: party.clone() }).await
    }

    /// Notes that the fate of a transaction is known that an earlier flow left unknown.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn resolved(&self, transaction: TransactionId) -> Result<(), FlowError> {
        self.done(Request::Resolved(transaction)).await
    }
}

impl State {
    /// The flow ends with `error`: gives what its outcome says, and notes what the node has to go on with.
    pub(crate) fn leave_behind(&mut self, error: FlowError, me: &Name) -> FlowError {
        let (kind, reason) = (error.code().to_owned(), short(&error.to_string()));
        let Self { steps, writes, .. } = self;
        let decision = |id: TransactionId| {
            steps.iter().find_map(|step| match step {
                Step::Decided { transaction, is_final } if *transaction == id => Some(*is_final),
                _ => None,
            })
        };
        let (mut last_final, mut unknown) = (None, None);
        for (place, step) in steps.iter().enumerate() {
            let Step::Submitted { transaction, told } = step else { continue };
            // A flow that came no further has shown it to nobody who could make it final.
            if !steps[place..].iter().any(shows) {
                continue;
            }
            // The flow has encoded it itself.
            let Ok(signed) = SignedTransaction::decode(transaction) else { continue };
            let id = signed.id();
            let others = told.iter().filter(|party| *party != me);
            match decision(id) {
                Some(false) => {}
                Some(true) => {
                    last_final = Some(id);
                    // Who has it already says so when it is delivered again.
                    writes.extend(others.map(|party| LedgerWrite::Undelivered {
                        transaction: id,
                        party: party.clone(),
                        reason: reason.clone(),
                    }));
                }
                None => {
                    unknown = Some(id);
                    writes.push(LedgerWrite::Unresolved {
                        transaction: Arc::new(signed),
                        told: others.cloned().collect(),
                        reason: reason.clone(),
                    });
                }
            }
        }
        match (unknown, last_final) {
            (Some(transaction), _) => FlowError::Unknown { transaction, kind, reason },
            (None, Some(transaction)) => FlowError::Final { transaction, kind, reason },
            (None, None) => error,
        }
    }
}

/// Does this step of a flow let what was submitted before it become final: by a message to the notary, by this node's
/// own decision as the notary, or by recording what needs no notary?
fn shows(step: &Step) -> bool {
    match step {
        Step::Opened { .. } | Step::Sent(_) => true,
        Step::Asked { request, .. } => [Request::RECORD, Request::COMMIT].contains(request),
        _ => false,
    }
}
