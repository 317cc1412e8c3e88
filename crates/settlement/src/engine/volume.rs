//! A port for whole batches.

use super::Shared;
use crate::message::{IntakeBatch, SequenceBatch, Submission};
use crate::runtime::executor::Signal;
use crate::runtime::topic::{Reader, Topic};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tally_ledger::TransactionBatch;
use tally_log::Visibility;

/// Hands whole batches to the schedulers and sees what becomes of them.
pub struct VolumePort {
    shared: Arc<Shared>,
    submissions: Vec<Topic<Submission>>,
    /// What schedulers say of submissions: everybody's.
    pub intake: Reader<IntakeBatch>,
    /// Decisions once they are durable: everybody's.
    pub sequence: Reader<SequenceBatch>,
    signal: Arc<Signal>,
}

impl VolumePort {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            submissions: shared.collectors.iter().map(|c| c.submissions.clone()).collect(),
            intake: shared.intake.reader(Visibility::Appended),
            sequence: shared.sequence.reader(Visibility::Durable),
            signal: Arc::clone(&shared.signal),
            shared: Arc::clone(shared),
        }
    }

    /// How many schedulers there are; a batch's references must all fall to one, see [`super::route`].
    pub fn schedulers(&self) -> usize {
        self.submissions.len()
    }

    /// Whether the scheduler takes a batch now.
    pub fn has_room(&self, scheduler: usize) -> bool {
        self.submissions[scheduler].has_room()
    }

    /// Hands in a batch; the origin by which [`Self::intake`] names it.
    pub fn submit(&self, scheduler: usize, batch: TransactionBatch) -> u64 {
        let origin = self.shared.origins.fetch_add(1, Ordering::Relaxed);
        self.submissions[scheduler].send(Arc::new(Submission { origin, batch }));
        origin
    }

    /// How much has happened in the network: to be taken before looking, for [`Self::wait`] afterwards.
    pub fn events(&self) -> u64 {
        self.signal.events()
    }

    /// Waits until something has happened in the network since `events`, at most so long.
    pub fn wait(&self, events: u64, limit: Duration) {
        self.signal.wait(events, limit);
    }
}
