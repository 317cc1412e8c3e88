//! `tally vault …`: what a node holds.

mod filter;
mod query;
mod track;
mod transaction;

use super::Ended;

/// The commands about a node's vault.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Vault {
    /// Show states
    Query(query::Query),
    /// Show states, and every later change
    Track(track::Track),
    /// Show a recorded transaction
    Transaction(transaction::Transaction),
}

impl Vault {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        match self {
            Self::Query(command) => command.run(),
            Self::Track(command) => command.run(),
            Self::Transaction(command) => command.run(),
        }
    }
}
