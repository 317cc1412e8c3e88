//! `tally bench all`

use super::{Common, Ended, Report, settlement, stages};
use std::time::Duration;
use tally_bench::limits::Area;

/// Arguments of `tally bench all`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct All {
    #[command(flatten)]
    common: Common,
    /// More experiments; see `tally bench settlement --full`
    #[arg(long)]
    full: bool,
}

impl All {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let mut report = Report::begin(&self.common)?;
        let options = stages::options(&self.common);
        let total = Duration::from_secs(if self.common.quick { 5 } else { 15 });
        let machine = report.limits(total, &Area::ALL, options.memory_bytes())?;
        report.say(tally_bench::report::limits(&machine.limits));
        let measured = stages::measure(&mut report, &options, &machine)?;
        settlement::list(&mut report, &settlement::plan(&self.common), &machine, &measured, self.full)?;
        report.end_with_page("limits, stages, the whole network and recovery")
    }
}
