//! An EVM chain under load: validators and nodes as processes of their own, driven over JSON-RPC as any client drives them.
//!
//! | module | promise |
//! | --- | --- |
//! | [`registry`] | the contract that is called, and accounts that sign calls of it |
//! | [`http`] | JSON-RPC over HTTP/1.1 with as little processor time as that takes |
//! | [`network`] | a network made for a benchmark: directories, keys, processes |
//! | [`calls`] | transactions in open loop: committed a second, latency, block times |
//! | [`history`] | a chain with history, built without waiting for validators |
//! | [`reads`] | read-only requests, each method alone and all mixed |
//! | [`imports`] | a chain into an empty node: from a file, from a peer |
//! | [`outcome`] | what was found, and its record |

pub mod calls;
mod error;
pub mod history;
pub mod http;
pub mod imports;
pub mod network;
pub mod outcome;
pub mod reads;
pub mod registry;

pub use error::ChainBenchError;

/// What this process is called among those that are watched.
pub const GENERATOR: &str = "generator";

/// The experiment that runs are recorded under.
pub const EXPERIMENT: &str = "chain";
