//! `tally flow pause|retry|kill NODE ID`

use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;

/// Arguments of `tally flow pause`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Pause {
    #[command(flatten)]
    node: NodeArguments,
    /// The flow
    id: String,
}

/// Arguments of `tally flow retry`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Retry {
    #[command(flatten)]
    node: NodeArguments,
    /// The flow
    id: String,
}

/// Arguments of `tally flow kill`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Kill {
    #[command(flatten)]
    node: NodeArguments,
    /// The flow
    id: String,
}

impl Pause {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        reached.wait(reached.client.pause_flow(&self.id))?;
        Ok(done("paused", &self.id))
    }
}

impl Retry {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        reached.wait(reached.client.retry_flow(&self.id))?;
        Ok(done("retried", &self.id))
    }
}

impl Kill {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        reached.wait(reached.client.kill_flow(&self.id))?;
        Ok(done("killed", &self.id))
    }
}

fn done(what: &str, flow: &str) -> Ended {
    print::line(&format!("{what} {flow}"));
    Ended::Well
}
