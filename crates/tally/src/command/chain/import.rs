//! `tally chain import DIR FILE`

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use tally_chain::files::{self, Progress};

use crate::chain_node::open_chain;
use crate::command::{Ended, print};

/// Arguments of `tally chain import`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Import {
    /// Directory of the node, with its config.toml
    directory: PathBuf,
    /// Blocks as RLP, one after the other, as other clients export them
    file: PathBuf,
}

impl Import {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let chain = open_chain(&super::settings(&self.directory)?)?;
        let file = File::open(&self.file).with_context(|| format!("cannot open {}", self.file.display()))?;
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let start = Instant::now();
        let mut report = |progress: &Progress| tracing::info!(?progress, "importing");
        let progress = files::import(&chain, BufReader::with_capacity(1 << 20, file), threads, &mut report)
            .with_context(|| format!("importing {}", self.file.display()))?;
        let seconds = start.elapsed().as_secs_f64();
        print::line(&format!(
            "{} blocks, {} transactions, {} gas in {seconds:.1} s: {:.0} transactions/s, {:.1} Mgas/s; head {} {}",
            progress.blocks,
            progress.transactions,
            progress.gas,
            progress.transactions as f64 / seconds,
            progress.gas as f64 / seconds / 1e6,
            progress.head,
            chain.head().hash(),
        ));
        if progress.known > 0 {
            print::line(&format!("{} blocks were there already", progress.known));
        }
        Ok(Ended::Well)
    }
}
