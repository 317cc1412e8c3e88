//! `tally bench evm`

use super::{Common, Ended, Report};
use tally_bench::evm;
use tally_bench::report::evm as tables;

/// Arguments of `tally bench evm`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Evm {
    #[command(flatten)]
    common: Common,
    /// How many times each kind of code is run, in turn with bare revm
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
}

impl Evm {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let rounds = self.repeat.unwrap_or(if self.common.quick { 2 } else { 5 });
        let mut report = Report::begin(&self.common)?;
        let figures = evm::measure(rounds, |name| report.note(name))?;
        report.append(figures.iter().map(|figure| evm::record(figure, rounds)))?;
        report.say(tables::section(&figures));
        report.end_with_page("the EVM")
    }
}
