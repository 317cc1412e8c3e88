//! `tally bench stages`

use super::{Common, Ended, Machine, Report};
use std::time::Duration;
use tally_bench::limits::Area;
use tally_bench::stages::{self, Measured, Options};
use tally_bench::workload::MAX_BANKS;

/// Arguments of `tally bench stages`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Stages {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    joined: super::cluster::Joined,
    /// Customers' accounts at each bank
    #[arg(long, value_name = "N")]
    accounts: Option<u32>,
    /// Payments of a batch
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// How often each stage is measured
    #[arg(long, value_name = "N")]
    repetitions: Option<usize>,
    /// How long each time
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    duration: Option<Duration>,
    /// With --log kafka: how many instances of each stage, one measurement after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4",
        value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_BANKS)))]
    instances: Vec<u16>,
}

impl Stages {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let fixed = "a stage takes what lies ready for it, and is timed until that is done";
        let split = "--instances says how many of each stage there are";
        self.joined.check(&[
            ("--duration", self.duration.is_some(), fixed),
            ("--schedulers", self.joined.is_split(), split),
        ])?;
        let mut options = options(&self.common);
        options.accounts = self.accounts.unwrap_or(options.accounts).max(2);
        options.batch = self.batch.unwrap_or(options.batch).clamp(1, tally_ledger::batch::MAX_BATCH);
        options.repetitions = self.repetitions.unwrap_or(options.repetitions).max(1);
        options.repetition = self.duration.unwrap_or(options.repetition);
        let mut report = Report::begin(&self.common)?;
        if self.joined.by_kafka() {
            let usual = if self.common.quick { 1 } else { super::cluster::REPETITIONS };
            options.repetitions = self.repetitions.unwrap_or(usual).max(1);
            super::cluster::stages(&mut report, &self.joined, &options, &self.instances)?;
            return report.end_with_page("each stage alone over Kafka");
        }
        let total = Duration::from_secs(if self.common.quick { 3 } else { 8 });
        let areas = [Area::Hash, Area::Sign, Area::Memory];
        let machine = report.limits(total, &areas, options.memory_bytes())?;
        measure(&mut report, &options, &machine)?;
        report.end_with_page("each stage alone")
    }
}

/// The usual options.
pub(super) fn options(common: &Common) -> Options {
    let usual = Options { seed: common.seed, ..Options::default() };
    if common.quick {
        Options { repetitions: 3, repetition: Duration::from_millis(250), payers: 10_000, ..usual }
    } else {
        usual
    }
}

/// Measures, records and shows every stage.
pub(super) fn measure(
    report: &mut Report,
    options: &Options,
    machine: &Machine,
) -> anyhow::Result<Vec<Measured>> {
    report.note("each stage alone");
    let measured = stages::run_each(options, |_| {});
    report.append(measured.iter().map(|one| one.record(options, &machine.limits)))?;
    report.say(tally_bench::report::stages(&measured, &machine.limits));
    Ok(measured)
}
