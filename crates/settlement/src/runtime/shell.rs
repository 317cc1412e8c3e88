//! Each stage with its topics: reads what is there, steps, sends what comes out.

use super::executor::{Stage, StageError};
use super::topic::{Reader, Topic, TopicError};
use crate::message::{
    AcceptedBatch, ApprovalBatch, DecisionBatch, IntakeBatch, ProposalBatch, SequenceBatch, Submission,
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
    let TopicError::Log { source, .. } = error;
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
    /// What it tells the senders.
    pub intake: Topic<IntakeBatch>,
    /// What it accepts.
    pub accepted: Topic<AcceptedBatch>,
    /// What it asks, by participant.
    pub proposals: Vec<Topic<ProposalBatch>>,
    /// What waits for the log to take it.
    pub waiting: Option<(u64, Scheduled)>,
}

impl SchedulerShell {
    /// Logs what was accepted, then tells everybody; false while the log has no room.
    fn send(&mut self, origin: u64, mut scheduled: Scheduled) -> Result<bool, StageError> {
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
                    self.waiting = Some((origin, scheduled));
                    return Ok(false);
                }
                Err(refusal) => return Err(error(self, refusal)),
            }
        }
        self.intake.send(Arc::new(IntakeBatch {
            origin,
            source,
            ticket,
            expires,
            results: scheduled.results,
        }));
        for proposals in scheduled.proposals {
            self.proposals[proposals.participant.index()].send(Arc::new(proposals));
        }
        Ok(true)
    }
}

impl Stage for SchedulerShell {
    fn name(&self) -> String {
        format!("scheduler {}", self.instance)
    }

    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError> {
        if let Some((origin, scheduled)) = self.waiting.take() {
            return self.send(origin, scheduled);
        }
        if !self.accepted.has_room() || !self.proposals.iter().all(Topic::has_room) {
            return Ok(false);
        }
        let Some((_, submission)) = self.submissions.poll() else { return Ok(false) };
        let submission = Arc::unwrap_or_clone(submission);
        let scheduled = self.state.lock().expect("no step panics and goes on").step(now, submission.batch);
        self.send(submission.origin, scheduled)?;
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
    /// What it answers.
    pub approvals: Topic<ApprovalBatch>,
}

impl Stage for ApproverShell {
    fn name(&self) -> String {
        format!("approver {}", self.bic)
    }

    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError> {
        let mut progress = false;
        while let Some((_, decided)) = self.sequence.poll() {
            self.state.decide(&decided);
            progress = true;
        }
        if self.state.has_room()
            && self.approvals.has_room()
            && let Some((_, proposals)) = self.proposals.poll()
        {
            if let Some(approvals) = self.state.propose(now, proposals) {
                self.approvals.send(Arc::new(approvals));
            }
            progress = true;
        }
        Ok(progress)
    }
}

/// The assembler with its topics.
pub struct AssemblerShell {
    /// Its state.
    pub state: Assembler,
    /// Answers.
    pub approvals: Reader<ApprovalBatch>,
    /// Decisions.
    pub decisions: Topic<DecisionBatch>,
    /// Called for answers that count for nothing.
    pub on_not_counted: Box<dyn Fn(&NotCounted) + Send>,
    /// When expiries were last looked for.
    pub looked: Timestamp,
}

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
                self.decisions.send(Arc::new(decisions));
            }
        }
        let Some((_, approvals)) = self.approvals.poll() else { return Ok(false) };
        match self.state.count(now, &approvals) {
            Ok(decisions) if decisions.indices.is_empty() => {}
            Ok(decisions) => {
                self.decisions.send(Arc::new(decisions));
            }
            Err(not_counted) => (self.on_not_counted)(&not_counted),
        }
        Ok(true)
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
            let Some((_, decisions)) = self.decisions.poll() else { return Ok(false) };
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
}

impl Stage for UpdaterShell {
    fn name(&self) -> String {
        format!("updater {}", self.bic)
    }

    fn poll(&mut self, _now: Timestamp) -> Result<bool, StageError> {
        let Some((_, decided)) = self.sequence.poll() else { return Ok(false) };
        let mut state = self.state.lock().expect("no step panics and goes on");
        // A decision was made on answers to proposals, which were therefore sent before it.
        while let Some((_, proposals)) = self.proposals.poll() {
            state.propose(proposals);
        }
        state.apply(&decided);
        self.applied.store(state.applied(), Ordering::Release);
        Ok(true)
    }
}
