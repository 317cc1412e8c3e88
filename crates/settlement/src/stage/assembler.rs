//! The assembler: joins the answers to a transaction until everybody concerned has given one or it
//! expired, and decides it, once.

use crate::message::{ApprovalBatch, ApprovalSigner, DecisionBatch, Source, Withdrawal};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tally_crypto::Hash;
use tally_ledger::{Network, ParticipantId, Refusal, Timestamp};

/// How long after a transaction's expiry, in milliseconds, an answer that was given before it may
/// still arrive.
const GRACE_MS: u64 = 2_000;
/// The most withdrawals that wait for the first answer to what they withdraw.
const MAX_WITHDRAWALS: usize = 1 << 16;

/// One assembler.
pub struct Assembler {
    network: Arc<Network>,
    /// How many assemblers share the batches: those of one scheduler in turn.
    assemblers: u64,
    open: BTreeMap<Source, Open>,
    /// Per scheduler: every batch below was decided, and those above that were. Counted are this assembler's alone: as
    /// its `n`-th is batch number `n` times the number of assemblers, and something.
    finished: HashMap<u64, Finished>,
    /// What is to be refused with its first answer, which says what it is. Nobody is told of these, so that a crash
    /// may forget them.
    withdrawn: BTreeSet<Withdrawal>,
    signer: ApprovalSigner,
    clock: Timestamp,
}

/// The batches of one scheduler that are wholly decided.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Finished {
    /// Every one before this one of the assembler's batches of that scheduler.
    pub below: u64,
    /// And these.
    pub above: BTreeSet<u64>,
}

/// An accepted batch that is not wholly decided.
struct Open {
    items: Vec<Item>,
    answered: Vec<ParticipantId>,
    undecided: u32,
}

#[derive(Clone, Copy)]
struct Item {
    id: Hash,
    expiry: Timestamp,
    /// Answers still to come; none came yet when `seen` is false.
    missing: u8,
    seen: bool,
    decided: bool,
    verdict: u16,
}

/// Why a batch of answers counts for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotCounted {
    /// It names a participant that the network does not have.
    #[error("answers from participant {0:?}, which this network does not have")]
    UnknownParticipant(ParticipantId),
    /// The signature is not the participant's.
    #[error("answers to {1:?} that participant {0:?} did not sign")]
    WrongSignature(ParticipantId, Source),
}

impl Assembler {
    /// An assembler to which every batch of scheduler `s` below `decided_below[s]` is decided already.
    pub fn new(network: Arc<Network>, decided_below: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let finished = decided_below
            .into_iter()
            .map(|(scheduler, below)| (scheduler, Finished { below, above: BTreeSet::new() }))
            .collect();
        Self::one_of(network, 1, finished, Timestamp(0))
    }

    /// One of so many assemblers, which share the batches of each scheduler in turn, after it has finished those.
    /// No time before `clock` comes again.
    pub fn one_of(
        network: Arc<Network>,
        assemblers: u64,
        finished: HashMap<u64, Finished>,
        clock: Timestamp,
    ) -> Self {
        Self {
            network,
            assemblers,
            open: BTreeMap::new(),
            finished,
            withdrawn: BTreeSet::new(),
            signer: ApprovalSigner::default(),
            clock,
        }
    }

    /// What it has finished, per scheduler.
    pub fn finished(&self) -> &HashMap<u64, Finished> {
        &self.finished
    }

    /// The time by which it judges.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Whether answers to the batch are counted and not all of it is decided.
    pub fn is_open(&self, source: Source) -> bool {
        self.open.contains_key(&source)
    }

    /// How many batches are not wholly decided.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Tells, when recovering, that a batch of `len` transactions was accepted and is not wholly decided.
    pub fn reopen(&mut self, source: Source, len: u32, is_decided: impl Fn(u32) -> bool) {
        let mut open = Open::new(len);
        for (index, item) in (0u32..).zip(&mut open.items) {
            item.decided = is_decided(index);
            open.undecided -= u32::from(item.decided);
        }
        self.open.insert(source, open);
    }

    /// Counts a batch of answers; what it decides, in the order of the accepted batch.
    ///
    /// Answers that were counted before, or come after the decision, change nothing.
    ///
    /// # Errors
    /// When the answers are not the participant's own: nothing is counted.
    pub fn count(&mut self, now: Timestamp, batch: &ApprovalBatch) -> Result<DecisionBatch, NotCounted> {
        self.clock = self.clock.max(now);
        let mut decisions = DecisionBatch { source: batch.source, ..DecisionBatch::default() };
        if self.is_finished(batch.source) && !self.open.contains_key(&batch.source) {
            return Ok(decisions);
        }
        let participant = self.network.participants.get(batch.participant.index());
        let key = &participant.ok_or(NotCounted::UnknownParticipant(batch.participant))?.key;
        if !self.signer.verifies(batch, key) {
            return Err(NotCounted::WrongSignature(batch.participant, batch.source));
        }
        let whole = batch.indices.len() == batch.source_len as usize;
        if whole
            && !self.open.contains_key(&batch.source)
            && batch.participants.iter().all(|count| *count == 1)
        {
            decisions.indices.clone_from(&batch.indices);
            decisions.ids.clone_from(&batch.ids);
            decisions.verdicts.clone_from(&batch.verdicts);
            self.finish(batch.source);
            return Ok(decisions);
        }
        let open = self.open.entry(batch.source).or_insert_with(|| Open::new(batch.source_len));
        if open.answered.contains(&batch.participant) || open.items.len() != batch.source_len as usize {
            return Ok(decisions);
        }
        open.answered.push(batch.participant);
        for (at, index) in batch.indices.iter().enumerate() {
            let item = &mut open.items[*index as usize];
            if item.decided {
                continue;
            }
            item.count(batch, at);
            let withdrawal = Withdrawal { source: batch.source, index: *index };
            let is_withdrawn = !self.withdrawn.is_empty() && self.withdrawn.remove(&withdrawal);
            let (missing, verdict) = (item.missing, item.verdict);
            if missing == 0 {
                open.decide(*index, verdict, &mut decisions);
            } else if is_withdrawn {
                open.decide(*index, Refusal::Withdrawn.number(), &mut decisions);
            }
        }
        if open.undecided == 0 {
            self.close(batch.source);
        }
        Ok(decisions)
    }

