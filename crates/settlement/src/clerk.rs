//! The clerk: tells those who wait what became of their transactions, once it is durable and applied,
//! and knows where in the log each outcome lies.

use crate::message::{Intake, IntakeBatch, SequenceBatch, Source};
use crate::recent::may_be_remembered;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tally_crypto::log::{Frontier, SignedTreeHead};
use tally_ledger::refusal::{Verdict, verdict_from_number};
use tally_ledger::{Refusal, Timestamp};
use tally_log::Ticket;

/// A final outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finality {
    /// Place in the one global order.
    pub sequence: u64,
    /// When it was sequenced.
    pub timestamp: Timestamp,
    /// Whether it was made, or why not.
    pub verdict: Verdict,
}

/// What the clerk tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// It is final.
    Final(Source, u32, Finality),
    /// The scheduler refused it.
    Refused(Refusal),
    /// Its reference was used before, by that transaction.
    Duplicate(Source, u32),
}

/// Whoever waits for one transaction.
pub type Waiter = Box<dyn FnOnce(Notice) + Send>;

/// An accepted batch, as far as the clerk follows it.
struct Followed {
    ticket: Ticket,
    /// When the last of its transactions expires.
    expires: Timestamp,
    undecided: u32,
    /// Positions in the sequence of the records that decide its transactions.
    decided_at: Vec<u64>,
}

/// The batches of one scheduler, from the oldest that is still of interest.
#[derive(Default)]
struct Scheduler {
    first: u64,
    batches: VecDeque<Followed>,
    /// While no batch is followed: every record before this one is decided and forgotten. Batches that it
    /// has accepted since may be on their way to the clerk.
    begins_at: Ticket,
}

/// Counts since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Transactions made.
    pub accepted: u64,
    /// Transactions refused, by refusal: sequenced or not.
    pub refused: HashMap<Refusal, u64>,
    /// Transactions whose reference was used before.
    pub duplicates: u64,
}

/// The clerk.
pub struct Clerk {
    schedulers: Vec<Scheduler>,
    /// Waiters by submission, until the scheduler has answered.
    submitted: HashMap<u64, Vec<Option<Waiter>>>,
    /// Waiters by accepted batch and position.
    waiting: HashMap<Source, HashMap<u32, Vec<Waiter>>>,
    /// How far each updater has applied the sequence.
    applied: Vec<Arc<AtomicU64>>,
    next: u64,
    tree: Frontier,
    clock: Timestamp,
    head: Option<SignedTreeHead>,
    counts: Counts,
}

/// Where recovery has to begin.
pub type RecoveryPoint = crate::snapshot::Origin;

impl Clerk {
    /// A clerk for `schedulers` schedulers who goes on where `next`, `tree` and `clock` say.
    pub fn new(
        schedulers: usize,
        applied: Vec<Arc<AtomicU64>>,
        next: u64,
        tree: Frontier,
        clock: Timestamp,
    ) -> Self {
        Self {
            schedulers: (0..schedulers).map(|_| Scheduler::default()).collect(),
            submitted: HashMap::new(),
            waiting: HashMap::new(),
            applied,
            next,
            tree,
            clock,
            head: None,
            counts: Counts::default(),
        }
    }

    /// Counts since the start.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
    /// The sequence number up to which everything is durable and applied.
    pub fn next(&self) -> u64 {
        self.next
    }
    /// The last signed tree head that is durable, if there was one since the start.
    pub fn head(&self) -> Option<&SignedTreeHead> {
        self.head.as_ref()
    }
    /// The time of the last record that is durable.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Whether everything handed in and accepted is decided.
    pub fn is_drained(&self) -> bool {
        self.submitted.is_empty()
            && self.schedulers.iter().flat_map(|s| &s.batches).all(|batch| batch.undecided == 0)
    }

    /// Those who wait for the transactions of submission `origin`, in order.
    pub fn submit(&mut self, origin: u64, waiters: Vec<Waiter>) {
        self.submitted.insert(origin, waiters.into_iter().map(Some).collect());
    }

    /// Follows an accepted batch until it is decided and the last of its transactions has expired.
    pub fn follow(&mut self, source: Source, ticket: Ticket, expires: Timestamp, transactions: u32) {
        let followed = Followed { ticket, expires, undecided: transactions, decided_at: Vec::new() };
        let scheduler = &mut self.schedulers[source.scheduler as usize];
        if scheduler.batches.is_empty() {
            scheduler.first = source.number;
        }
        assert_eq!(scheduler.first + scheduler.batches.len() as u64, source.number, "batches come in order");
        scheduler.batches.push_back(followed);
    }

    /// Ends recovery: the next batch of that scheduler is number `next`, and not before `ticket` in the log.
    pub fn go_on(&mut self, scheduler: usize, next: u64, ticket: Ticket) {
        let scheduler = &mut self.schedulers[scheduler];
        scheduler.begins_at = ticket;
        if scheduler.batches.is_empty() {
            scheduler.first = next;
        }
    }

    fn followed(&self, source: Source) -> Option<&Followed> {
        let scheduler = self.schedulers.get(usize::try_from(source.scheduler).ok()?)?;
        scheduler.batches.get(usize::try_from(source.number.checked_sub(scheduler.first)?).ok()?)
    }

