//! The stages as pure state machines: batches in, batches out; no IO, no clock, no randomness.

pub mod agreements;
pub(crate) mod approved;
pub mod approver;
pub mod assembler;
pub mod scheduler;
pub mod sequencer;
pub mod updater;
pub mod witness;

pub use agreements::Agreements;
pub use approver::Approver;
pub use assembler::Assembler;
pub use scheduler::{Scheduled, Scheduler};
pub use sequencer::Sequencer;
pub use updater::Updater;
pub use witness::LogWitness;

#[cfg(test)]
mod tests;
