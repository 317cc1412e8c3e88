//! `tally node …`: making and running a node.

mod accept;
mod backup;
mod drain;
mod init;
mod parameters;
mod publish;
mod recover;
mod rotate;
mod run;

use super::Ended;
use crate::connection::ConnectionArguments;

/// The commands about one node's directory.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Node {
    /// Make a node's directory: keys, configuration, and the request for the network's identity manager
    Init(init::Init),
    /// Take the certificates that the identity manager issued, and make the node known to the network
    Accept(accept::Accept),
    /// Make a node known to the network, or its new address
    Publish(publish::Publish),
    /// Get back from peers and notaries what a node's database lacks after it was lost, restored or copied
    Recover(recover::Recover),
    /// Give a node's legal identity a new key; what it owns under the former one stays its own
    Rotate(rotate::Rotate),
    /// Run a node until SIGTERM
    Run(run::Run),
    /// Copy a node's database into one file, also while the node runs
    Backup(backup::Backup),
    /// Make a node's database from a backup of it, in an empty place
    Restore(backup::Restore),
    /// Begin no new flows, and finish those under way
    Drain(drain::Drain),
    /// Begin new flows again after a drain
    Resume(drain::Resume),
    /// Show the network's parameters and which of them are accepted, or accept some
    #[command(subcommand)]
    Parameters(parameters::Parameters),
}

impl Node {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        match self {
            Self::Init(command) => command.run(connection),
            Self::Accept(command) => command.run(connection),
            Self::Publish(command) => command.run(connection),
            Self::Recover(command) => command.run(),
            Self::Rotate(command) => command.run(connection),
            Self::Run(command) => command.run(),
            Self::Backup(command) => command.run(),
            Self::Restore(command) => command.run(),
            Self::Drain(command) => command.run(),
            Self::Resume(command) => command.run(),
            Self::Parameters(command) => command.run(),
        }
    }
}
