//! Read-only requests over a chain with history: each method alone, and equal parts of all.
//!
//! | module | promise |
//! | --- | --- |
//! | [`method`] | the methods, their requests, and what an answer must look like |
//! | [`drive`] | requests in closed or in open loop over keep-alive connections |

pub mod drive;
pub mod method;
mod run;

use std::time::Duration;

pub use method::Method;
pub use run::run;

use super::history;
use super::network::Layout;
use super::outcome::Outcome;

/// What is asked for: one method, or equal parts of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mix {
    /// One method.
    Only(Method),
    /// Equal parts of all, drawn at random.
    Equal,
}

impl Mix {
    /// The methods.
    #[must_use]
    pub fn methods(&self) -> Vec<Method> {
        match self {
            Self::Only(method) => vec![*method],
            Self::Equal => Method::ALL.to_vec(),
        }
    }

    /// Its name: the method's, or `mix`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Only(method) => method.name(),
            Self::Equal => "mix",
        }
    }
}

impl std::str::FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mix" => Ok(Self::Equal),
            _ => text.parse().map(Self::Only),
        }
    }
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Each connection asks again as soon as it has its answer.
    Closed,
    /// So many a second, whatever the node does.
    Open(u64),
}

/// Reads of one node.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The network: one node of it runs, and no validator, so that the chain stands still.
    pub layout: Layout,
    /// What the chain holds.
    pub history: history::Plan,
    /// What is measured, one after the other.
    pub runs: Vec<(Mix, Load)>,
    /// Connections to the node.
    pub connections: usize,
    /// How long requests come before they are measured.
    pub warm_up: Duration,
    /// How long each run is measured.
    pub duration: Duration,
    /// Different requests of each method.
    pub requests: usize,
    /// Makes the same requests again.
    pub seed: u64,
}

/// Is told how a suite of runs is getting on.
pub trait Observer {
    /// Something begins.
    fn begins(&mut self, what: &str);

    /// Something has ended.
    ///
    /// # Errors
    /// What keeping it failed with.
    fn ended(&mut self, outcome: &Outcome) -> Result<(), super::ChainBenchError>;
}

#[cfg(test)]
mod tests;
