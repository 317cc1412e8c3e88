//! Why the flows ledger could not be measured.

use std::io;
use std::path::PathBuf;

use tally_ops::process::ProcessError;

use crate::processes::WatchError;

/// Why a measurement of the flows ledger failed.
#[derive(Debug, thiserror::Error)]
pub enum FlowsError {
    /// A file or directory.
    #[error("cannot make or read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The network's identities.
    #[error("cannot make the network's identities")]
    Bootstrap(#[from] tally_identity::BootstrapError),
    /// A node's identity cannot be used.
    #[error("cannot use a node's identity")]
    Identity(#[from] tally_identity::IdentityError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS to a node")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// The users file.
    #[error("cannot make a node's users")]
    Users(#[from] tally_rpc::UsersError),
    /// A node in this process.
    #[error("a node cannot run")]
    Node(#[from] tally_node::NodeError),
    /// A node's store, opened beside the node.
    #[error("a node's database cannot be filled")]
    Store(#[from] tally_store::StoreError),
    /// A PostgreSQL server of one's own.
    #[error("there is no PostgreSQL server to measure on")]
    Server(#[from] tally_store::server::ServerError),
    /// The process of a node cannot be started.
    #[error("cannot start the node {node}")]
    Start {
        /// The node.
        node: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The process of a node ended before it was ready.
    #[error("the node {node} ended before it was ready; see {}", log.display())]
    Ended {
        /// The node.
        node: String,
        /// What it wrote.
        log: PathBuf,
    },
    /// The metrics of a node.
    #[error("cannot read the metrics of {node}: {reason}")]
    Metrics {
        /// The node.
        node: String,
        /// Why not.
        reason: String,
    },
    /// A call to a node.
    #[error("a call to a node failed")]
    Call(#[from] tally_rpc::ClientError),
    /// A schedule that is none.
    #[error("the load cannot be made")]
    Pace(#[from] crate::pace::PaceError),
    /// A measurement of processes.
    #[error("the processes cannot be watched")]
    Watch(#[from] WatchError),
    /// The use of this process.
    #[error("what this process uses cannot be read")]
    Process(#[from] ProcessError),
    /// The system does not give something.
    #[error("{what}")]
    System {
        /// What it was asked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Flows failed that were to end well: what was measured would be something else.
    #[error("{failed} of {all} flows failed, the first with: {first}")]
    Failed {
        /// How many.
        failed: u64,
        /// Of how many.
        all: u64,
        /// The first failure.
        first: String,
    },
    /// Something did not happen in time.
    #[error("waited {seconds} s for {what}")]
    Late {
        /// For what.
        what: String,
        /// How long.
        seconds: u64,
    },
    /// A result.
    #[error("a result cannot be kept")]
    Keep(#[from] crate::result::ResultError),
    /// What was measured contradicts what was done.
    #[error("{0}")]
    Unexpected(String),
}

impl FlowsError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
