//! `tally chain …`: an EVM chain, its nodes and its blocks.

mod devnet;
mod export;
mod import;
mod init;
mod options;
mod run;

use std::path::Path;

use anyhow::Context;
use tally_chain::setup::Settings;

use super::Ended;

/// The commands about a chain.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Chain {
    /// Make a network: genesis file, and for each node its keys, peers and configuration
    Init(init::Init),
    /// Run one node until SIGTERM
    Run(run::Run),
    /// Run a whole network in one process, for development
    Devnet(devnet::Devnet),
    /// Import a file of blocks into a node that does not run
    Import(import::Import),
    /// Write blocks of a node that does not run to a file
    Export(export::Export),
}

impl Chain {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        match self {
            Self::Init(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Devnet(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Export(command) => command.run(),
        }
    }

    /// The level of log lines that a node's configuration asks for.
    pub(super) fn log_filter(&self) -> Option<String> {
        match self {
            Self::Run(command) => command.log_filter(),
            _ => None,
        }
    }
}

/// The settings of a node's directory.
fn settings(directory: &Path) -> anyhow::Result<Settings> {
    let file = directory.join("config.toml");
    Settings::read(&file).with_context(|| format!("the node in {}", directory.display()))
}

/// What a node's directory is called.
fn name(directory: &Path) -> String {
    let absolute = std::fs::canonicalize(directory);
    let path = absolute.as_deref().unwrap_or(directory);
    path.file_name().map_or_else(|| "node".into(), |name| name.to_string_lossy().into_owned())
}
