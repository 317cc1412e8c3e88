//! The assembler: joins the answers to a transaction until everybody concerned has given one or it
//! expired, and decides it, once.
//!
//! Who is concerned comes from the scheduler ([`ParticipationBatch`]) alone. An answer counts for the
//! participant who signed it, and only where that participant was asked: a participant can refuse what
//! concerns it, and change nothing else.
//!
//! It shows each participant with whose signature the others agreed ([`ConsentBatch`]), before what they agreed to is
//! decided: nobody has to take the operator's word for that.

use crate::message::{
    ApprovalBatch, ApprovalSigner, ConsentBatch, DecisionBatch, ParticipationBatch, Source, Withdrawal,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tally_ledger::{Network, ParticipantId, Refusal, Timestamp};

/// How long after a transaction's expiry, in milliseconds, an answer that was given before it may
/// still arrive.
pub(crate) const GRACE_MS: u64 = 2_000;
/// The most withdrawals that wait for the batch of what they withdraw.
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
    /// Withdrawals whose batch is not open yet. Their senders have no acknowledgement, so that a crash may
    /// forget them.
    withdrawn: BTreeSet<Withdrawal>,
    /// What is to be shown to whom; none where all participants are of this process.
    consents: Option<Vec<(ParticipantId, ConsentBatch)>>,
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
    participation: Arc<ParticipationBatch>,
    /// The participant who alone is asked for the whole batch, if there is one.
    only: Option<ParticipantId>,
    /// The earliest expiry of the batch: before it nothing expires.
    expires: Timestamp,
    undecided: u32,
    /// Answers transaction by transaction; none before the first answer that does not decide the whole batch.
    counting: Option<Counting>,
}

/// The answers to a batch, transaction by transaction.
struct Counting {
    items: Vec<Item>,
    /// Where the participants of each transaction begin in the participation's column.
    firsts: Vec<u32>,
    /// By place in that column, the verdict that was answered there; [`UNANSWERED`] before.
    answers: Vec<u16>,
    /// The batches of answers that were counted, for evidence against a participant who gives two.
    counted: Vec<Arc<ApprovalBatch>>,
}

const UNANSWERED: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Item {
    /// Participants who have not answered.
    missing: u8,
    decided: bool,
    /// The refusal with the lowest number among the answers; 0 while there is none.
    verdict: u16,
}

