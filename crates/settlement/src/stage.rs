//! The stages as pure state machines: batches in, batches out; no IO, no clock, no randomness.

pub mod approver;
pub mod assembler;
pub mod scheduler;
pub mod sequencer;
pub mod updater;

pub use approver::Approver;
pub use assembler::Assembler;
pub use scheduler::{Scheduled, Scheduler};
pub use sequencer::Sequencer;
pub use updater::Updater;

#[cfg(test)]
mod tests;
