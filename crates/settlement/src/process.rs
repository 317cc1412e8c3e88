//! Stages as processes of their own, joined by a cluster of shared logs.
//!
//! Each stage is split into **shards**: schedulers and assemblers by accepted batch, approvers and updaters by
//! participant; there is one sequencer. A shard is the stage that also runs inside [one process](crate::engine), with
//! its topics on a [`Cluster`](tally_log::cluster::Cluster): what it reads, what it appends and how far it has come
//! become visible together or not at all ([`shard`]). Whoever opens a shard finds there what it needs to go on
//! ([`schedule`], [`approve`], [`assemble`], [`sequence`], [`update`]), and fences whoever ran it before.
//! [`standby`] says who is the sequencer. [`layout`] says which topics there are, [`gateway`] is the senders' side and
//! [`desk`] answers clients there, [`found`] moves a network there, [`journal`] and [`partition`] read its ledger for audits,
//! [`misconduct`] counts what members appended that does not count.

pub mod approve;
pub mod assemble;
pub mod desk;
pub mod evidence;
pub mod found;
#[doc(hidden)]
pub mod fuzz;
pub mod gateway;
pub mod journal;
pub mod layout;
mod ledger;
pub mod misconduct;
pub mod partition;
pub mod schedule;
pub mod sequence;
pub mod shard;
mod snapshot;
pub mod standby;
mod state;
pub mod update;

pub use desk::{Desk, DeskOptions};
pub use gateway::{Gateway, first_origin};
pub use layout::{Layout, Role};
pub use shard::{Shard, ShardError, Stop};
pub use standby::Standby;

#[cfg(test)]
mod tests;
