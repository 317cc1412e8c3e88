//! `tally network keys DIR`

use super::{Ended, print};
use crate::configuration::Configuration;
use crate::layout::Layout;
use crate::stages::ClusterConfiguration;
use anyhow::Context;
use std::path::PathBuf;
use tally_proof::Keys;

/// Arguments of `tally network keys`.
#[derive(Debug, clap::Args)]
pub(super) struct PublicKeys {
    /// Directory of the network; only network.toml, genesis.toml and, for the number of witnesses
    /// that proofs need, cluster.toml are read
    directory: PathBuf,
    /// Where to write the keys; else they are printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl PublicKeys {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let keys = keys_of(&Layout::new(&self.directory))?;
        let text = toml::to_string(&keys)?;
        match &self.out {
            Some(path) => std::fs::write(path, text)
                .with_context(|| format!("cannot write the keys to {}", path.display()))?,
            None => print::line(text.trim_end()),
        }
        Ok(Ended::Well)
    }
}

/// The public keys of the network in a directory. They ask for as many witnesses as its cluster.toml requires, and for none where
/// it has no such file: a network in one process has no witnesses.
pub(super) fn keys_of(directory: &Layout) -> anyhow::Result<Keys> {
    let configuration = Configuration::read(directory, &[])?;
    let keys = Keys::of(&configuration.network()?).context("the network has no participants")?;
    if !directory.cluster().exists() {
        return Ok(keys);
    }
    let required = ClusterConfiguration::read(directory, &[])?.witnesses;
    let witnesses = required
        .checked(configuration.participants.len())
        .with_context(|| format!("{}", directory.cluster().display()))?;
    Ok(Keys { witnesses, ..keys })
}
