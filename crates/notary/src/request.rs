//! What is asked of the notary, and whether it may be asked.

use std::collections::{HashMap, VecDeque};

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{Name, StateRef, TimeWindow, TransactionId, encode};
use tally_crypto::{Hash, hash};
use thiserror::Error;

/// How many verdicts of the judge are remembered.
const VERDICTS: usize = 65_536;

/// What is to be consumed, by which transaction.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Commit {
    /// The states to consume. A transaction without any is remembered by a mark of its own.
    pub inputs: Vec<StateRef>,
    /// The states that must not be consumed.
    pub references: Vec<StateRef>,
    /// The transaction that consumes them.
    pub transaction: TransactionId,
    /// When it may be committed.
    pub time_window: Option<TimeWindow>,
    /// Who asks.
    pub requester: Name,
}

/// A commit with what proves that it may be asked for.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Request {
    /// What is asked for.
    pub commit: Commit,
    /// For the [`Judge`]: the whole transaction at a validating notary, a tear-off with the owners'
    /// consent at one that does not validate.
    pub evidence: Vec<u8>,
}

impl Request {
    /// The hash of all of it, by which members know it.
    #[must_use]
    pub fn id(&self) -> Hash {
        hash(&encode(self))
    }
}

/// Evidence that does not allow what is asked for, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the evidence does not allow this request: {0}")]
pub struct Unfounded(pub String);

/// Judges evidence. The verdict must follow from the request alone: members that judge differently
/// cannot agree.
pub trait Judge: Send {
    /// Whether the evidence allows the commit: it is about that transaction, shows all of its
    /// inputs, references and its time window, and those whose consent they need gave it.
    ///
    /// # Errors
    /// [`Unfounded`]: no member that is right votes for a batch with this request.
    fn judge(&self, request: &Request) -> Result<(), Unfounded>;
}

/// The judge's verdicts, so that each request is judged once.
pub(crate) struct Verdicts {
    judge: Box<dyn Judge>,
    known: HashMap<Hash, Result<(), Unfounded>>,
    order: VecDeque<Hash>,
}

impl Verdicts {
    pub(crate) fn new(judge: Box<dyn Judge>) -> Self {
        Self { judge, known: HashMap::new(), order: VecDeque::new() }
    }

    /// The verdict on a request with this id. The id is over the evidence too, so that no other
    /// request shares it.
    pub(crate) fn of(&mut self, id: Hash, request: &Request) -> Result<(), Unfounded> {
        if let Some(verdict) = self.known.get(&id) {
            return verdict.clone();
        }
        let verdict = self.judge.judge(request);
        self.known.insert(id, verdict.clone());
        self.order.push_back(id);
        if self.order.len() > VERDICTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        verdict
    }
}
