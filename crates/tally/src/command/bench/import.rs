//! `tally bench import`

use super::rpc::{History, Kept};
use super::{Common, Ended, Report, chain};
use anyhow::Context as _;
use tally_bench::chain::imports::{Mode, Plan, run};
use tally_bench::chain::network::Consensus;
use tally_ops::shutdown::Shutdown;

/// Arguments of `tally bench import`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Import {
    #[command(flatten)]
    common: Common,
    /// Only these: file (tally chain import), full (from a peer, every block executed), fast (from a peer, the newest state with
    /// its proof); all that the chain is long enough for where none is given
    modes: Vec<Mode>,
    /// What validators agree by: qbft or ibft2
    #[arg(long, value_name = "PROTOCOL", default_value = "qbft")]
    consensus: Consensus,
    #[command(flatten)]
    history: History,
}

impl Import {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let stop = Shutdown::install()?;
        let history = self.history.plan(&self.common);
        let possible = || Mode::ALL.into_iter().filter(|mode| mode.takes(history.head())).collect();
        let plan = Plan {
            layout: chain::layout(&self.common, self.consensus, &stop)?,
            history,
            modes: if self.modes.is_empty() { possible() } else { self.modes.clone() },
        };
        let mut report = Report::begin(&self.common)?;
        let outcomes = run(&plan, &mut Kept(&mut report)).context("a chain into an empty node")?;
        chain::finish(report, &outcomes)
    }
}
