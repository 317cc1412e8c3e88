//! Who waits for what: by submission until its scheduler has answered, then by accepted transaction.

use super::recent::Recent;
use crate::clerk::{self, Counts, Finality, Notice, Waiter};
use crate::message::{Intake, IntakeBatch, SequenceBatch, Source};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_crypto::log::SignedTreeHead;
use tally_ledger::Refusal;

/// Who waits for a transaction that was handed in, and for how long it may be undecided.
pub(super) struct HandedIn {
    pub(super) waiter: Waiter,
    /// Until its expiry.
    pub(super) valid: Duration,
}

struct Submitted {
    handed_in: Vec<HandedIn>,
    since: Instant,
}

struct Accepted {
    index: u32,
    waiter: Waiter,
    /// Until when it is waited for.
    until: Instant,
    /// Whether it was handed in here.
    own: bool,
}

/// Those who wait, and what they need to be told.
pub(super) struct Waiting {
    submitted: HashMap<u64, Submitted>,
    accepted: HashMap<Source, Vec<Accepted>>,
    unanswered: usize,
    recent: Recent,
    /// Everything below is decided, and in the balances.
    next: u64,
    /// Everything below has been heard of.
    heard: u64,
    /// Records of the sequence that are in the balances.
    records: u64,
    head: Option<SignedTreeHead>,
    counts: Counts,
    looked: Instant,
}

/// How long somebody is waited for in vain: after the expiry of what was accepted, when it is decided at the latest, or after
/// what nothing was heard of was handed in. Clients leave long before; until then it counts as its institution's.
const KEPT: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_secs(30);

impl Waiting {
    /// Everything before decision `next`, which is in the first `records` records of the sequence, is in the balances.
    pub(super) fn new(next: u64, records: u64, head: Option<SignedTreeHead>) -> Self {
        Self {
            submitted: HashMap::new(),
            accepted: HashMap::new(),
            unanswered: 0,
            recent: Recent::default(),
            next,
            heard: next,
            records,
            head,
            counts: Counts::default(),
            looked: Instant::now(),
        }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }
    pub(super) fn records(&self) -> u64 {
        self.records
    }
    pub(super) fn head(&self) -> Option<SignedTreeHead> {
        self.head
    }
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }
    /// Those who wait.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Those who wait for the transactions of submission `origin`, in order.
    pub(super) fn submit(&mut self, origin: u64, handed_in: impl Iterator<Item = HandedIn>) {
        let handed_in: Vec<_> = handed_in.collect();
        self.unanswered += handed_in.len();
        self.submitted.insert(origin, Submitted { handed_in, since: Instant::now() });
    }

    /// Tells what a scheduler made of a submission. One of whoever was this gateway before concerns nobody.
    pub(super) fn intake(&mut self, batch: &IntakeBatch) {
        let Some(submitted) = self.submitted.remove(&batch.origin) else { return };
        self.unanswered -= submitted.handed_in.len();
        for (HandedIn { waiter, valid }, result) in submitted.handed_in.into_iter().zip(&batch.results) {
            match (result, batch.source) {
                (Intake::Accepted(index), Some(source)) => {
                    let until = submitted.since + valid + KEPT;
                    self.follow(source, Accepted { index: *index, waiter, until, own: true });
                }
                (Intake::Accepted(_), None) => {}
                (Intake::Duplicate(source, index), _) => {
                    self.counts.duplicates += 1;
                    waiter(Notice::Duplicate(*source, *index));
                }
                (Intake::Refused(refusal), _) => {
                    self.count_refusal(*refusal);
                    waiter(Notice::Refused(*refusal));
                }
            }
        }
    }

    /// Lets `waiter` wait for an accepted transaction. It is told at once where the outcome is remembered.
    pub(super) fn wait(&mut self, source: Source, index: u32, waiter: Waiter) {
        self.follow(source, Accepted { index, waiter, until: Instant::now() + KEPT, own: false });
    }

    fn follow(&mut self, source: Source, accepted: Accepted) {
        match self.recent.find(source, accepted.index) {
            Some(finality) => self.tell(source, accepted, finality),
            None => {
                self.unanswered += 1;
                self.accepted.entry(source).or_default().push(accepted);
            }
        }
    }

    fn tell(&mut self, source: Source, accepted: Accepted, finality: Finality) {
        if accepted.own {
            match finality.verdict {
                Ok(()) => self.counts.accepted += 1,
                Err(refusal) => self.count_refusal(refusal),
            }
        }
        (accepted.waiter)(Notice::Final(source, accepted.index, finality));
    }

    fn count_refusal(&mut self, refusal: Refusal) {
        *self.counts.refused.entry(refusal).or_default() += 1;
    }

    /// A remembered outcome that is in the balances.
    pub(super) fn find(&self, source: Source, index: u32) -> Option<Finality> {
        self.recent.find(source, index)
    }

    /// Learns that a record of the sequence was read. Its outcomes are told later, by [`Self::sequenced`].
    ///
    /// # Errors
    /// When it does not go on where the one before it ended.
    pub(super) fn hear(&mut self, batch: &SequenceBatch) -> Result<(), String> {
        if batch.first != self.heard {
            return Err(format!("decision {} follows decision {} of the sequence", batch.first, self.heard));
        }
        self.heard += u64::from(batch.count);
        Ok(())
    }

    /// Tells the outcomes of a record of the sequence that is in the balances.
    pub(super) fn sequenced(&mut self, batch: &Arc<SequenceBatch>) {
        let now = Instant::now();
        self.records += 1;
        self.next = batch.first + u64::from(batch.count);
        self.head = Some(batch.tree_head());
        self.recent.push(Arc::clone(batch), now);
        for accepted in self.accepted.remove(&batch.source).unwrap_or_default() {
            match clerk::find(batch, accepted.index) {
                Some(finality) => {
                    self.unanswered -= 1;
                    self.tell(batch.source, accepted, finality);
                }
                None => self.accepted.entry(batch.source).or_default().push(accepted),
            }
        }
        self.forget(now);
    }

    /// Lets go, now and then, of those who wait in vain: a submission that was set aside is never answered.
    pub(super) fn forget(&mut self, now: Instant) {
        if now.duration_since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        self.submitted.retain(|_, submitted| now.duration_since(submitted.since) < KEPT);
        self.accepted.retain(|_, all| {
            all.retain(|accepted| now < accepted.until);
            !all.is_empty()
        });
        let submitted: usize = self.submitted.values().map(|submitted| submitted.handed_in.len()).sum();
        self.unanswered = submitted + self.accepted.values().map(Vec::len).sum::<usize>();
    }

    /// Tells all that there is no answer.
    pub(super) fn clear(&mut self) {
        self.submitted.clear();
        self.accepted.clear();
        self.unanswered = 0;
    }
}

#[cfg(test)]
mod tests;
