//! `tally bench gateway`

use super::{Common, Ended, Report};
use std::time::Duration;
use tally_bench::gateway::{JSON_RATE, Plan, run};
use tally_bench::report;

/// Arguments of `tally bench gateway`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Gateway {
    #[command(flatten)]
    common: Common,
    /// Single payments a second in open loop, whatever the gateway does
    #[arg(long, value_name = "TX/S", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// Connections over HTTP
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1000))]
    connections: u64,
    /// Payments a second in open loop that are prepared and submitted as JSON
    #[arg(long, value_name = "TX/S", default_value_t = JSON_RATE, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    json_rate: u64,
    /// How long those are made: 30s if not given, 10 minutes with --full
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    json_duration: Option<Duration>,
    /// Connections for those
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1000))]
    json_connections: u64,
    /// Payments as JSON for ten minutes
    #[arg(long)]
    full: bool,
    /// Payments of one batch of the stream
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    batch: u64,
    /// Distinct payers
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    payers: u32,
    /// About how long each part is measured, such as 5s
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    duration: Option<Duration>,
    /// How often each part is repeated; medians are shown
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    runs: Option<u64>,
}

/// Payments as JSON with `--full`.
const FULL: Duration = Duration::from_secs(600);

impl Gateway {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let quick = self.common.quick;
        let json = match (self.full, quick) {
            (true, _) => FULL,
            (false, true) => Duration::from_secs(2),
            (false, false) => Duration::from_secs(30),
        };
        let plan = Plan {
            directory: self.common.out.clone(),
            duration: self.duration.unwrap_or(Duration::from_secs(if quick { 2 } else { 5 })),
            batch: usize::try_from(self.batch)?,
            connections: usize::try_from(self.connections)?,
            rate: self.rate,
            json_rate: self.json_rate,
            json_duration: self.json_duration.unwrap_or(json),
            json_connections: usize::try_from(self.json_connections)?,
            payers: self.payers,
            runs: usize::try_from(self.runs.unwrap_or(if quick { 1 } else { 3 }))?,
            seed: self.common.seed,
        };
        let mut report = Report::begin(&self.common)?;
        let measured = run(&plan, |what| report.note(what))?;
        report.append(measured.iter().map(|one| one.record(&plan)))?;
        report.say(report::gateway::section(&measured));
        report.end_with_page("the gateway")
    }
}
