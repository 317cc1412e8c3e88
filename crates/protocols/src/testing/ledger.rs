//! What a node in memory knows: flows, transactions, vault, notary's memory, messages to send.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tally_contracts::{
    Attachment, AttachmentId, Name, PublicKey, SignedTransaction, State, StateAndRef, StateRef, Summary,
    Timestamp, TransactionId, select_coins,
};
use tally_flows::{
    Commit, Committed, Filter, FlowError, FlowId, LedgerWrite, Mark, Outcome, Saved, Selection, Shared,
    Unconsumed, Unit,
};

use crate::check::contracts;

/// Everything that a node must not lose.
#[derive(Clone, Default)]
pub struct Ledger {
    /// Flows under way.
    pub flows: BTreeMap<FlowId, Saved>,
    /// What flows came to.
    pub outcomes: BTreeMap<FlowId, Outcome>,
    /// Verified transactions.
    pub transactions: BTreeMap<TransactionId, Arc<SignedTransaction>>,
    /// Unconsumed states that the node takes part in.
    pub states: BTreeMap<StateRef, (State, Summary)>,
    /// Unconsumed states that a notary has given to transactions which are not recorded here.
    pub lost: BTreeMap<StateRef, TransactionId>,
    /// Consents that flows have used: which, how much, when.
    pub consents: BTreeMap<FlowId, (String, u64, Timestamp)>,
    /// What the recorded transactions consume.
    pub spent: BTreeSet<StateRef>,
    /// Transactions that flows have fetched and not verified.
    pub kept: BTreeMap<(FlowId, TransactionId), Arc<SignedTransaction>>,
    /// Attachments, verified against their hashes.
    pub attachments: BTreeMap<AttachmentId, Attachment>,
    /// Parts of attachments that flows have fetched.
    pub parts: BTreeMap<(FlowId, AttachmentId, u32), Arc<[u8]>>,
    /// Who holds which state.
    pub held: BTreeMap<StateRef, FlowId>,
    /// As a notary: what was consumed by what, on whose request.
    pub consumed: BTreeMap<StateRef, (TransactionId, Name)>,
    /// Messages that are not acknowledged, by peer and number.
    pub outbound: BTreeMap<Name, BTreeMap<u64, Vec<u8>>>,
    /// Who has not confirmed which final transaction, and why.
    pub undelivered: BTreeMap<(Name, TransactionId), String>,
    /// Transactions of unknown fate, and who has to have them if they are final.
    pub unresolved: BTreeMap<TransactionId, (Arc<SignedTransaction>, Vec<Name>)>,
    /// How many messages were sent to each peer.
    pub sent: BTreeMap<Name, u64>,
    /// How often the node was recovered.
    pub recovered: u64,
}

impl Ledger {
    pub(super) fn apply(&mut self, flow: FlowId, own: &[PublicKey], write: &LedgerWrite) {
        match write {
            LedgerWrite::Record(transaction) => self.record(own, transaction),
            LedgerWrite::Keep(transaction) => {
                self.kept.insert((flow, transaction.id()), transaction.clone());
            }
            LedgerWrite::KeepPart(part) => {
                self.parts.insert((flow, part.attachment, part.number), part.bytes.clone());
            }
            LedgerWrite::Attach(attachment) => {
                self.attachments.insert(attachment.id(), attachment.clone());
            }
            LedgerWrite::Hold(states) => {
                for state in states {
                    let before = self.held.insert(*state, flow);
                    assert!(before.is_none_or(|before| before == flow), "one flow holds a state");
                }
            }
            LedgerWrite::Release(states) => {
                self.held.retain(|state, holder| *holder != flow || !states.contains(state));
            }
            LedgerWrite::Consent { rule, quantity, at } => {
                self.consents.insert(flow, (rule.clone(), *quantity, *at));
            }
            LedgerWrite::Undelivered { transaction, party, reason } => {
                self.undelivered.insert((party.clone(), *transaction), reason.clone());
            }
            LedgerWrite::Delivered { transaction, party } => {
                self.undelivered.remove(&(party.clone(), *transaction));
            }
            LedgerWrite::Unresolved { transaction, told, .. } => {
                self.unresolved.insert(transaction.id(), (transaction.clone(), told.clone()));
            }
            LedgerWrite::Resolved(transaction) => {
                self.unresolved.remove(transaction);
            }
            LedgerWrite::ConsumedElsewhere(states) => {
                for (state, _) in states {
                    self.states.remove(state);
                    self.spent.insert(*state);
                }
            }
            LedgerWrite::Recovered => self.recovered += 1,
            LedgerWrite::Consume { states, by, requester } => {
                for state in states {
                    let before = self.consumed.insert(*state, (*by, requester.clone()));
                    assert!(
                        before.is_none_or(|(before, _)| before == *by),
                        "a notary lets nothing be consumed twice"
                    );
                }
            }
        }
    }

