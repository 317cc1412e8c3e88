//! Clients: what they sent, and what they were told.

use std::collections::HashMap;
use std::time::Duration;
use tally_ledger::{NetworkId, Refusal, Transaction, TransactionId};
use tally_settlement::clerk::Finality;
use tally_settlement::engine::{Answer, Desk, EngineError, Outcome, Pending};
use tally_sim::Trace;

/// What may become of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    /// Nothing is known of it.
    Anything,
    /// It is in order: it is made, or refused for want of money, time, room or an open account.
    Order,
    /// Something is wrong with it: it is never made.
    Refusal,
    /// It is refused for one of these, or for want of time or room.
    One(&'static [Refusal]),
}

/// Reasons for which a transaction in order may be refused.
const PLAUSIBLE: &[Refusal] = &[
    Refusal::Expired,
    Refusal::ExpiryTooFar,
    Refusal::Overloaded,
    Refusal::ClosedAccount,
    Refusal::BlockedAccount,
    Refusal::InsufficientFunds,
    Refusal::AboveLimit,
    Refusal::BalanceOverflow,
    Refusal::OrderNotPossible,
    Refusal::NotEmpty,
    Refusal::ApprovalTimeout,
];
/// Reasons that can hide any other.
const CIRCUMSTANCES: &[Refusal] = &[Refusal::Expired, Refusal::ExpiryTooFar, Refusal::Overloaded];

/// A transaction that some client made.
pub(crate) struct Known {
    pub(crate) transaction: Transaction,
    pub(crate) id: TransactionId,
    pub(crate) expected: Expected,
    /// The step in which it was first handed in.
    pub(crate) sent: u64,
    /// What somebody was told of it that is final, and in which step.
    pub(crate) told: Option<(Finality, u64)>,
    /// Times it was handed in and not refused or called a duplicate, as far as is known.
    pub(crate) open: u32,
    /// Somebody was told in this life that it had expired without having been accepted. The next may begin with an
    /// earlier clock.
    pub(crate) expired: bool,
    /// The same, with other signatures, as somebody else handed it in.
    copies: Vec<Transaction>,
}

struct Waiting {
    pending: Pending,
    known: Vec<usize>,
    answered: Vec<bool>,
}

/// All clients together.
#[derive(Default)]
pub(crate) struct Clients {
    network: NetworkId,
    pub(crate) known: Vec<Known>,
    by_id: HashMap<TransactionId, usize>,
    waiting: Vec<Waiting>,
    /// Firsts of their reference, as told to those who came second.
    pub(crate) firsts: Vec<TransactionId>,
    pub(crate) refused: HashMap<Refusal, u64>,
    pub(crate) duplicates: u64,
    pub(crate) repeats_answered: u64,
}

impl Clients {
    pub(crate) fn new(network: NetworkId) -> Self {
        Self { network, ..Self::default() }
    }

    pub(crate) fn id(&self, transaction: &Transaction) -> TransactionId {
        transaction.id(&self.network)
    }

    pub(crate) fn find(&self, id: &TransactionId) -> Option<&Known> {
        self.by_id.get(id).map(|at| &self.known[*at])
    }

    /// Hands transactions in.
    pub(crate) fn submit(&mut self, step: u64, desk: &Desk, transactions: Vec<(Transaction, Expected)>) {
        let mut handed = Vec::new();
        let mut known = Vec::new();
        for (transaction, expected) in transactions {
            let id = self.id(&transaction);
            let at = *self.by_id.entry(id).or_insert_with(|| {
                self.known.push(Known {
                    transaction: transaction.clone(),
                    id,
                    expected,
                    sent: step,
                    told: None,
                    open: 0,
                    expired: false,
                    copies: Vec::new(),
                });
                self.known.len() - 1
            });
            let one = &mut self.known[at];
            one.open += 1;
            if !one.was_handed_in(&transaction) {
                // Whose signatures count depends on which of them comes first.
                one.copies.push(transaction.clone());
                one.expected = Expected::Anything;
            }
            known.push(at);
            handed.push(transaction);
        }
        let answered = vec![false; known.len()];
        match desk.submit(handed) {
            Ok(pending) => self.waiting.push(Waiting { pending, known, answered }),
            Err(EngineError::Busy(_) | EngineError::Share(_)) => {
                known.iter().for_each(|at| self.known[*at].open -= 1)
            }
            Err(error) => panic!("the desk refused: {error}"),
        }
    }

