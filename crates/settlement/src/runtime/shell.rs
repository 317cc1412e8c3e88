//! Each stage with its topics: reads what is there, steps, sends what comes out.

use super::executor::{Stage, StageError};
use super::feed::{Feeds, Polled};
use super::topic::{Reader, Topic, TopicError};
use super::under_way::UnderWay;
use crate::message::{
    AcceptedBatch, ApprovalBatch, ApprovalSigner, ConsentBatch, DecisionBatch, IntakeBatch,
    ParticipationBatch, ProposalBatch, SequenceBatch, Source, Submission, Withdrawal,
};
use crate::stage::assembler::NotCounted;
use crate::stage::{Agreements, Approver, Assembler, LogWitness, Scheduled, Scheduler, Sequencer, Updater};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tally_crypto::PublicKey;
use tally_ledger::{ParticipantId, Timestamp};
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
    /// What became of what it accepted.
    pub sequence: Reader<SequenceBatch>,
    /// What it tells the senders, by the partition that their submissions came in.
    pub intake: Vec<Topic<IntakeBatch>>,
    /// What it accepts.
    pub accepted: Topic<AcceptedBatch>,
    /// Who has to answer for what was accepted, by assembler.
    pub participations: Vec<Topic<ParticipationBatch>>,
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
        // Before the proposals: the assembler knows who is asked before anybody answers.
        if let Some(participation) = scheduled.asked.participation {
            let topic = &self.participations[assembler_of(participation.source, self.participations.len())];
            topic.append(Arc::new(participation)).map_err(|refusal| error(self, refusal))?;
        }
        for proposals in scheduled.asked.proposals {
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
        // The submission is read first, and judged after the decisions: a client that was told of one may use the reference
        // again, and what it was told of is there by then.
        let has_room = self.accepted.has_room() && self.proposals.iter().all(Topic::has_room);
        let polled =
            if has_room { self.submissions.poll().map_err(|refusal| error(self, refusal))? } else { None };
        let mut progress = false;
        while let Some(decided) = self.sequence.poll().map_err(|refusal| error(self, refusal))? {
            self.state.lock().expect("no step panics and goes on").learn(&decided.value);
            progress = true;
        }
        let Some(Polled { feed, value: submission, .. }) = polled else { return Ok(progress) };
        let Submission { origin, batch } = Arc::unwrap_or_clone(submission);
        let scheduled = self.state.lock().expect("no step panics and goes on").step(now, batch);
        self.send(Sender { feed, origin }, scheduled)?;
        Ok(true)
    }
}

/// A scheduler proposed under the name of another's batch: in which order an institution reads the two would decide what
/// the name means.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("scheduler {scheduler} proposes under the name of {found:?}, a batch of another scheduler")]
pub struct AnothersBatch {
    /// In whose partition the proposals lie.
    pub scheduler: usize,
    /// The name of the batch.
    pub found: Source,
}

/// Checks that proposals that come from another process name a batch of the scheduler in whose partition they lie.
fn is_the_schedulers(
    reader: &Reader<ProposalBatch>,
    polled: &Polled<ProposalBatch>,
) -> Result<(), AnothersBatch> {
    let found = polled.value.source;
    if reader.feeds().is_some() && found.scheduler != polled.feed as u64 {
        return Err(AnothersBatch { scheduler: polled.feed, found });
    }
    Ok(())
}

/// What the others agreed to, for a stage that takes no operator's word for it.
pub struct Consents {
    /// What was shown.
    pub state: Agreements,
    /// What is shown, by assembler.
    pub reader: Reader<ConsentBatch>,
    /// The record of the sequence that waits for some.
    waiting: Option<Waiting>,
}

/// A record of the sequence that waits for consents.
struct Waiting {
    /// The sequence number of its first decision.
    first: u64,
    since: Timestamp,
    /// Whether it was said that it waits for long.
    is_said: bool,
}

/// After how long, in milliseconds, it is said that a record of the sequence waits for consents. An assembler makes them
/// visible with the decision; a cluster may take a while to show both everywhere.
const LATE_MS: u64 = 5_000;

