//! `tally rpc …`: what else a node's interface offers.

mod attachment;
mod info;
mod map;
mod password;

use super::Ended;

/// The commands about a node itself, its network map, attachments and passwords.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Rpc {
    /// Show who the node is and how it does
    Info(info::Info),
    /// Show the network as the node knows it
    Map(map::Map),
    /// Store an attachment; prints its id
    Upload(attachment::Upload),
    /// Write an attachment to a file
    Download(attachment::Download),
    /// Print the hash of a password for users.toml
    HashPassword(password::HashPassword),
}

impl Rpc {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        match self {
            Self::Info(command) => command.run(),
            Self::Map(command) => command.run(),
            Self::Upload(command) => command.run(),
            Self::Download(command) => command.run(),
            Self::HashPassword(command) => command.run(),
        }
    }
}