    fn record(&mut self, own: &[PublicKey], transaction: &Arc<SignedTransaction>) {
        if self.transactions.insert(transaction.id(), transaction.clone()).is_some() {
            return;
        }
        for input in transaction.transaction().inputs() {
            self.states.remove(input);
            self.spent.insert(*input);
        }
        let mine: Vec<_> = transaction
            .transaction()
            .outputs_with_refs()
            .filter_map(|StateAndRef { state, reference }| {
                let summary = contracts().describe(&state).ok().flatten()?;
                let takes_part = summary.participants.iter().any(|key| own.contains(key));
                takes_part.then_some((reference, (state, summary)))
            })
            .collect();
        for (reference, found) in mine {
            // A history that arrives late does not bring back what was consumed.
            if !self.spent.contains(&reference) {
                self.states.insert(reference, found);
            }
        }
    }

    /// Makes a unit part of what the node knows for good.
    pub(super) fn commit(&mut self, own: &[PublicKey], unit: Unit) {
        let Unit { flow, number, start, arrivals, steps, sends, writes, outcome, mark } = unit;
        if let Some(start) = start {
            let saved = Saved { start, steps: Vec::new(), arrivals: Vec::new(), mark: Mark::Running };
            assert!(!self.outcomes.contains_key(&flow), "a flow that has ended does not start again");
            assert!(self.flows.insert(flow, saved).is_none(), "a flow starts once");
        }
        let saved = self.flows.get_mut(&flow).expect("a unit belongs to a flow that has started");
        assert_eq!(saved.steps.len() as u64, number, "units of a flow come in order");
        saved.steps.push(steps);
        saved.arrivals.extend(arrivals);
        if let Some(mark) = mark {
            saved.mark = mark;
        }
        for write in &writes {
            self.apply(flow, own, write);
        }
        for (to, message) in sends {
            let number = self.sent.entry(to.clone()).or_default();
            self.outbound.entry(to).or_default().insert(*number, message.encode());
            *number += 1;
        }
        if let Some(outcome) = outcome {
            self.flows.remove(&flow);
            self.end(flow, &outcome);
            assert!(self.outcomes.insert(flow, outcome).is_none(), "a flow ends once");
        }
    }

    /// Forgets what only a flow that has ended needed.
    pub(super) fn end(&mut self, flow: FlowId, outcome: &Outcome) {
        if let Err(FlowError::Conflict { state, consumed_by }) = outcome
            && self.held.get(state) == Some(&flow)
        {
            self.lost.insert(*state, *consumed_by);
        }
        self.held.retain(|_, holder| *holder != flow);
        self.kept.retain(|(keeper, _), _| *keeper != flow);
        self.parts.retain(|(keeper, ..), _| *keeper != flow);
    }

    pub(super) fn select(
        &self,
        own: &[PublicKey],
        flow: FlowId,
        selection: &Selection,
        locks: bool,
    ) -> Result<Vec<StateAndRef>, FlowError> {
        let fits = |state: &State, summary: &Summary| {
            summary.asset.as_deref() == Some(&*selection.asset)
                && summary.owner.is_some_and(|owner| own.contains(&owner))
                && selection.notary.as_ref().is_none_or(|notary| state.notary == *notary)
        };
        let (mut free, mut held) = (Vec::new(), 0_u64);
        for (reference, (state, summary)) in &self.states {
            if !fits(state, summary) || !self.is_spendable(reference, state) {
                continue;
            }
            let quantity = summary.quantity.unwrap_or_default();
            match self.held.get(reference) {
                Some(holder) if locks && *holder != flow => held += quantity,
                _ => {
                    let found = StateAndRef { state: state.clone(), reference: *reference };
                    free.push((quantity, summary.owner, found));
                }
            }
        }
        // Those of former keys first.
        free.sort_by_key(|(_, owner, _)| own.iter().position(|key| Some(*key) == *owner));
        let quantities: Vec<_> = free.iter().map(|(quantity, ..)| *quantity).collect();
        match select_coins(&quantities, selection.quantity) {
            Ok(selected) => Ok(selected.chosen.into_iter().map(|place| free[place].2.clone()).collect()),
            Err(_) => Err(FlowError::Insufficient {
                asset: selection.asset.clone(),
                wanted: selection.quantity,
                available: quantities.iter().sum(),
                held,
            }),
        }
    }

