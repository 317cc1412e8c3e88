//! `tally chain devnet`

use std::path::PathBuf;

use anyhow::Context;
use tally_chain::setup;
use tally_ops::shutdown::Shutdown;

use super::init::{NetworkArguments, show};
use crate::chain_node::ChainNode;
use crate::command::{Ended, print};

/// Arguments of `tally chain devnet`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Devnet {
    /// Directory of the network, made if it is not there; without it the network is gone when it stops
    directory: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArguments,
    /// Stop as well when standard input ends: for a program that starts this one and may be killed
    #[arg(long)]
    until_input_ends: bool,
}

impl Devnet {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        let temporary = tempfile::Builder::new().prefix("tallystick-devnet").tempdir()?;
        let directory = self.directory.clone().unwrap_or_else(|| temporary.path().join("network"));
        if !directory.join("genesis.json").exists() {
            show(&setup::init(self.network.plan()?, &directory)?);
        }
        let mut homes: Vec<PathBuf> = std::fs::read_dir(&directory)
            .with_context(|| format!("cannot read {}", directory.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("config.toml").exists())
            .collect();
        homes.sort();
        let mut nodes = Vec::new();
        for home in &homes {
            let name = super::name(home);
            let started = super::settings(home).and_then(|settings| ChainNode::start(&settings, &name));
            match started {
                Ok(node) => {
                    print::line(&format!("ready {name}{}", node.addresses()));
                    nodes.push(node);
                }
                Err(error) => {
                    nodes.into_iter().for_each(ChainNode::stop);
                    return Err(error.context(format!("starting {name}")));
                }
            }
        }
        if self.until_input_ends {
            crate::command::stop_with_input(shutdown.clone())?;
        }
        shutdown.wait();
        nodes.into_iter().for_each(ChainNode::stop);
        print::line("stopped");
        Ok(Ended::Well)
    }
}
