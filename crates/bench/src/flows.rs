//! The flows ledger under load: nodes and a notary as processes of their own, with TLS and durable storage.
//!
//! | module | promise |
//! | --- | --- |
//! | [`network`] | a network made for a benchmark: directories, keys, processes, cores, databases |
//! | [`drive`] | flows in closed or open loop over the nodes' remote interface |
//! | [`meters`] | what nodes count and time: steps of flows, commits |
//! | [`work`] | the flows, as a client asks for them |
//! | [`plan`] | the experiments |
//! | [`outcome`] | what they found, and its record |
//! | [`suite`] | which of them are run, and how large |

pub mod drive;
mod error;
mod ledger;
pub mod meters;
pub mod network;
pub mod outcome;
pub mod plan;
pub mod suite;
pub mod work;

pub use error::FlowsError;

/// The experiment that runs are recorded under.
pub const EXPERIMENT: &str = "flows";

#[cfg(test)]
mod tests;
