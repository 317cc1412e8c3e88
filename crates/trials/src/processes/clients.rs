//! Gateways and their clients: what was handed in where, and what was told.

use super::truth::{Place, Truth};
use crate::simulation::clients::Expected;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tally_ledger::refusal::verdict_from_number;
use tally_ledger::{NetworkId, Refusal, Transaction, TransactionBatch, TransactionId};
use tally_settlement::clerk::Finality;
use tally_settlement::message::{Intake, IntakeBatch, SequenceBatch};
use tally_settlement::process::Gateway;
use tally_sim::Trace;

/// A transaction that some client made.
pub(super) struct Known {
    pub(super) transaction: Transaction,
    pub(super) id: TransactionId,
    pub(super) expected: Expected,
    /// How often it was handed in, and how often that was refused or called another's duplicate.
    handed_in: u64,
    refused: u64,
    /// Where it was said to have been accepted.
    place: Option<Place>,
    /// Whether anything was said of it.
    pub(super) answered: bool,
    /// The same, with other signatures, as somebody else handed it in.
    copies: Vec<Transaction>,
    /// Whether it was handed to a scheduler that is not its reference's.
    misrouted: bool,
}

impl Known {
    /// Times it was handed in and may have been accepted.
    pub(super) fn open(&self) -> u64 {
        self.handed_in - self.refused
    }

    /// Whether somebody handed it in with those signatures.
    pub(super) fn was_handed_in(&self, transaction: &Transaction) -> bool {
        self.transaction == *transaction || self.copies.contains(transaction)
    }
}

/// All clients together.
#[derive(Default)]
pub(super) struct Clients {
    network: NetworkId,
    pub(super) known: Vec<Known>,
    by_id: HashMap<TransactionId, usize>,
    /// What each gateway waits for, by origin.
    waiting: BTreeMap<(usize, u64), Vec<usize>>,
    /// The sequence as any gateway heard it, by its records.
    heard: BTreeMap<u64, Arc<SequenceBatch>>,
    /// Who was told of which place that it is an earlier use of the reference.
    duplicates: Vec<(usize, Place)>,
    pub(super) refusals: BTreeMap<Refusal, u64>,
    pub(super) repeats: u64,
}

impl Clients {
    pub(super) fn new(network: NetworkId) -> Self {
        Self { network, ..Self::default() }
    }

    pub(super) fn id(&self, transaction: &Transaction) -> TransactionId {
        transaction.id(&self.network)
    }

    pub(super) fn find(&self, id: &TransactionId) -> Option<&Known> {
        self.by_id.get(id).map(|at| &self.known[*at])
    }

    /// Hands transactions in at a gateway, which may not be able to pass them on at once.
    pub(super) fn submit(
        &mut self,
        number: usize,
        gateway: &Gateway,
        transactions: Vec<(Transaction, Expected)>,
    ) {
        self.submit_beside(number, gateway, transactions, 0);
    }

    /// Hands transactions to the schedulers so many places after those to which their references fall.
    pub(super) fn submit_beside(
        &mut self,
        number: usize,
        gateway: &Gateway,
        transactions: Vec<(Transaction, Expected)>,
        places: usize,
    ) {
        let mut batches = vec![(TransactionBatch::default(), Vec::new()); gateway.schedulers()];
        for (transaction, expected) in transactions {
            let to = (gateway.route(&transaction.header.uetr) + places) % gateway.schedulers();
            let (batch, known) = &mut batches[to];
            if !batch.push(&transaction) {
                // No batch can hold it: it is not even passed on.
                continue;
            }
            let id = self.id(&transaction);
            let at = *self.by_id.entry(id).or_insert_with(|| {
                self.known.push(Known {
                    transaction: transaction.clone(),
                    id,
                    expected: expected.clone(),
                    handed_in: 0,
                    refused: 0,
                    place: None,
                    answered: false,
                    copies: Vec::new(),
                    misrouted: false,
                });
                self.known.len() - 1
            });
            let one = &mut self.known[at];
            one.handed_in += 1;
            one.misrouted |= places > 0;
            if !one.was_handed_in(&transaction) {
                // Whose signatures count depends on which of them comes first.
                one.copies.push(transaction);
                one.expected = Expected::Anything;
            }
            known.push(at);
        }
        for (scheduler, (batch, known)) in batches.into_iter().enumerate() {
            if !known.is_empty() {
                let origin = gateway.submit(scheduler, batch).expect("a gateway that works takes it");
                assert!(
                    self.waiting.insert((number, origin), known).is_none(),
                    "a gateway gives an origin twice"
                );
            }
        }
    }