impl Consents {
    /// What others are shown to agree to.
    pub fn new(state: Agreements, reader: Reader<ConsentBatch>) -> Self {
        Self { state, reader, waiting: None }
    }

    /// Learns what the stage was asked, as the stage itself `holds` it: it waits for consents to nothing else. What was shown
    /// before is for nothing where the batch `is_over`.
    fn open(&mut self, source: Source, holds: Option<&Arc<ProposalBatch>>, is_over: bool) {
        if let Some(proposals) = holds {
            self.state.propose(proposals);
        } else if is_over {
            self.state.forget(source);
        }
    }

    /// Whether everybody whom it concerns was shown to agree to what a record of the sequence makes; reads what is shown as
    /// far as it has to, but not to batches that are over. `note` learns the batch, the feed and the position of what is
    /// kept. Where somebody is missing for long, it is said who.
    fn are_there(
        &mut self,
        now: Timestamp,
        bic: &str,
        decided: &SequenceBatch,
        is_over: impl Fn(Source) -> bool,
        mut note: impl FnMut(Source, usize, u64),
    ) -> Result<bool, TopicError> {
        let assemblers = self.reader.feeds().map_or(1, Feeds::count);
        let assembler = assembler_of(decided.source, assemblers);
        // They are in the order of the commits: those to this decision come before those to later ones.
        while let Some((index, missing)) = self.state.lacks(decided) {
            let Some(polled) = self.reader.poll_unless(|feed| feed != assembler)? else {
                self.say_that_it_waits(now, bic, decided, (index, missing));
                return Ok(false);
            };
            let Polled { feed, position, value } = polled;
            if !is_over(value.source) {
                note(value.source, feed, position);
                self.state.show(&value);
            }
        }
        self.waiting = None;
        Ok(true)
    }

