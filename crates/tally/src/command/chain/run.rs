//! `tally chain run DIR`

use std::path::PathBuf;

use tally_ops::shutdown::Shutdown;

use crate::chain_node::ChainNode;
use crate::command::{Ended, print};

/// Arguments of `tally chain run`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Run {
    /// Directory of the node, with its config.toml
    directory: PathBuf,
    /// Stop as well when standard input ends: for a program that starts this one and may be killed
    #[arg(long)]
    until_input_ends: bool,
}

impl Run {
    pub(super) fn configuration(&self) -> PathBuf {
        self.directory.join("config.toml")
    }

    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        let settings = super::settings(&self.directory)?;
        let name = super::name(&self.directory);
        let node = ChainNode::start(&settings, &name)?;
        print::line(&format!(
            "ready {name}{} block={}",
            node.addresses(),
            node.node().chain().head().number()
        ));
        if self.until_input_ends {
            crate::command::stop_with_input(shutdown.clone())?;
        }
        shutdown.wait();
        node.stop();
        print::line("stopped");
        Ok(Ended::Well)
    }
}