    /// Hears what a gateway has heard; how much.
    pub(super) fn hear(&mut self, number: usize, gateway: &mut Gateway, trace: &mut Trace) -> usize {
        let mut heard = 0;
        while let Some(intake) = gateway.intake().expect("schedulers write what gateways read") {
            heard += 1;
            // What a gateway handed in that is no more, the next one does not know.
            if let Some(known) = self.waiting.remove(&(number, intake.origin)) {
                trace.record_number("answer", intake.results.len() as u64);
                self.answer(&known, &intake);
            }
        }
        while let Some((position, batch)) =
            gateway.sequence().expect("the sequencer writes what gateways read")
        {
            heard += 1;
            let known = self.heard.entry(position).or_insert_with(|| Arc::clone(&batch));
            assert_eq!(**known, *batch, "record {position} of the sequence is another to gateway {number}");
        }
        heard
    }

    fn answer(&mut self, handed_in: &[usize], intake: &IntakeBatch) {
        assert_eq!(handed_in.len(), intake.results.len(), "an answer for each");
        for (at, result) in handed_in.iter().zip(&intake.results) {
            let known = &mut self.known[*at];
            self.repeats += u64::from(std::mem::replace(&mut known.answered, true));
            match result {
                Intake::Accepted(index) => {
                    let place = (intake.source.expect("something was accepted"), *index);
                    // That it is not accepted twice, but for want of authority, is checked where it is accepted.
                    known.place = Some(place);
                }
                Intake::Duplicate(source, index) => self.duplicates.push((*at, (*source, *index))),
                Intake::Refused(refusal) => {
                    known.refused += 1;
                    *self.refusals.entry(*refusal).or_default() += 1;
                    let expected = &known.expected;
                    let misrouted = known.misrouted && *refusal == Refusal::Malformed;
                    assert!(
                        misrouted || expected.allows(Err(*refusal)),
                        "{expected:?} was expected of {:?}, not {refusal:?}",
                        known.transaction
                    );
                }
            }
        }
    }

    /// Nobody waits any more at a gateway that is gone.
    pub(super) fn forget_waiting(&mut self, number: usize) {
        self.waiting.retain(|(gateway, _), _| *gateway != number);
    }

    /// Who still waits.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How often a client was told of an earlier use of its reference.
    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates.len() as u64
    }

    /// That all that was told is true.
    pub(super) fn were_told_the_truth(&self, truth: &Truth) {
        for known in &self.known {
            if let Some(place) = known.place {
                assert_eq!(truth.accepted.get(&place), Some(&known.id), "it was said to be at {place:?}");
            }
            if truth.place.contains_key(&known.id) {
                assert!(known.open() > 0, "{:?} was refused whenever it was handed in", known.transaction);
            }
        }
        for (at, place) in &self.duplicates {
            let known = &self.known[*at];
            let first = truth.accepted.get(place).and_then(|id| self.find(id));
            let first =
                first.unwrap_or_else(|| panic!("the first use of a reference is said to be at {place:?}"));
            assert_eq!(
                first.transaction.header.uetr, known.transaction.header.uetr,
                "the first use at {place:?}"
            );
        }
        for (position, batch) in &self.heard {
            for (sequence, (index, number)) in (batch.first..).zip(batch.decisions()) {
                let verdict = verdict_from_number(number).expect("verdicts are known");
                let told = Finality { sequence, timestamp: batch.timestamp, verdict };
                let place = (batch.source, index);
                assert_eq!(truth.decided.get(&place), Some(&told), "record {position} of the sequence");
            }
        }
    }

    /// How many were told an outcome by a gateway that heard where they were accepted, and what was decided there.
    pub(super) fn told(&self) -> u64 {
        let decided = |batch: &Arc<SequenceBatch>| {
            let source = batch.source;
            batch.decisions().map(move |(index, _)| (source, index)).collect::<Vec<_>>()
        };
        let decided: std::collections::HashSet<Place> = self.heard.values().flat_map(decided).collect();
        let told = |known: &&Known| known.place.is_some_and(|place| decided.contains(&place));
        self.known.iter().filter(told).count() as u64
    }
}
