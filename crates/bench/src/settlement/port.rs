//! Where a driver hands payments in and hears what becomes of them.

use crate::workload::{Setup, WorkloadError};
use std::sync::Arc;
use std::time::Duration;
use tally_ledger::TransactionBatch;
use tally_log::Health;
use tally_settlement::engine::{Engine, VolumePort};
use tally_settlement::message::{IntakeBatch, SequenceBatch};

/// A network as its driver sees it.
pub trait Port {
    /// How many schedulers share the payments.
    fn schedulers(&self) -> usize;
    /// Whether a scheduler takes a batch now.
    fn has_room(&self, scheduler: usize) -> bool;
    /// Hands in a batch, all of whose references fall to that scheduler; the origin by which it is named.
    ///
    /// # Errors
    /// When the network does not take it.
    fn submit(&mut self, scheduler: usize, batch: TransactionBatch) -> Result<u64, WorkloadError>;
    /// Sends on what was handed in, where that is not done at once.
    ///
    /// # Errors
    /// When the network does not take it.
    fn flush(&mut self) -> Result<(), WorkloadError>;
    /// What a scheduler says next of a submission.
    ///
    /// # Errors
    /// When it cannot be read.
    fn intake(&mut self) -> Result<Option<Arc<IntakeBatch>>, WorkloadError>;
    /// The next decisions, durable.
    ///
    /// # Errors
    /// When they cannot be read.
    fn sequence(&mut self) -> Result<Option<Arc<SequenceBatch>>, WorkloadError>;
    /// Every decision below this number of the sequence is applied by every updater.
    fn applied(&self) -> u64;
    /// To be taken before looking, for [`Self::wait`] afterwards.
    fn events(&self) -> u64;
    /// Waits until something has happened since `events`, at most so long.
    fn wait(&self, events: u64, limit: Duration);
    /// Whether the network can go on.
    fn health(&self) -> Health;
}

/// A network inside this process.
pub(super) struct Inside<'a> {
    engine: &'a Engine,
    port: VolumePort,
}

impl<'a> Inside<'a> {
    pub(super) fn new(setup: &'a Setup) -> Self {
        Self { engine: &setup.engine, port: setup.engine.volume() }
    }
}

impl Port for Inside<'_> {
    fn schedulers(&self) -> usize {
        self.port.schedulers()
    }

    fn has_room(&self, scheduler: usize) -> bool {
        self.port.has_room(scheduler)
    }

    fn submit(&mut self, scheduler: usize, batch: TransactionBatch) -> Result<u64, WorkloadError> {
        Ok(self.port.submit(scheduler, batch))
    }

    fn flush(&mut self) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn intake(&mut self) -> Result<Option<Arc<IntakeBatch>>, WorkloadError> {
        let polled = self.port.intake.poll().map_err(super::refused)?;
        Ok(polled.map(|polled| polled.value))
    }

    fn sequence(&mut self) -> Result<Option<Arc<SequenceBatch>>, WorkloadError> {
        let polled = self.port.sequence.poll().map_err(super::refused)?;
        Ok(polled.map(|polled| polled.value))
    }

    fn applied(&self) -> u64 {
        self.engine.sequenced()
    }

    fn events(&self) -> u64 {
        self.port.events()
    }

    fn wait(&self, events: u64, limit: Duration) {
        self.port.wait(events, limit);
    }

    fn health(&self) -> Health {
        self.engine.health()
    }
}
