//! `tally network keys DIR`

use super::{Ended, print};
use crate::configuration::Configuration;
use crate::layout::Layout;
use anyhow::Context;
use std::path::PathBuf;
use tally_proof::Keys;

/// Arguments of `tally network keys`.
#[derive(Debug, clap::Args)]
pub(super) struct PublicKeys {
    /// Directory of the network; only network.toml and genesis.toml are read
    directory: PathBuf,
    /// Where to write the keys; else they are printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl PublicKeys {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let network = Configuration::read(&Layout::new(&self.directory), &[])?.network()?;
        let keys = Keys::of(&network).context("the network has no participants")?;
        let text = toml::to_string(&keys)?;
        match &self.out {
            Some(path) => std::fs::write(path, text)
                .with_context(|| format!("cannot write the keys to {}", path.display()))?,
            None => print::line(text.trim_end()),
        }
        Ok(Ended::Well)
    }
}