    /// Tells what a scheduler made of a submission.
    pub fn intake(&mut self, batch: &IntakeBatch) {
        if let Some(source) = batch.source {
            let accepted = batch.results.iter().filter(|r| matches!(r, Intake::Accepted(_))).count();
            let accepted = u32::try_from(accepted).expect("batches are bounded");
            self.follow(source, batch.ticket, batch.expires, accepted);
        }
        let mut waiters = self.submitted.remove(&batch.origin).unwrap_or_default();
        for (at, result) in batch.results.iter().enumerate() {
            let waiter = waiters.get_mut(at).and_then(Option::take);
            match result {
                Intake::Accepted(index) => {
                    if let (Some(waiter), Some(source)) = (waiter, batch.source) {
                        self.waiting.entry(source).or_default().entry(*index).or_default().push(waiter);
                    }
                }
                Intake::Duplicate(source, index) => {
                    self.counts.duplicates += 1;
                    if let Some(waiter) = waiter {
                        waiter(Notice::Duplicate(*source, *index));
                    }
                }
                Intake::Refused(refusal) => {
                    *self.counts.refused.entry(*refusal).or_default() += 1;
                    if let Some(waiter) = waiter {
                        waiter(Notice::Refused(*refusal));
                    }
                }
            }
        }
    }

    /// Whether all updaters have applied a batch.
    pub fn is_applied(&self, batch: &SequenceBatch) -> bool {
        let end = batch.first + u64::from(batch.count);
        self.applied.iter().all(|applied| applied.load(Ordering::Acquire) >= end)
    }

    /// Learns, when recovering, where in the sequence transactions of a followed batch were decided.
    pub fn restore(&mut self, position: u64, batch: &SequenceBatch) {
        self.decided(position, batch);
    }

    fn decided(&mut self, position: u64, batch: &SequenceBatch) {
        let Some(scheduler) = self.schedulers.get_mut(batch.source.scheduler as usize) else { return };
        let at = batch.source.number.checked_sub(scheduler.first);
        if let Some(followed) = at.and_then(|at| scheduler.batches.get_mut(usize::try_from(at).ok()?)) {
            followed.undecided = followed.undecided.saturating_sub(batch.count);
            followed.decided_at.push(position);
        }
    }

    /// Tells the outcomes of a batch that is durable and applied; `position` is its place in the sequence's topic.
    pub fn sequenced(&mut self, position: u64, batch: &SequenceBatch) {
        assert_eq!(batch.first, self.next, "the sequence has no gap");
        self.next += u64::from(batch.count);
        self.tree.append(&batch.leaf_data());
        self.clock = self.clock.max(batch.timestamp);
        self.head = Some(batch.tree_head());
        self.decided(position, batch);
        for run in &batch.runs {
            match verdict_from_number(run.verdict) {
                Some(Err(refusal)) => {
                    *self.counts.refused.entry(refusal).or_default() += u64::from(run.count)
                }
                _ => self.counts.accepted += u64::from(run.count),
            }
        }
        if let Some(mut waiting) = self.waiting.remove(&batch.source) {
            for ((index, _), sequence) in batch.decisions().zip(batch.first..) {
                for waiter in waiting.remove(&index).into_iter().flatten() {
                    let finality = finality(batch, index, sequence).expect("the decision is in its batch");
                    waiter(Notice::Final(batch.source, index, finality));
                }
            }
            if !waiting.is_empty() {
                self.waiting.insert(batch.source, waiting);
            }
        }
        self.forget();
    }

    /// Lets go of batches that are decided and whose references have expired by the time in the sequence:
    /// that time stays true for every later process, the present one's may not.
    fn forget(&mut self) {
        let now = self.clock;
        for scheduler in &mut self.schedulers {
            while let Some(oldest) = scheduler.batches.front()
                && oldest.undecided == 0
                && !may_be_remembered(oldest.expires, now)
                && scheduler.batches.len() > 1
            {
                scheduler.batches.pop_front();
                scheduler.first += 1;
            }
        }
    }

    /// Whether the batch is older than those that are followed: decided, and no longer remembered.
    pub fn has_forgotten(&self, source: Source) -> bool {
        let scheduler = usize::try_from(source.scheduler).ok().and_then(|at| self.schedulers.get(at));
        scheduler.is_some_and(|scheduler| source.number < scheduler.first)
    }

    /// Where in the sequence's topic the transactions of a batch were decided, if the batch is followed;
    /// and whether all are.
    pub fn decided_at(&self, source: Source) -> Option<(&[u64], bool)> {
        self.followed(source).map(|followed| (followed.decided_at.as_slice(), followed.undecided == 0))
    }

    /// Lets `waiter` wait for a transaction that is not decided.
    pub fn wait(&mut self, source: Source, index: u32, waiter: Waiter) {
        self.waiting.entry(source).or_default().entry(index).or_default().push(waiter);
    }

    /// From where a process would have to replay if the balances of now were saved; `end` is the
    /// ticket after the last that is durable.
    pub fn recovery_point(&self, end: Ticket) -> RecoveryPoint {
        let oldest =
            self.schedulers.iter().map(|s| s.batches.front().map_or(s.begins_at, |b| b.ticket)).min();
        RecoveryPoint {
            recover_from: oldest.map_or(end, |oldest| oldest.min(end)),
            next: self.next,
            tree: self.tree.clone(),
            clock: self.clock,
        }
    }
}

/// The outcome of the transaction at `index` of the batch's source, if the batch decides it.
pub fn find(batch: &SequenceBatch, index: u32) -> Option<Finality> {
    let mut sequence = batch.first;
    for run in &batch.runs {
        if (run.index..run.index + u32::from(run.count)).contains(&index) {
            return finality(batch, index, sequence + u64::from(index - run.index));
        }
        sequence += u64::from(run.count);
    }
    None
}

fn finality(batch: &SequenceBatch, index: u32, sequence: u64) -> Option<Finality> {
    let run = batch.runs.iter().find(|run| (run.index..run.index + u32::from(run.count)).contains(&index))?;
    Some(Finality { sequence, timestamp: batch.timestamp, verdict: verdict_from_number(run.verdict)? })
}
