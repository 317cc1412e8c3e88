//! `tally bench limits`

use super::{Common, Ended, Report};
use std::time::Duration;
use tally_bench::limits::Area;

/// Arguments of `tally bench limits`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Limits {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    joined: super::cluster::Joined,
    /// Memory that is copied and updated, in MiB; more than the cache; 512 if not given
    #[arg(long, value_name = "MIB")]
    memory: Option<usize>,
    /// Time for all measurements
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    duration: Option<Duration>,
}

/// More than any cache.
const MEMORY_MIB: usize = 512;

impl Limits {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        self.joined.check(&[("--memory", self.memory.is_some(), "the broker is measured, not memory")])?;
        let mut report = Report::begin(&self.common)?;
        if self.joined.by_kafka() {
            let broker = self.joined.broker()?;
            super::cluster::limits(&mut report, &broker, super::cluster::Sizes::All, self.duration)?;
            return report.end_with_page("limits over Kafka");
        }
        let usual = Duration::from_secs(if self.common.quick { 5 } else { 15 });
        let total = self.duration.unwrap_or(usual);
        let machine = report.limits(total, &Area::ALL, self.memory.unwrap_or(MEMORY_MIB) << 20)?;
        report.say(tally_bench::report::limits(&machine.limits));
        report.end_with_page("limits")
    }
}