    fn is_spendable(&self, reference: &StateRef, state: &State) -> bool {
        state.encumbrance.is_none() && !self.lost.contains_key(reference)
    }

    /// How much of a consent was used since then.
    pub(super) fn used(&self, rule: &str, since: Timestamp) -> u128 {
        let used = self.consents.values().filter(|(of, _, at)| of == rule && *at > since);
        used.map(|(_, quantity, _)| u128::from(*quantity)).sum()
    }

    pub(super) fn find(&self, flow: FlowId, filter: &Filter) -> Vec<StateAndRef> {
        self.states
            .iter()
            .filter(|(reference, (state, summary))| {
                self.is_spendable(reference, state)
                    && (filter.references.is_empty() || filter.references.contains(reference))
                    && filter.kind.as_ref().is_none_or(|kind| summary.kind == *kind)
                    && filter.asset.as_ref().is_none_or(|asset| summary.asset.as_ref() == Some(asset))
                    && filter.linear_id.is_none_or(|id| summary.linear_id == Some(id))
                    && (!filter.hold || self.held.get(reference).is_none_or(|holder| *holder == flow))
            })
            .take(usize::try_from(filter.limit).unwrap_or(usize::MAX))
            .map(|(reference, (state, _))| StateAndRef { state: state.clone(), reference: *reference })
            .collect()
    }

    /// Transactions in which one of these keys takes part, of five at a time so that tests see pages; places count them by id.
    pub(super) fn shared(&self, with: &[PublicKey], after: u64) -> Shared {
        let numbered = (1_u64..).zip(&self.transactions).filter(|(place, _)| *place > after);
        let mut shared = Shared::default();
        for (place, (id, transaction)) in numbered.take(5) {
            shared.next = Some(place);
            if crate::recover::takes_part(transaction, |key| with.contains(key)) {
                shared.transactions.push(*id);
            }
        }
        shared
    }

    /// Unconsumed states, a few at a time.
    pub(super) fn unconsumed(&self, after: Option<&str>) -> Unconsumed {
        let place = |reference: &StateRef| format!("{}:{:08}", reference.transaction, reference.index);
        let mut states: Vec<_> = self
            .states
            .iter()
            .map(|(reference, (state, _))| (*reference, state.notary.name.clone()))
            .collect();
        states.sort_by_key(|(reference, _)| place(reference));
        states.retain(|(reference, _)| after.is_none_or(|after| *place(reference) > *after));
        let more = states.len() > 3;
        states.truncate(3);
        let next = states.last().filter(|_| more).map(|(reference, _)| place(reference));
        Unconsumed { states, next }
    }

    /// What a notary with this memory answers.
    pub(super) fn decide(&self, commit: &Commit, now: tally_contracts::Timestamp) -> Committed {
        let by = |state: &StateRef| self.consumed.get(state).map(|(by, _)| *by);
        let done = !commit.inputs.is_empty()
            && commit.inputs.iter().all(|state| by(state) == Some(commit.transaction));
        if done {
            return Committed::Yes;
        }
        let conflict = commit
            .inputs
            .iter()
            .chain(&commit.references)
            .find_map(|state| by(state).filter(|by| *by != commit.transaction).map(|by| (*state, by)));
        match (conflict, commit.time_window) {
            (Some((state, consumed_by)), _) => Committed::Conflict { state, consumed_by },
            (None, Some(window)) if !window.contains(now) => Committed::OutsideTimeWindow { at: now },
            _ => Committed::Yes,
        }
    }
}
