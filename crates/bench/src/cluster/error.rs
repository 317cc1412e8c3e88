//! What can end a benchmark over a cluster.

use crate::processes::WatchError;
use crate::workload::WorkloadError;
use tally_log::LogError;
use tally_log::kafka::broker::BrokerError;
use tally_settlement::process::ShardError;

/// A benchmark over a cluster that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no broker.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The cluster refused.
    #[error("the cluster refused")]
    Log(#[from] LogError),
    /// A shard could not be opened, or could not go on.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// The load failed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A process cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// A stage's process could not be started or asked.
    #[error("{process}: {what}")]
    Process {
        /// Which.
        process: String,
        /// What went wrong.
        what: String,
    },
}

impl ClusterError {
    pub(super) fn process(process: &str, what: impl std::fmt::Display) -> Self {
        Self::Process { process: process.to_owned(), what: what.to_string() }
    }
}