/// Why a batch of answers counts for nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotCounted {
    /// It names a participant that the network does not have.
    #[error("answers from participant {0:?}, which this network does not have")]
    UnknownParticipant(ParticipantId),
    /// It lies where another participant answers.
    #[error("answers of participant {found:?} where only participant {expected:?} may answer")]
    Foreign {
        /// Who answers there.
        expected: ParticipantId,
        /// Whom the answers name.
        found: ParticipantId,
    },
    /// It is about a batch of which no scheduler has told the assembler.
    #[error("answers of participant {0:?} to {1:?}, which was not accepted")]
    UnknownBatch(ParticipantId, Source),
    /// It takes the accepted batch to have another number of transactions.
    #[error("answers of participant {0:?} to {1:?} take it for a batch of another length")]
    WrongLength(ParticipantId, Source),
    /// The signature is not the participant's.
    #[error("answers to {1:?} that participant {0:?} did not sign")]
    WrongSignature(ParticipantId, Source),
    /// It answers for a transaction in which the participant has no part.
    #[error(
        "participant {participant:?} answers for transaction {index} of {source_batch:?}, in which it has no part"
    )]
    NotAsked {
        /// Who answers.
        participant: ParticipantId,
        /// The accepted batch.
        source_batch: Source,
        /// The transaction in it.
        index: u32,
    },
    /// The participant signed another answer about the same transaction before: evidence of misconduct.
    #[error("participant {} answers for transaction {index} of {:?} a second time, and otherwise", .second.participant.0, .second.source)]
    Contradiction {
        /// The transaction in the accepted batch.
        index: u32,
        /// The answers that count.
        first: Arc<ApprovalBatch>,
        /// Those that do not.
        second: Arc<ApprovalBatch>,
    },
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
            signer: ApprovalSigner::new(network.id),
            network,
            assemblers,
            open: BTreeMap::new(),
            finished,
            withdrawn: BTreeSet::new(),
            consents: None,
            clock,
        }
    }

    /// An assembler whose participants are shown what the others agreed to ([`Self::take_consents`]).
    #[must_use]
    pub fn with_consents(self) -> Self {
        Self { consents: Some(Vec::new()), ..self }
    }

    /// What has been agreed to since the last time, and whom it is to be shown. It belongs before the decisions of the same
    /// step.
    pub fn take_consents(&mut self) -> Vec<(ParticipantId, ConsentBatch)> {
        self.consents.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What it has finished, per scheduler.
    pub fn finished(&self) -> &HashMap<u64, Finished> {
        &self.finished
    }

    /// The time by which it judges.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Whether the participation of the batch has come and not all of it is decided.
    pub fn is_open(&self, source: Source) -> bool {
        self.open.contains_key(&source)
    }

    /// Whether the participation of the batch has come, whatever became of it.
    pub fn knows(&self, source: Source) -> bool {
        self.is_open(source) || self.is_finished(source)
    }

    /// How many batches are not wholly decided.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Learns who has to answer for a batch; what was withdrawn of it before is decided at once. A batch that it knows is
    /// not opened again.
    pub fn ask(&mut self, participation: Arc<ParticipationBatch>) -> DecisionBatch {
        let source = participation.source;
        let mut decisions = DecisionBatch { source, ..DecisionBatch::default() };
        if self.knows(source) {
            return decisions;
        }
        self.open.insert(source, Open::new(participation));
        let of_source = Withdrawal { source, index: 0 }..=Withdrawal { source, index: u32::MAX };
        let due: Vec<u32> = self.withdrawn.range(of_source).map(|withdrawal| withdrawal.index).collect();
        for index in due {
            self.withdrawn.remove(&Withdrawal { source, index });
            self.refuse(source, index, Refusal::Withdrawn, &mut decisions);
        }
        decisions
    }

    /// Learns, when recovering, that a batch was accepted, and which of it is decided.
    pub fn reopen(&mut self, participation: Arc<ParticipationBatch>, is_decided: impl Fn(u32) -> bool) {
        let source = participation.source;
        let mut open = Open::new(participation);
        let counting = open.counting.get_or_insert_with(|| Counting::new(&open.participation));
        for (index, item) in (0u32..).zip(&mut counting.items) {
            item.decided = is_decided(index);
            open.undecided -= u32::from(item.decided);
        }
        if open.undecided == 0 {
            self.finish(source);
        } else {
            self.open.insert(source, open);
        }
    }

    /// Counts a batch of answers; what it decides, in the order of the accepted batch.
    ///
    /// Answers that were counted before, or come after the decision, change nothing.
    ///
    /// # Errors
    /// When the answers are not the participant's own, or it was not asked for them: nothing is counted.
    pub fn count(&mut self, now: Timestamp, batch: &Arc<ApprovalBatch>) -> Result<DecisionBatch, NotCounted> {
        self.clock = self.clock.max(now);
        let (source, participant) = (batch.source, batch.participant);
        let mut decisions = DecisionBatch { source, ..DecisionBatch::default() };
        let key = self.network.participants.get(participant.index());
        let key = &key.ok_or(NotCounted::UnknownParticipant(participant))?.key;
        let Some(open) = self.open.get_mut(&source) else {
            if self.is_finished(source) {
                return Ok(decisions);
            }
            return Err(NotCounted::UnknownBatch(participant, source));
        };
        if batch.source_len as usize != open.participation.len() {
            return Err(NotCounted::WrongLength(participant, source));
        }
        if !self.signer.verifies(batch, key) {
            return Err(NotCounted::WrongSignature(participant, source));
        }
        if open.is_decided_by(batch) {
            decisions.indices.clone_from(&batch.indices);
            decisions.ids.clone_from(&batch.ids);
            decisions.verdicts.clone_from(&batch.verdicts);
            self.close(source);
            return Ok(decisions);
        }
        let agreed = open.count(batch, &mut decisions)?;
        if let Some(consents) = &mut self.consents {
            consents.extend(ConsentBatch::of(batch, open.shared(batch, &agreed)));
        }
        if open.undecided == 0 {
            self.close(source);
        }
        Ok(decisions)
    }

    /// Refuses a transaction that is not decided; one whose batch has not come is refused when it comes.
    pub fn withdraw(&mut self, now: Timestamp, withdrawal: &Withdrawal) -> DecisionBatch {
        self.clock = self.clock.max(now);
        let Withdrawal { source, index } = *withdrawal;
        let mut decisions = DecisionBatch { source, ..DecisionBatch::default() };
        if self.is_open(source) {
            self.refuse(source, index, Refusal::Withdrawn, &mut decisions);
        } else if !self.is_finished(source) {
            // Those of batches that never come go first when there are too many.
            if self.withdrawn.len() >= MAX_WITHDRAWALS {
                self.withdrawn.pop_first();
            }
            self.withdrawn.insert(*withdrawal);
        }
        decisions
    }

    /// Decides what expired without everybody's answer.
    pub fn expire(&mut self, now: Timestamp) -> Vec<DecisionBatch> {
        self.clock = self.clock.max(now);
        let mut all = Vec::new();
        for (source, open) in &mut self.open {
            if open.expires.plus_ms(GRACE_MS) >= self.clock {
                continue;
            }
            let mut decisions = DecisionBatch { source: *source, ..DecisionBatch::default() };
            let participation = Arc::clone(&open.participation);
            for (index, expiry) in (0u32..).zip(&participation.expiries) {
                if expiry.plus_ms(GRACE_MS) < self.clock {
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

    /// Refuses a transaction, unless one participant alone has to answer it: that one's answer decides it, or its expiry.
    fn refuse(&mut self, source: Source, index: u32, refusal: Refusal, decisions: &mut DecisionBatch) {
        let Some(open) = self.open.get_mut(&source) else { return };
        if open.participation.counts.get(index as usize).is_none_or(|count| *count < 2) {
            return;
        }
        open.decide(index, refusal.number(), decisions);
        if open.undecided == 0 {
            self.close(source);
        }
    }

    fn close(&mut self, source: Source) {
        self.open.remove(&source);
        self.finish(source);
    }

    fn finish(&mut self, source: Source) {
        let finished = self.finished.entry(source.scheduler).or_default();
        finished.above.insert(source.number / self.assemblers);
        while finished.above.remove(&finished.below) {
            finished.below += 1;
        }
    }
}

impl Open {
    fn new(participation: Arc<ParticipationBatch>) -> Self {
        Self {
            only: participation.only_participant(),
            expires: participation.expiries.iter().copied().min().unwrap_or(Timestamp(u64::MAX)),
            undecided: u32::try_from(participation.len()).expect("batches are bounded"),
            counting: None,
            participation,
        }
    }

    /// Whether these answers, the first to the batch, decide all of it: one participant is asked, and answers everything
    /// that it was shown.
    fn is_decided_by(&self, batch: &ApprovalBatch) -> bool {
        self.counting.is_none()
            && self.only == Some(batch.participant)
            && batch.indices.len() == self.participation.len()
            && batch.ids == self.participation.ids
    }

    /// Counts answers, and adds what they decide to `decisions`; the positions of those that are a yes, given for the first
    /// time to what was not decided.
    fn count(
        &mut self,
        batch: &Arc<ApprovalBatch>,
        decisions: &mut DecisionBatch,
    ) -> Result<Vec<usize>, NotCounted> {
        let participation = Arc::clone(&self.participation);
        let counting = self.counting.get_or_insert_with(|| Counting::new(&participation));
        let places = counting.places(&participation, batch)?;
        let (mut is_new, mut agreed) = (false, Vec::new());
        for (at, place) in places.iter().enumerate() {
            let answer = answer(&participation, batch, at);
            let Some(item) = counting.answer(batch.indices[at] as usize, *place, answer) else { continue };
            is_new = true;
            if answer == 0 && !item.decided {
                agreed.push(at);
            }
            if item.missing == 0 && !item.decided {
                let verdict = item.verdict;
                self.undecided -= 1;
                item.decided = true;
                decisions.push(batch.indices[at], participation.ids[batch.indices[at] as usize], verdict);
            }
        }
        if is_new {
            counting.counted.push(Arc::clone(batch));
        }
        Ok(agreed)
    }

    /// The participants of each transaction that answers at those positions are about.
    fn shared<'a>(
        &'a self,
        batch: &'a ApprovalBatch,
        positions: &'a [usize],
    ) -> impl Iterator<Item = (usize, &'a [ParticipantId])> {
        let firsts = self.counting.as_ref().map_or(&[][..], |counting| &counting.firsts);
        positions.iter().map(move |at| {
            let index = batch.indices[*at] as usize;
            (*at, &self.participation.participants[firsts[index] as usize..firsts[index + 1] as usize])
        })
    }

    /// Refuses a transaction, unless it is decided.
    fn decide(&mut self, index: u32, verdict: u16, decisions: &mut DecisionBatch) {
        let participation = Arc::clone(&self.participation);
        let counting = self.counting.get_or_insert_with(|| Counting::new(&participation));
        let Some(item) = counting.items.get_mut(index as usize).filter(|item| !item.decided) else { return };
        item.decided = true;
        self.undecided -= 1;
        decisions.push(index, participation.ids[index as usize], verdict);
    }
}

/// The answer at `at` by its number. A participant that was shown another transaction does not agree to this one.
fn answer(participation: &ParticipationBatch, batch: &ApprovalBatch, at: usize) -> u16 {
    let same = batch.ids[at] == participation.ids[batch.indices[at] as usize];
    if same { batch.verdicts[at] } else { Refusal::ApprovalConflict.number() }
}

impl Counting {
    fn new(participation: &ParticipationBatch) -> Self {
        let item = |count: &u8| Item { missing: *count, decided: false, verdict: 0 };
        Self {
            items: participation.counts.iter().map(item).collect(),
            firsts: participation.firsts(),
            answers: vec![UNANSWERED; participation.participants.len()],
            counted: Vec::new(),
        }
    }

    /// The places of a participant's answers in the column of participants.
    fn places(
        &self,
        participation: &ParticipationBatch,
        batch: &Arc<ApprovalBatch>,
    ) -> Result<Vec<usize>, NotCounted> {
        let participant = batch.participant;
        let mut places = Vec::with_capacity(batch.indices.len());
        for (at, index) in batch.indices.iter().enumerate() {
            let first = self.firsts[*index as usize] as usize;
            let end = self.firsts[*index as usize + 1] as usize;
            let asked = participation.participants[first..end].iter().position(|asked| *asked == participant);
            let place = asked.map(|place| first + place).ok_or(NotCounted::NotAsked {
                participant,
                source_batch: batch.source,
                index: *index,
            })?;
            let before = self.answers[place];
            if before != UNANSWERED && before != answer(participation, batch, at) {
                return Err(self.contradiction(batch, *index));
            }
            places.push(place);
        }
        Ok(places)
    }

    fn contradiction(&self, second: &Arc<ApprovalBatch>, index: u32) -> NotCounted {
        let first = self.counted.iter().find(|counted| {
            counted.participant == second.participant && counted.indices.binary_search(&index).is_ok()
        });
        let first = first.expect("what was answered was counted");
        NotCounted::Contradiction { index, first: Arc::clone(first), second: Arc::clone(second) }
    }

    /// Notes an answer; the transaction that it is about, unless it was given before. Of several refusals the one with the
    /// lowest number stands, so that the outcome does not depend on the order in which answers come.
    fn answer(&mut self, index: usize, place: usize, verdict: u16) -> Option<&mut Item> {
        if self.answers[place] != UNANSWERED {
            return None;
        }
        self.answers[place] = verdict;
        let item = &mut self.items[index];
        item.missing -= 1;
        item.verdict = match (item.verdict, verdict) {
            (0, verdict) | (verdict, 0) => verdict,
            (before, verdict) => before.min(verdict),
        };
        Some(item)
    }
}