    /// Refuses a transaction that is not decided, at once if anybody has answered for it, else with the first answer. What
    /// that one answer decides is not withdrawn, nor is what is decided already.
    pub fn withdraw(&mut self, now: Timestamp, withdrawal: &Withdrawal) -> DecisionBatch {
        self.clock = self.clock.max(now);
        let Withdrawal { source, index } = *withdrawal;
        let mut decisions = DecisionBatch { source, ..DecisionBatch::default() };
        let item = self.open.get(&source).and_then(|open| open.items.get(index as usize)).copied();
        match item {
            Some(Item { decided: true, .. }) => {}
            Some(Item { seen: true, .. }) => {
                let open = self.open.get_mut(&source).expect("it was found there");
                open.decide(index, Refusal::Withdrawn.number(), &mut decisions);
                if open.undecided == 0 {
                    self.close(source);
                }
            }
            None if self.is_finished(source) => {}
            _ if self.withdrawn.len() < MAX_WITHDRAWALS => {
                self.withdrawn.insert(*withdrawal);
            }
            _ => {}
        }
        decisions
    }

    /// Decides what expired without everybody's answer.
    pub fn expire(&mut self, now: Timestamp) -> Vec<DecisionBatch> {
        self.clock = self.clock.max(now);
        let mut all = Vec::new();
        for (source, open) in &mut self.open {
            let mut decisions = DecisionBatch { source: *source, ..DecisionBatch::default() };
            for index in (0u32..).take(open.items.len()) {
                let item = &open.items[index as usize];
                if item.seen && !item.decided && item.expiry.plus_ms(GRACE_MS) < self.clock {
                    open.decide(index, Refusal::ApprovalTimeout.number(), &mut decisions);
                }
            }
            if !decisions.indices.is_empty() {
                all.push(decisions);
            }
        }
        for decisions in &all {
            if self.open.get(&decisions.source).is_some_and(|open| open.undecided == 0) {
                self.close(decisions.source);
            }
        }
        all
    }

    /// Whether the batch is wholly decided.
    pub fn is_finished(&self, source: Source) -> bool {
        let number = source.number / self.assemblers;
        self.finished
            .get(&source.scheduler)
            .is_some_and(|finished| number < finished.below || finished.above.contains(&number))
    }

    fn close(&mut self, source: Source) {
        self.open.remove(&source);
        self.finish(source);
    }

    fn finish(&mut self, source: Source) {
        if !self.withdrawn.is_empty() {
            self.withdrawn.retain(|withdrawal| withdrawal.source != source);
        }
        let finished = self.finished.entry(source.scheduler).or_default();
        finished.above.insert(source.number / self.assemblers);
        while finished.above.remove(&finished.below) {
            finished.below += 1;
        }
    }
}

impl Open {
    fn new(len: u32) -> Self {
        let item = Item {
            id: Hash::ZERO,
            expiry: Timestamp(0),
            missing: 0,
            seen: false,
            decided: false,
            verdict: 0,
        };
        Self { items: vec![item; len as usize], answered: Vec::new(), undecided: len }
    }

    fn decide(&mut self, index: u32, verdict: u16, decisions: &mut DecisionBatch) {
        let item = &mut self.items[index as usize];
        item.decided = true;
        self.undecided -= 1;
        decisions.indices.push(index);
        decisions.ids.push(item.id);
        decisions.verdicts.push(verdict);
    }
}

impl Item {
    /// Counts one answer. Of several refusals the one with the lowest number stands, so that the
    /// outcome does not depend on the order in which answers come.
    fn count(&mut self, batch: &ApprovalBatch, at: usize) {
        let refuse = |verdict: u16, by: u16| match (verdict, by) {
            (0, by) => by,
            (verdict, 0) => verdict,
            (verdict, by) => verdict.min(by),
        };
        if self.seen {
            let same = self.id == batch.ids[at] && self.expiry == batch.expiries[at];
            let by = if same { batch.verdicts[at] } else { Refusal::ApprovalConflict.number() };
            self.verdict = refuse(self.verdict, by);
            self.missing = self.missing.saturating_sub(1);
        } else {
            self.seen = true;
            self.id = batch.ids[at];
            self.expiry = batch.expiries[at];
            self.verdict = batch.verdicts[at];
            self.missing = batch.participants[at].saturating_sub(1);
        }
    }
}