    /// Hears what has become of everything that was handed in. Returns how many answers came.
    pub(crate) fn listen(&mut self, step: u64, desk: &Desk, trace: &mut Trace) -> usize {
        let mut came = 0;
        let mut waiting = std::mem::take(&mut self.waiting);
        for one in &mut waiting {
            let answers = desk.wait(&one.pending, Duration::ZERO);
            assert_eq!(answers.len(), one.known.len(), "an answer for each");
            for (item, answer) in answers.into_iter().enumerate() {
                if !one.answered[item] && answer.outcome != Outcome::Pending {
                    one.answered[item] = true;
                    came += 1;
                    self.hear(step, one.known[item], answer, trace);
                }
            }
        }
        waiting.retain(|one| one.answered.iter().any(|answered| !answered));
        self.waiting = waiting;
        came
    }

    fn hear(&mut self, step: u64, at: usize, answer: Answer, trace: &mut Trace) {
        let known = &mut self.known[at];
        assert_eq!((answer.id, answer.uetr), (known.id, known.transaction.header.uetr));
        trace.record_number("answer", at as u64);
        match answer.outcome {
            Outcome::Final(finality) => {
                trace.record_number("final", finality.sequence);
                if let Some((before, _)) = known.told.filter(|(before, _)| !is_unauthorised(before.verdict)) {
                    assert_eq!(before, finality, "{} has two outcomes", answer.uetr);
                    self.repeats_answered += 1;
                } else {
                    known.told = Some((finality, step));
                    if let Err(refusal) = finality.verdict {
                        *self.refused.entry(refusal).or_default() += 1;
                    }
                }
                known.check(finality.verdict);
            }
            Outcome::Refused(refusal) => {
                trace.record_number("refused", u64::from(refusal.number()));
                *self.refused.entry(refusal).or_default() += 1;
                known.open -= 1;
                known.expired |= refusal == Refusal::Expired;
                known.check(Err(refusal));
            }
            Outcome::Duplicate { first } => {
                trace.record("duplicate", &[]);
                known.open -= 1;
                self.duplicates += 1;
                let first = first.expect("the journal keeps everything, the first use among it").answer;
                assert_ne!(first.id, answer.id, "a transaction is not its own duplicate");
                assert_eq!(first.uetr, answer.uetr, "a duplicate shares its reference");
                self.firsts.push(first.id);
                let at = *self.by_id.get(&first.id).expect("the first was handed in by somebody");
                if let Outcome::Final(finality) = first.outcome {
                    let told = self.known[at].told.get_or_insert((finality, step));
                    let again = is_unauthorised(told.0.verdict);
                    assert!(again || told.0 == finality, "{} has two outcomes", first.uetr);
                }
            }
            Outcome::Pending => {}
        }
    }

    /// The network is gone and everybody who waited waits in vain.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting.clear();
        self.known.iter_mut().for_each(|known| known.expired = false);
    }

    /// Who still waits.
    pub(crate) fn unanswered(&self) -> usize {
        self.waiting.iter().flat_map(|one| &one.answered).filter(|answered| !**answered).count()
    }
}

/// Whether a refusal is for want of authority: it uses up no reference, and what was refused may be handed in again.
pub(crate) fn is_unauthorised(verdict: Result<(), Refusal>) -> bool {
    matches!(verdict, Err(Refusal::Unsigned | Refusal::WrongSignature))
}

impl Expected {
    /// Whether a transaction of which this is expected may come to that.
    pub(crate) fn allows(&self, verdict: Result<(), Refusal>) -> bool {
        match (self, verdict) {
            (Self::Order, Ok(())) | (Self::Anything, _) => true,
            (Self::Order, Err(refusal)) => PLAUSIBLE.contains(&refusal),
            (_, Ok(())) => false,
            (Self::Refusal, Err(_)) => true,
            (Self::One(wanted), Err(refusal)) => {
                wanted.contains(&refusal) || CIRCUMSTANCES.contains(&refusal)
            }
        }
    }

    /// What may become of it after a change.
    pub(crate) fn or_anything(self) -> Self {
        if self == Self::Order { self } else { Self::Anything }
    }
}

impl Known {
    /// Whether somebody handed it in with those signatures.
    pub(crate) fn was_handed_in(&self, transaction: &Transaction) -> bool {
        self.transaction == *transaction || self.copies.contains(transaction)
    }

    /// Whether somebody handed it in with other signatures.
    pub(crate) fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    fn check(&self, verdict: Result<(), Refusal>) {
        let plausible = self.expected.allows(verdict);
        assert!(plausible, "{:?} was expected of {:?}, not {verdict:?}", self.expected, self.transaction);
    }
}
