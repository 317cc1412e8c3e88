//! Why a chain could not be measured.

use std::io;
use std::path::PathBuf;

use super::http::HttpError;
use crate::processes::WatchError;

/// Why a measurement of a chain failed.
#[derive(Debug, thiserror::Error)]
pub enum ChainBenchError {
    /// A file or directory.
    #[error("cannot make or read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The system does not give something.
    #[error("{what}")]
    System {
        /// What it was asked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The options contradict each other.
    #[error("{0}")]
    Plan(String),
    /// The network's files.
    #[error("cannot make the network's files")]
    Init(#[from] tally_chain::setup::InitError),
    /// A node's key.
    #[error("cannot read a node's key")]
    Key(#[from] tally_peers::KeyError),
    /// The genesis file of the network.
    #[error("the genesis file {} cannot be used: {reason}", path.display())]
    Genesis {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The process of a node cannot be started.
    #[error("cannot start {node}")]
    Start {
        /// The node.
        node: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A process ended before it had done what it was started for.
    #[error("{node} ended ({status}); see {}", log.display())]
    Ended {
        /// The node, or what the process did.
        node: String,
        /// How.
        status: String,
        /// What it wrote.
        log: PathBuf,
    },
    /// A request over HTTP failed.
    #[error("a call of {node} failed")]
    Call {
        /// The node.
        node: String,
        /// Why.
        #[source]
        source: HttpError,
    },
    /// A node answered something else than what was asked for.
    #[error("{method} was answered with {answer}")]
    Answer {
        /// What was asked.
        method: String,
        /// The beginning of the answer.
        answer: String,
    },
    /// The chain that is read from or imported cannot be built.
    #[error("cannot build the chain: {reason}")]
    Build {
        /// What failed.
        reason: String,
    },
    /// Something did not happen in time.
    #[error("waited {seconds} s for {what}")]
    Late {
        /// For what.
        what: String,
        /// How long.
        seconds: u64,
    },
    /// A measurement of processes.
    #[error("the processes cannot be watched")]
    Watch(#[from] WatchError),
    /// A result.
    #[error("a result cannot be kept")]
    Keep(#[from] crate::result::ResultError),
    /// Somebody asked to stop.
    #[error("stopped before the end, as was asked")]
    Stopped,
}

impl ChainBenchError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    pub(crate) fn call(node: &str) -> impl FnOnce(HttpError) -> Self {
        move |source| Self::Call { node: node.to_owned(), source }
    }

    pub(crate) fn build(what: &'static str) -> impl FnOnce(&dyn std::error::Error) -> Self {
        move |error| Self::Build { reason: format!("{what}: {}", chain_of(error)) }
    }

    /// An answer that is none, cut to what a person reads.
    pub(crate) fn answer(method: &str, answer: &[u8]) -> Self {
        const SHOWN: usize = 300;
        let shown = &answer[..answer.len().min(SHOWN)];
        Self::Answer { method: method.to_owned(), answer: String::from_utf8_lossy(shown).into_owned() }
    }
}

/// An error with its causes, as one line.
fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
