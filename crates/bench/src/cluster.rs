//! Settlement over Kafka: each shard of a stage a process of its own, driven through a gateway.
//!
//! The stages' processes are this very program, started with a [`member::Member`] on its command line; what they do is
//! what `tally stage` does, with counters that are read over a pipe instead of metrics over HTTP.

pub mod alone;
mod error;
mod files;
mod kept;
pub mod limits;
pub mod member;
mod meter;
pub mod model;
pub mod network;
mod port;
pub mod takeover;
pub mod witnesses;

pub use error::ClusterError;
pub use kept::{Through, Traffic};
pub use meter::Worked;
pub use port::GatewayPort;

use crate::workload;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tally_crypto::SigningKey;
use tally_ledger::Network;
use tally_log::kafka::topics::TopicPlan;
use tally_settlement::process::{Layout, Role};

/// A network of a benchmark, and how its stages are split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Before the names of its topics.
    pub prefix: String,
    /// How many schedulers share the transactions.
    pub schedulers: u16,
    /// How many assemblers share the accepted batches.
    pub assemblers: u16,
    /// How many gateways hand transactions in.
    pub gateways: u16,
    /// How many banks there are besides the central bank, if more than two: each has an approver and an updater.
    pub banks: u16,
    /// Whether payers sign.
    pub signed: bool,
    /// How long a payment is valid, in milliseconds.
    pub validity_ms: u64,
    /// How often updaters save their balances, in milliseconds.
    pub snapshots_ms: u64,
}

impl Shape {
    /// The participants, and their keys.
    #[must_use]
    pub fn network(&self) -> (Arc<Network>, Vec<SigningKey>) {
        let (network, keys) =
            workload::network(self.signed, Duration::from_millis(self.validity_ms), self.banks);
        (Arc::new(network), keys)
    }

    /// A small one.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        let (prefix, schedulers, assemblers, banks) = ("sample".to_owned(), 1, 1, 2);
        Self {
            prefix,
            schedulers,
            assemblers,
            gateways: 1,
            banks,
            signed: false,
            validity_ms: 60_000,
            snapshots_ms: 60_000,
        }
    }

    /// Its topics.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout {
            prefix: self.prefix.clone(),
            participants: self.network().0.participants.iter().map(|one| one.bic.clone()).collect(),
            schedulers: self.schedulers,
            assemblers: self.assemblers,
            gateways: self.gateways,
        }
    }

    /// Its topics as they are to be made, on one broker.
    #[must_use]
    pub fn topics(&self) -> Vec<TopicPlan> {
        let topics = self.layout().topics();
        topics.into_iter().map(|topic| TopicPlan::new(topic.name, topic.partitions)).collect()
    }

    /// Every shard of it, in the order in which a payment meets them.
    #[must_use]
    pub fn shards(&self) -> Vec<(Role, u16)> {
        let participants = u16::try_from(self.network().1.len()).expect("participants are few");
        let count = |role| match role {
            Role::Gateway => 0,
            Role::Scheduler => self.schedulers,
            Role::Assembler => self.assemblers,
            Role::Sequencer => 1,
            Role::Approver | Role::Updater => participants,
        };
        Role::ALL.into_iter().flat_map(|role| (0..count(role)).map(move |shard| (role, shard))).collect()
    }
}
