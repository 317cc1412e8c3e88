//! `tally chain devnet`

use std::path::{Path, PathBuf};

use alloy_primitives::hex;
use anyhow::Context;
use tally_chain::setup::{self, MNEMONIC_PATH, Mnemonic};
use tally_ops::shutdown::Shutdown;
use tally_peers::NodeKey;

use super::init::{NetworkArguments, show};
use crate::chain_node::ChainNode;
use crate::command::{Ended, print};

/// Accounts with money, as development networks of other tools have.
const ACCOUNTS: usize = 10;

/// Arguments of `tally chain devnet`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Devnet {
    /// Directory of the network, made if it is not there; without it the network is gone when it stops
    directory: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArguments,
    /// Phrase (BIP-39) of the accounts that have money; without it the one that development networks of other tools have,
    /// whose keys everybody knows
    #[arg(long, value_name = "WORDS")]
    mnemonic: Option<Mnemonic>,
    /// Stop as well when standard input ends: for a program that starts this one and may be killed
    #[arg(long)]
    until_input_ends: bool,
}

impl Devnet {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        let temporary = tempfile::Builder::new().prefix("tallystick-devnet").tempdir()?;
        let directory = self.directory.clone().unwrap_or_else(|| temporary.path().join("network"));
        if directory.join("genesis.json").exists() {
            anyhow::ensure!(
                self.mnemonic.is_none(),
                "{} has its accounts already: leave --mnemonic out, or name another directory",
                directory.display()
            );
        } else {
            let mut plan = self.network.plan()?;
            plan.accounts = self.network.accounts.unwrap_or(ACCOUNTS);
            plan.mnemonic = Some(self.mnemonic.clone().unwrap_or_else(Mnemonic::of_developers));
            show(&setup::init(plan, &directory)?);
        }
        show_keys(&directory)?;
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

/// Says whose money it is: the keys and the phrase, if the accounts were derived from one. They are of a network for trials.
fn show_keys(directory: &Path) -> anyhow::Result<()> {
    let file = setup::mnemonic_file(directory);
    if !file.exists() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mnemonic: Mnemonic = text.parse().with_context(|| format!("{} has no mnemonic", file.display()))?;
    let keystore = file.parent().unwrap_or(directory);
    // Some of these files are no key stores, or of other accounts.
    let most = std::fs::read_dir(keystore).with_context(|| format!("cannot read {}", keystore.display()))?;
    let keys = mnemonic.keys(most.count())?;
    let has_money = |key: &NodeKey| setup::account_file(directory, key.address()).exists();
    for (number, key) in keys.iter().enumerate().filter(|(_, key)| has_money(key)) {
        let secret = hex::encode(key.secret_bytes().as_slice());
        print::line(&format!("key {number} {} 0x{secret}", key.address()));
    }
    print::line(&format!("mnemonic {} at {MNEMONIC_PATH}0 and on", mnemonic.phrase()));
    print::line("these keys are for trials: use them on no network whose money is worth anything");
    Ok(())
}
