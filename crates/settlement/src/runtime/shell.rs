//! Each stage with its topics: reads what is there, steps, sends what comes out.

use super::executor::{Stage, StageError};
use super::feed::{Feeds, Polled};
use super::topic::{Reader, Topic, TopicError};
use super::under_way::UnderWay;
use crate::message::{
    AcceptedBatch, ApprovalBatch, DecisionBatch, IntakeBatch, ProposalBatch, SequenceBatch, Source,
    Submission, Withdrawal,
};
use crate::stage::assembler::NotCounted;
use crate::stage::{Approver, Assembler, Scheduled, Scheduler, Sequencer, Updater};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tally_ledger::Timestamp;
use tally_log::{LogError, Ticket};

/// A stage's state where others look at it between steps.
pub type SharedState<T> = Arc<Mutex<T>>;

fn error(stage: &dyn Stage, source: impl std::error::Error + Send + Sync + 'static) -> StageError {
    StageError { stage: stage.name(), source: Box::new(source) }
}

/// Whether a log's refusal will pass: the device is behind, or full until somebody makes room.
fn passes(error: &TopicError) -> bool {
    let TopicError::Log { source, .. } = error else { return false };
    matches!(source, LogError::Backpressure { .. } | LogError::Full { .. } | LogError::Stalled { .. })
}

/// A scheduler with its topics.
pub struct SchedulerShell {
    /// Its number.
    pub instance: u64,
    /// Its state.
    pub state: SharedState<Scheduler>,
    /// What comes in.
    pub submissions: Reader<Submission>,
    /// What it tells the senders, by the partition that their submissions came in.
    pub intake: Vec<Topic<IntakeBatch>>,
    /// What it accepts.
    pub accepted: Topic<AcceptedBatch>,
    /// What it asks, by participant.
    pub proposals: Vec<Topic<ProposalBatch>>,
    /// What waits for the log to take it.
    pub waiting: Option<(Sender, Scheduled)>,
}

/// Whose submission it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    feed: usize,
    origin: u64,
}

impl SchedulerShell {
    /// Logs what was accepted, then tells everybody; false while the log has no room.
    fn send(&mut self, sender: Sender, mut scheduled: Scheduled) -> Result<bool, StageError> {
        let source = scheduled.accepted.as_ref().map(|(source, _)| *source);
        let (mut ticket, mut expires) = (Ticket(0), Timestamp(0));
        if let Some((source, accepted)) = scheduled.accepted.take() {
            let accepted = Arc::new(accepted);
            match self.accepted.append(Arc::clone(&accepted)) {
                Ok((position, logged)) => {
                    assert_eq!(position, source.number, "a scheduler numbers batches as its log does");
                    (ticket, expires) = (logged, accepted.expires());
                }
                Err(refusal) if passes(&refusal) => {
                    let accepted = Arc::unwrap_or_clone(accepted);
                    scheduled.accepted = Some((source, accepted));
                    self.waiting = Some((sender, scheduled));
                    return Ok(false);
                }
                Err(refusal) => return Err(error(self, refusal)),
            }
        }
        let results = scheduled.results;
        let intake = IntakeBatch { origin: sender.origin, source, ticket, expires, results };
        self.intake[sender.feed].append(Arc::new(intake)).map_err(|refusal| error(self, refusal))?;
        for proposals in scheduled.proposals {
            let topic = &self.proposals[proposals.participant.index()];
            topic.append(Arc::new(proposals)).map_err(|refusal| error(self, refusal))?;
        }
        Ok(true)
    }
}

impl Stage for SchedulerShell {
    fn name(&self) -> String {
        format!("scheduler {}", self.instance)
    }

    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError> {
        if let Some((sender, scheduled)) = self.waiting.take() {
            return self.send(sender, scheduled);
        }
        if !self.accepted.has_room() || !self.proposals.iter().all(Topic::has_room) {
            return Ok(false);
        }
        let polled = self.submissions.poll().map_err(|refusal| error(self, refusal))?;
        let Some(Polled { feed, value: submission, .. }) = polled else { return Ok(false) };
        let Submission { origin, batch } = Arc::unwrap_or_clone(submission);
        let scheduled = self.state.lock().expect("no step panics and goes on").step(now, batch);
        self.send(Sender { feed, origin }, scheduled)?;
        Ok(true)
    }
}

/// An approver with its topics.
pub struct ApproverShell {
    /// Its participant's BIC.
    pub bic: String,
    /// Its state.
    pub state: Approver,
    /// What it is asked.
    pub proposals: Reader<ProposalBatch>,
    /// What became of what it approved.
    pub sequence: Reader<SequenceBatch>,
    /// What it answers, by assembler.
    pub approvals: Vec<Topic<ApprovalBatch>>,
    /// Where what is under way lies: streams are the proposals by scheduler, then the approvals by assembler.
    pub under_way: UnderWay,
    /// Proposals that wait: with orders until the orders before them are decided, others until `known` is.
    pub held: Option<Polled<ProposalBatch>>,
    /// How much of the sequence has to be known before it says no.
    pub known: Known,
}

