//! `tally bench limits`

use super::{Common, Ended, Report, show, styled};
use std::time::Duration;
use tally_bench::limits::{Area, render};

/// Arguments of `tally bench limits`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Limits {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    joined: super::cluster::Joined,
    /// Memory that is copied and updated, in MiB; more than the cache
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: usize,
    /// Time for all measurements
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    duration: Option<Duration>,
}

impl Limits {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let mut report = Report::begin(&self.common)?;
        if self.joined.by_kafka() {
            super::cluster::limits(&mut report, &self.joined.broker()?, false)?;
            return Ok(report.end());
        }
        let usual = Duration::from_secs(if self.common.quick { 5 } else { 15 });
        let total = self.duration.unwrap_or(usual);
        let machine = report.limits(total, &Area::ALL, self.memory << 20)?;
        show(&render(&machine.limits, styled()));
        Ok(report.end())
    }
}