    fn say_that_it_waits(
        &mut self,
        now: Timestamp,
        bic: &str,
        decided: &SequenceBatch,
        (index, missing): (u32, ParticipantId),
    ) {
        let first = decided.first;
        let waiting = self.waiting.take().filter(|waiting| waiting.first == first);
        let waiting = waiting.unwrap_or(Waiting { first, since: now, is_said: false });
        let waiting = self.waiting.insert(waiting);
        if waiting.since.plus_ms(LATE_MS) <= now && !std::mem::replace(&mut waiting.is_said, true) {
            tracing::error!(
                bic,
                sequence = first,
                source = ?decided.source,
                index,
                missing = self.state.bic(missing),
                "the sequence makes a transaction to which an institution was not shown to agree: nothing from there on is \
                 taken"
            );
        }
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
    /// What it answers, for its participant's updater; none where the updater reads `approvals` itself.
    pub answers: Option<Topic<ApprovalBatch>>,
    /// What the others agreed to; none where they are of this process.
    pub consents: Option<Consents>,
    /// A record of the sequence that makes something to which it was not shown yet that everybody agreed.
    pub undecided: Option<Polled<SequenceBatch>>,
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

/// The stream of [`UpdaterShell::under_way`] that is what that assembler shows.
pub fn consents_stream(assembler: usize) -> u16 {
    CONSENTS_STREAM + u16::try_from(assembler).expect("assemblers are few")
}

const CONSENTS_STREAM: u16 = 1 << 13;

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
            if let Some(polled) = &self.held {
                is_the_schedulers(&self.proposals, polled).map_err(|wrong| error(self, wrong))?;
            }
        }
        progress |= self.decide(now)?;
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
        let answer = self.answer(now, feed, position, value);
        if let Some(consents) = &mut self.consents
            && answer.is_ok()
        {
            consents.open(source, self.state.open(source), self.state.is_over(source));
        }
        match answer {
            Ok(None) => {}
            Ok(Some(approvals)) => {
                let assembler = assembler_of(source, self.approvals.len());
                let approvals = Arc::new(approvals);
                if let Some(answers) = &self.answers {
                    answers.send(Arc::clone(&approvals));
                }
                let sent = self.approvals[assembler].append(approvals);
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
    /// Takes the decisions that have come, up to one to which it was not shown that everybody agreed; whether there were any.
    fn decide(&mut self, now: Timestamp) -> Result<bool, StageError> {
        let mut progress = false;
        loop {
            if self.undecided.is_none() {
                self.undecided = self.sequence.poll().map_err(|refusal| error(self, refusal))?;
            }
            let Some(polled) = self.undecided.take() else { return Ok(progress) };
            let decided = &polled.value;
            if let Some(consents) = &mut self.consents {
                let is_over = |source| self.state.is_over(source);
                let are_there = consents.are_there(now, &self.bic, decided, is_over, |_, _, _| {});
                if !are_there.map_err(|refusal| error(self, refusal))? {
                    self.undecided = Some(polled);
                    return Ok(progress);
                }
            }
            self.state.decide(decided).map_err(|refusal| error(self, refusal))?;
            if !self.state.is_open(decided.source) {
                self.under_way.forget(decided.source);
            }
            // What is decided of others' transactions may come before the own proposals: consents to those wait for them.
            if let Some(consents) = &mut self.consents
                && self.state.is_over(decided.source)
            {
                consents.state.forget(decided.source);
            }
            progress = true;
        }
    }

    /// The answer to proposals, or the proposals where more of the sequence has to be known first.
    fn answer(
        &mut self,
        now: Timestamp,
        feed: usize,
        position: u64,
        proposals: Arc<ProposalBatch>,
    ) -> Result<Option<ApprovalBatch>, Arc<ProposalBatch>> {
        let Some(sequence) = self.sequence.feeds() else { return Ok(self.state.propose(now, proposals)) };
        if self.undecided.is_some() || !sequence.has_reached(&self.known.until) {
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
    /// Who has to answer for what was accepted, by scheduler.
    pub participations: Reader<ParticipationBatch>,
    /// Answers: by participant where each has a feed of its own.
    pub approvals: Reader<ApprovalBatch>,
    /// By feed of the answers, the participant who alone may answer there; empty where all share one topic in memory.
    pub answering: Vec<ParticipantId>,
    /// Answers whose batch the assembler does not know, by feed. The feed waits for it, and nobody else does.
    pub held: Vec<Held>,
    /// What is not to be made after all.
    pub withdrawals: Reader<Withdrawal>,
    /// What the others agreed to, by the participant who is shown it; empty where all are of this process.
    pub consents: Vec<Topic<ConsentBatch>>,
    /// Decisions.
    pub decisions: Topic<DecisionBatch>,
    /// Called for answers that count for nothing, with the feed and the position where they lie.
    pub on_not_counted: OnNotCounted,
    /// When expiries were last looked for.
    pub looked: Timestamp,
    /// What answers decide that were counted again when the assembler was opened, and had not counted before: those to
    /// batches that it did not know then.
    pub recovered: Vec<DecisionBatch>,
    /// Consents to what was counted again when the assembler was opened. One that was shown before changes nothing; those of
    /// answers that count for the first time were not.
    pub shown_again: VecDeque<(ParticipantId, ConsentBatch)>,
    /// Where what is under way lies: streams are the approvals by the reader's feeds, the participations by scheduler from
    /// [`PARTICIPATIONS_STREAM`] on, then [`DECISIONS_STREAM`].
    pub under_way: UnderWay,
}

/// Takes answers that count for nothing: why, in which feed and at which position they lie, and the answers.
pub type OnNotCounted = Box<dyn Fn(&NotCounted, usize, u64, &ApprovalBatch) + Send>;

/// What of one feed of answers waits for batches that the assembler does not know.
#[derive(Debug, Default)]
pub struct Held {
    /// The answers whose batch is waited for.
    pub answers: Option<Polled<ApprovalBatch>>,
    /// Answers before this position have waited for long enough: where their batch is not known, there is none.
    settled: u64,
    wait: Wait,
}

/// How long answers to unknown batches have waited. What lies in the feed when the wait begins waits together, so that no
/// number of such answers takes longer than one.
#[derive(Debug, Default)]
enum Wait {
    /// Nothing waits.
    #[default]
    None,
    /// Since then, for the answers before that position.
    Since(Timestamp, u64),
    /// Long enough; now until the participations have been read to these ends.
    Until(Vec<u64>, u64),
}

/// The stream of [`AssemblerShell::under_way`] that its decisions are.
pub const DECISIONS_STREAM: u16 = u16::MAX;
/// The first stream of [`AssemblerShell::under_way`] that participations are.
pub const PARTICIPATIONS_STREAM: u16 = 1 << 15;

/// Bytes of consents that an assembler that was opened appends before it looks at how much it has appended.
const SHOWN_AT_ONCE: usize = 1 << 20;

/// How often expiries are looked for, in milliseconds.
const LOOK_MS: u64 = 100;
/// How long answers wait, in milliseconds, for a batch that no scheduler has told the assembler of. A scheduler makes both
/// visible at once; a cluster may take a while to show them everywhere.
const UNKNOWN_BATCH_MS: u64 = 5_000;

impl Stage for AssemblerShell {
    fn name(&self) -> String {
        "assembler".into()
    }

    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError> {
        if !self.decisions.has_room() {
            return Ok(false);
        }
        // Before anything is decided, and not more in one commit than it takes.
        if !self.shown_again.is_empty() {
            let mut bytes = 0;
            while bytes < SHOWN_AT_ONCE
                && let Some((participant, consents)) = self.shown_again.pop_front()
            {
                bytes += consents.bytes();
                self.show(participant, consents)?;
            }
            return Ok(true);
        }
        if now >= self.looked.plus_ms(LOOK_MS) {
            self.looked = now;
            for decisions in self.state.expire(now) {
                self.decide(decisions)?;
            }
        }
        let mut progress = !self.recovered.is_empty();
        for decisions in std::mem::take(&mut self.recovered) {
            self.decide(decisions)?;
        }
        // Answers first: word of the batch that they are about was there before they were given.
        let held = &self.held;
        let waits = |feed: usize| held.get(feed).is_some_and(|held| held.answers.is_some());
        let polled = self.approvals.poll_unless(waits).map_err(|refusal| error(self, refusal))?;
        while let Some(asked) = self.participations.poll().map_err(|refusal| error(self, refusal))? {
            let Polled { feed, position, value } = asked;
            let source = value.source;
            let decisions = self.state.ask(value);
            if self.state.is_open(source) {
                self.under_way.note(source, PARTICIPATIONS_STREAM + stream(feed), position);
            }
            self.decide(decisions)?;
            progress = true;
        }
        while let Some(withdrawal) = self.withdrawals.poll().map_err(|refusal| error(self, refusal))? {
            let decisions = self.state.withdraw(now, &withdrawal.value);
            self.decide(decisions)?;
            progress = true;
        }
        for feed in 0..self.held.len() {
            progress |= self.release(now, feed)?;
        }
        let Some(polled) = polled else { return Ok(progress) };
        self.answer(now, polled)?;
        Ok(true)
    }
}

impl AssemblerShell {
    /// Takes answers that wait up again, if their batch is known or never will be; whether it did.
    fn release(&mut self, now: Timestamp, feed: usize) -> Result<bool, StageError> {
        let Some(polled) = self.held[feed].answers.take() else { return Ok(false) };
        if self.state.knows(polled.value.source) || self.has_waited(now, feed, polled.position) {
            self.answer(now, polled)?;
            return Ok(true);
        }
        self.held[feed].answers = Some(polled);
        Ok(false)
    }

    /// Whether answers at that position have waited for long enough: everything that schedulers had said some time after the
    /// answers were there has been read. The cluster is asked twice for each wait.
    fn has_waited(&mut self, now: Timestamp, feed: usize, position: u64) -> bool {
        let held = &mut self.held[feed];
        if position < held.settled {
            return true;
        }
        let participations = self.participations.feeds();
        if let Wait::Since(_, end) | Wait::Until(_, end) = &held.wait
            && position >= *end
        {
            held.wait = Wait::None;
        }
        if matches!(held.wait, Wait::None) {
            let end = self.approvals.feeds().map_or(Some(position + 1), |feeds| feeds.end(feed));
            held.wait = end.map_or(Wait::None, |end| Wait::Since(now, end.max(position + 1)));
        }
        if let Wait::Since(since, end) = &held.wait
            && since.plus_ms(UNKNOWN_BATCH_MS) <= now
            && let Some(ends) = participations.map_or_else(|| Some(Vec::new()), Feeds::ends)
        {
            held.wait = Wait::Until(ends, *end);
        }
        if let Wait::Until(ends, end) = &held.wait
            && participations.is_none_or(|feeds| feeds.has_reached(ends))
        {
            held.settled = *end;
            held.wait = Wait::None;
        }
        position < held.settled
    }

    fn answer(&mut self, now: Timestamp, polled: Polled<ApprovalBatch>) -> Result<(), StageError> {
        let Polled { feed, position, .. } = polled;
        let approvals = Arc::clone(&polled.value);
        let expected = self.answering.get(feed).copied().unwrap_or(approvals.participant);
        if expected != approvals.participant {
            let why = NotCounted::Foreign { expected, found: approvals.participant };
            (self.on_not_counted)(&why, feed, position, &approvals);
            return Ok(());
        }
        match self.state.count(now, &approvals) {
            Ok(decisions) => {
                if self.state.is_open(approvals.source) {
                    self.under_way.note(approvals.source, stream(feed), position);
                }
                self.decide(decisions)?;
            }
            Err(NotCounted::UnknownBatch(..))
                if self.held.get(feed).is_some_and(|held| position >= held.settled) =>
            {
                self.held[feed].answers = Some(polled);
            }
            Err(why) => (self.on_not_counted)(&why, feed, position, &approvals),
        }
        Ok(())
    }

    /// Shows an institution what another agreed to. A scheduler that lies may ask whom there is not.
    fn show(&mut self, participant: ParticipantId, consents: ConsentBatch) -> Result<(), StageError> {
        let Some(topic) = self.consents.get(participant.index()) else { return Ok(()) };
        topic.append(Arc::new(consents)).map_err(|refusal| error(self, refusal))?;
        Ok(())
    }

    /// Shows what was agreed to, then sends what is decided: whoever learns of a decision finds the consents to it.
    fn decide(&mut self, decisions: DecisionBatch) -> Result<(), StageError> {
        for (participant, consents) in self.state.take_consents() {
            self.show(participant, consents)?;
        }
        if decisions.indices.is_empty() {
            return Ok(());
        }
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
    /// What its participant's approver answered.
    pub answers: Reader<ApprovalBatch>,
    /// What is final: read only once durable.
    pub sequence: Reader<SequenceBatch>,
    /// Checks the participant's signature under its answers; none where they come from this process.
    pub own: Option<OwnAnswers>,
    /// What the others agreed to; none where they are of this process, or it takes the sequence's word.
    pub consents: Option<Consents>,
    /// Checks the operator's log on the way; none where the operator is this process.
    pub witness: Option<LogWitness>,
    /// How far it has come, for those who wait for it.
    pub applied: Arc<AtomicU64>,
    /// A decision whose proposals, or the answers to them, have not come yet.
    pub held: Option<Arc<SequenceBatch>>,
    /// Where what is under way lies: streams are the proposals by scheduler, then the answers and the consents by assembler
    /// ([`approvals_stream`], [`consents_stream`]).
    pub under_way: UnderWay,
}

/// Whose answers an updater takes for its participant's.
pub struct OwnAnswers {
    /// Computes what is signed.
    pub signer: ApprovalSigner,
    /// The participant's key.
    pub key: PublicKey,
}

impl Stage for UpdaterShell {
    fn name(&self) -> String {
        format!("updater {}", self.bic)
    }

    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError> {
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
        // Before it accuses the operator it has read every answer that is there: one that came before its proposals gives way
        // to a later one.
        let is_read = |feeds: &Feeds| feeds.ends().is_some_and(|ends| feeds.has_reached(&ends));
        let mut may_apply = state.is_ready(&decided);
        if may_apply && let Some(refused) = state.contradiction(&decided) {
            if self.answers.feeds().is_none_or(is_read) {
                return Err(error(self, refused));
            }
            may_apply = false;
        } else if may_apply && let Some(consents) = &mut self.consents {
            let (under_way, is_over) = (&mut self.under_way, |source| state.is_over(source));
            let note = |source, feed, position| under_way.note(source, consents_stream(feed), position);
            let are_there = consents.are_there(now, &self.bic, &decided, is_over, note);
            may_apply = are_there.map_err(|refusal| error(self, refusal))?;
        }
        if may_apply {
            if let Some(witness) = &mut self.witness
                && let Err(fault) = witness.follow(now, &decided)
            {
                return Err(error(self, fault));
            }
            state.apply(&decided).map_err(|refusal| error(self, refusal))?;
            if !state.awaits(decided.source) {
                self.under_way.forget(decided.source);
                if let Some(consents) = &mut self.consents {
                    consents.state.forget(decided.source);
                }
            }
            self.applied.store(state.applied(), Ordering::Release);
            progress = true;
        } else {
            self.held = Some(decided);
        }
        Ok(progress)
    }
}

/// How far proposals and answers go, by partition, and the consents to what the record that is held decides.
pub(crate) struct ShownEnds {
    proposals: Vec<u64>,
    answers: Vec<u64>,
    /// Of which assembler, and its end; none where it waits for something else.
    consents: Option<(usize, u64)>,
}

impl UpdaterShell {
    /// How far that goes on which the record of the sequence that is held rests, as of now; none where that is not known.
    pub(crate) fn ends(&self) -> Option<ShownEnds> {
        let consents = match (&self.consents, &self.held) {
            // They are read once nothing else is missing.
            (Some(consents), Some(held)) if self.awaits_consents() => {
                let feeds = consents.reader.feeds()?;
                let assembler = assembler_of(held.source, feeds.count());
                Some((assembler, feeds.end(assembler)?))
            }
            _ => None,
        };
        let (proposals, answers) = (self.proposals.feeds()?.ends()?, self.answers.feeds()?.ends()?);
        Some(ShownEnds { proposals, answers, consents })
    }

    /// Whether all that the record of the sequence that is held lacks are others' consents.
    pub(crate) fn awaits_consents(&self) -> bool {
        let state = self.state.lock().expect("no step panics and goes on");
        self.consents.is_some() && self.held.as_ref().is_some_and(|held| state.is_ready(held))
    }

    /// Whether all of it has been read up to there.
    pub(crate) fn has_reached(&self, ends: &ShownEnds) -> bool {
        let reached =
            |feeds: Option<&Feeds>, ends: &[u64]| feeds.is_some_and(|feeds| feeds.has_reached(ends));
        let shown = self.consents.as_ref().and_then(|consents| consents.reader.feeds());
        reached(self.proposals.feeds(), &ends.proposals)
            && reached(self.answers.feeds(), &ends.answers)
            && ends.consents.is_none_or(|(feed, end)| shown.is_some_and(|shown| shown.has_come_to(feed, end)))
    }

    /// Takes the proposals and the answers to them that have come; whether there were any.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn drain(&mut self) -> Result<bool, StageError> {
        let state = Arc::clone(&self.state);
        let mut state = state.lock().expect("no step panics and goes on");
        let mut progress = false;
        while let Some(proposals) = self.proposals.poll().map_err(|refusal| error(self, refusal))? {
            is_the_schedulers(&self.proposals, &proposals).map_err(|wrong| error(self, wrong))?;
            let Polled { feed, position, value } = proposals;
            let source = value.source;
            state.propose(value);
            if state.is_open(source) {
                self.under_way.note(source, stream(feed), position);
            } else if state.is_over(source) {
                self.under_way.forget(source);
            }
            if let Some(consents) = &mut self.consents {
                let holds = state.open(source).map(|(proposals, _)| proposals);
                consents.open(source, holds, state.is_over(source));
            }
            progress = true;
        }
        while let Some(answers) = self.answers.poll().map_err(|refusal| error(self, refusal))? {
            let Polled { feed, position, value } = answers;
            progress = true;
            if let Some(OwnAnswers { signer, key }) = &mut self.own
                && !signer.verifies(&value, key)
            {
                tracing::warn!(bic = self.bic, feed, position, "answers that the institution did not sign");
                continue;
            }
            state.answer(&value);
            if state.awaits(value.source) {
                self.under_way.note(value.source, approvals_stream(feed), position);
            }
        }
        Ok(progress)
    }
}

#[cfg(test)]
mod tests;