/// Up to where an approver that shares no memory with the sequencer knows the sequence.
///
/// A client who was told that a payment is final may spend what it brought. The decision and the next payment reach the
/// approver in different partitions, the decision possibly later. So before it says no it asks how far the sequence goes, and
/// reads up to there.
#[derive(Debug, Default)]
pub struct Known {
    /// By feed of the proposals, those before this position had come when the sequence was last asked for its end.
    proposals: Vec<u64>,
    /// Those ends, by feed of the sequence.
    until: Vec<u64>,
}

/// The assembler, of so many, that joins the answers to an accepted batch.
pub fn assembler_of(source: Source, assemblers: usize) -> usize {
    usize::try_from(source.number % assemblers as u64).expect("assemblers are few")
}

/// The stream of [`ApproverShell::under_way`] that answers to that assembler are.
pub fn approvals_stream(assembler: usize) -> u16 {
    APPROVALS_STREAM + u16::try_from(assembler).expect("assemblers are few")
}

const APPROVALS_STREAM: u16 = 1 << 12;

fn stream(number: usize) -> u16 {
    u16::try_from(number).expect("feeds are few")
}

impl Stage for ApproverShell {
    fn name(&self) -> String {
        format!("approver {}", self.bic)
    }

    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError> {
        let mut progress = false;
        let has_room = self.state.has_room() && self.approvals.iter().all(Topic::has_room);
        // Proposals first: what was decided before they were made is in the sequence by then.
        if has_room && self.held.is_none() {
            self.held = self.proposals.poll().map_err(|refusal| error(self, refusal))?;
        }
        while let Some(decided) = self.sequence.poll().map_err(|refusal| error(self, refusal))? {
            self.state.decide(&decided.value);
            if !self.state.is_open(decided.value.source) {
                self.under_way.forget(decided.value.source);
            }
            progress = true;
        }
        if !has_room {
            return Ok(progress);
        }
        let Some(proposals) = self.held.take() else { return Ok(progress) };
        // What one assembler decides comes in the order of the answers; what two decide does not, and orders are
        // made true in the order of the sequence.
        let has_orders = !proposals.value.orders.is_empty();
        if has_orders && self.approvals.len() > 1 && self.state.orders_under_way() > 0 {
            self.held = Some(proposals);
            return Ok(progress);
        }
        let Polled { feed, position, value } = proposals;
        let source = value.source;
        match self.answer(now, feed, position, value) {
            Ok(None) => {}
            Ok(Some(approvals)) => {
                let assembler = assembler_of(source, self.approvals.len());
                let sent = self.approvals[assembler].append(Arc::new(approvals));
                let (at, _) = sent.map_err(|refusal| error(self, refusal))?;
                if self.state.is_open(source) {
                    self.under_way.note(source, stream(feed), position);
                    self.under_way.note(source, approvals_stream(assembler), at);
                }
            }
            Err(value) => {
                self.held = Some(Polled { feed, position, value });
                return Ok(progress);
            }
        }
        Ok(true)
    }
}

impl ApproverShell {
    /// The answer to proposals, or the proposals where more of the sequence has to be known first.
    fn answer(
        &mut self,
        now: Timestamp,
        feed: usize,
        position: u64,
        proposals: Arc<ProposalBatch>,
    ) -> Result<Option<ApprovalBatch>, Arc<ProposalBatch>> {
        let Some(sequence) = self.sequence.feeds() else { return Ok(self.state.propose(now, proposals)) };
        if !sequence.has_reached(&self.known.until) {
            return Err(proposals);
        }
        if self.known.proposals.get(feed).is_some_and(|known| position < *known) {
            return Ok(self.state.propose(now, proposals));
        }
        let proposals = match self.state.propose_if_sure(now, proposals) {
            Err(proposals) => proposals,
            sure => return sure,
        };
        let come = self.proposals.feeds().map(Feeds::come).unwrap_or_default();
        let Some(until) = sequence.ends() else { return Err(proposals) };
        let reached = sequence.has_reached(&until);
        self.known = Known { proposals: come, until };
        if reached { Ok(self.state.propose(now, proposals)) } else { Err(proposals) }
    }
}

/// The assembler with its topics.
pub struct AssemblerShell {
    /// Its state.
    pub state: Assembler,
    /// Answers.
    pub approvals: Reader<ApprovalBatch>,
    /// What is not to be made after all.
    pub withdrawals: Reader<Withdrawal>,
    /// Decisions.
    pub decisions: Topic<DecisionBatch>,
    /// Called for answers that count for nothing.
    pub on_not_counted: Box<dyn Fn(&NotCounted) + Send>,
    /// When expiries were last looked for.
    pub looked: Timestamp,
    /// Where what is under way lies: streams are the approvals by the reader's feeds, then [`DECISIONS_STREAM`].
    pub under_way: UnderWay,
}

/// The stream of [`AssemblerShell::under_way`] that its decisions are.
pub const DECISIONS_STREAM: u16 = u16::MAX;

/// How often expiries are looked for, in milliseconds.
const LOOK_MS: u64 = 100;

