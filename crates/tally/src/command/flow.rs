//! `tally flow …`: flows of a node.

mod control;
mod list;
mod names;
mod show;
mod start;
mod undelivered;
pub(super) mod watch;

use super::Ended;

/// The commands about the flows of a node.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Flow {
    /// Start a flow and follow it to its end
    Start(start::Start),
    /// Follow a flow to its end
    Watch(watch::Watch),
    /// List flows, the newest first
    List(list::List),
    /// Show one flow
    Show(show::Show),
    /// Show which final transactions other parties have not confirmed, and which are not known to be final
    Undelivered(undelivered::List),
    /// Keep a flow from going on until it is retried
    Pause(control::Pause),
    /// Let a paused or held flow go on
    Retry(control::Retry),
    /// End a flow without completing it
    Kill(control::Kill),
    /// Show which flows the node can start, and their arguments
    Names(names::Names),
}

impl Flow {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        match self {
            Self::Start(command) => command.run(),
            Self::Watch(command) => command.run(),
            Self::List(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Undelivered(command) => command.run(),
            Self::Pause(command) => command.run(),
            Self::Retry(command) => command.run(),
            Self::Kill(command) => command.run(),
            Self::Names(command) => command.run(),
        }
    }
}
