//! `tally chain export DIR FILE`

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::Context;
use tally_chain::files;

use crate::chain_node::open_chain;
use crate::command::{Ended, print};

/// Arguments of `tally chain export`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Export {
    /// Directory of the node, with its config.toml
    directory: PathBuf,
    /// Where the blocks go, as RLP, one after the other; a file that is there is not overwritten
    file: PathBuf,
    /// The first block
    #[arg(long, default_value_t = 1)]
    start_block: u64,
    /// The last block; the newest when it is not given
    #[arg(long)]
    end_block: Option<u64>,
}

impl Export {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let chain = open_chain(&super::settings(&self.directory)?)?;
        let last = self.end_block.unwrap_or(u64::MAX).min(chain.head().number());
        let file =
            File::create_new(&self.file).with_context(|| format!("cannot create {}", self.file.display()))?;
        let count = files::export(&chain, self.start_block..=last, BufWriter::with_capacity(1 << 20, file))?;
        print::line(&format!("{count} blocks"));
        Ok(Ended::Well)
    }
}