impl Stage for AssemblerShell {
    fn name(&self) -> String {
        "assembler".into()
    }

    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError> {
        if !self.decisions.has_room() {
            return Ok(false);
        }
        if now >= self.looked.plus_ms(LOOK_MS) {
            self.looked = now;
            for decisions in self.state.expire(now) {
                self.decide(decisions)?;
            }
        }
        let mut progress = false;
        while let Some(withdrawal) = self.withdrawals.poll().map_err(|refusal| error(self, refusal))? {
            let decisions = self.state.withdraw(now, &withdrawal.value);
            if !decisions.indices.is_empty() {
                self.decide(decisions)?;
            }
            progress = true;
        }
        let polled = self.approvals.poll().map_err(|refusal| error(self, refusal))?;
        let Some(Polled { feed, position, value: approvals }) = polled else { return Ok(progress) };
        match self.state.count(now, &approvals) {
            Ok(decisions) => {
                if self.state.is_open(approvals.source) {
                    self.under_way.note(approvals.source, stream(feed), position);
                }
                if !decisions.indices.is_empty() {
                    self.decide(decisions)?;
                }
            }
            Err(not_counted) => (self.on_not_counted)(&not_counted),
        }
        Ok(true)
    }
}

impl AssemblerShell {
    fn decide(&mut self, decisions: DecisionBatch) -> Result<(), StageError> {
        let source = decisions.source;
        let sent = self.decisions.append(Arc::new(decisions));
        let (at, _) = sent.map_err(|refusal| error(self, refusal))?;
        if self.state.is_open(source) {
            self.under_way.note(source, DECISIONS_STREAM, at);
        } else {
            self.under_way.forget(source);
        }
        Ok(())
    }
}

/// The sequencer with its topics.
pub struct SequencerShell {
    /// Its state.
    pub state: Sequencer,
    /// Decisions.
    pub decisions: Reader<DecisionBatch>,
    /// The one global order.
    pub sequence: Topic<SequenceBatch>,
    /// What waits for the log to take it.
    pub waiting: VecDeque<Arc<SequenceBatch>>,
}

impl Stage for SequencerShell {
    fn name(&self) -> String {
        "sequencer".into()
    }

    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError> {
        if self.waiting.is_empty() {
            if !self.sequence.has_room() {
                return Ok(false);
            }
            let polled = self.decisions.poll().map_err(|refusal| error(self, refusal))?;
            let Some(Polled { value: decisions, .. }) = polled else { return Ok(false) };
            self.waiting.push_back(Arc::new(self.state.step(now, &decisions)));
        }
        while let Some(batch) = self.waiting.front() {
            match self.sequence.append(Arc::clone(batch)) {
                Ok(_) => {
                    self.waiting.pop_front();
                }
                Err(refusal) if passes(&refusal) => return Ok(false),
                Err(refusal) => return Err(error(self, refusal)),
            }
        }
        Ok(true)
    }
}

/// A state updater with its topics.
pub struct UpdaterShell {
    /// Its participant's BIC.
    pub bic: String,
    /// Its state.
    pub state: SharedState<Updater>,
    /// What its participant was asked.
    pub proposals: Reader<ProposalBatch>,
    /// What is final: read only once durable.
    pub sequence: Reader<SequenceBatch>,
    /// How far it has come, for those who wait for it.
    pub applied: Arc<AtomicU64>,
    /// A decision whose proposals have not come yet.
    pub held: Option<Arc<SequenceBatch>>,
    /// Where what is under way lies: streams are the proposals by scheduler.
    pub under_way: UnderWay,
}

impl Stage for UpdaterShell {
    fn name(&self) -> String {
        format!("updater {}", self.bic)
    }

    fn poll(&mut self, _now: Timestamp) -> Result<bool, StageError> {
        let mut progress = false;
        if self.held.is_none() {
            let polled = self.sequence.poll().map_err(|refusal| error(self, refusal))?;
            self.held = polled.map(|polled| polled.value);
            progress = self.held.is_some();
        }
        let Some(decided) = self.held.take() else { return Ok(false) };
        let state = Arc::clone(&self.state);
        // Every participant is sent something of every accepted batch, before the batch can be decided. It may
        // be under way all the same when the decision has come.
        progress |= self.drain()?;
        let mut state = state.lock().expect("no step panics and goes on");
        if state.has_seen(decided.source) {
            state.apply(&decided);
            if !state.is_open(decided.source) {
                self.under_way.forget(decided.source);
            }
            self.applied.store(state.applied(), Ordering::Release);
            progress = true;
        } else {
            self.held = Some(decided);
        }
        Ok(progress)
    }
}

impl UpdaterShell {
    /// Takes the proposals that have come; whether there were any.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn drain(&mut self) -> Result<bool, StageError> {
        let state = Arc::clone(&self.state);
        let mut state = state.lock().expect("no step panics and goes on");
        let mut progress = false;
        while let Some(proposals) = self.proposals.poll().map_err(|refusal| error(self, refusal))? {
            let Polled { feed, position, value } = proposals;
            let source = value.source;
            state.propose(value);
            if state.is_open(source) {
                self.under_way.note(source, stream(feed), position);
            }
            progress = true;
        }
        Ok(progress)
    }
}
