//! `tally bench recovery`

use super::{Common, Ended, Report, settlement};
use std::time::Duration;
use tally_bench::limits::{Area, Limit};
use tally_bench::suite::Plan;
use tally_bench::workload::Mix;

/// Arguments of `tally bench recovery`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Recovery {
    #[command(flatten)]
    common: Common,
    /// Payments of the journal: signed by their payers
    #[arg(long)]
    signed: bool,
    /// Payments of the journal: between two institutions
    #[arg(long)]
    between: bool,
    /// For how long the journal is written
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    duration: Option<Duration>,
}

impl Recovery {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let mut plan = settlement::plan(&self.common);
        plan.duration = self.duration.unwrap_or(plan.duration);
        let mut report = Report::begin(&self.common)?;
        let bytes = (plan.accounts as usize * size_of::<tally_ledger::Account>()).max(1 << 20);
        let areas = [Area::Hash, Area::Sign, Area::Memory];
        let total = Duration::from_secs(if self.common.quick { 3 } else { 8 });
        let machine = report.limits(total, &areas, bytes)?;
        let mix = if self.between { Mix::Between } else { Mix::Inside };
        let payers = if self.signed { plan.payers } else { 0 };
        measure(&mut report, &plan, mix, payers, &machine.limits)?;
        report.end_with_page("recovery")
    }
}

/// Signed payments of a journal for each second that it is written.
const SIGNED_RATE: f64 = 200_000.0;

/// Writes a journal, reads it back, records and shows how fast.
pub(super) fn measure(
    report: &mut Report,
    plan: &Plan,
    mix: Mix,
    payers: u32,
    limits: &[Limit],
) -> anyhow::Result<()> {
    let mut run = plan.closed(plan.workload(mix, payers));
    if payers > 0 {
        run.prepared = (SIGNED_RATE * (plan.duration + plan.warm_up).as_secs_f64()) as usize;
    }
    report.note("recovery and audit");
    let measured = plan.recovery(&run, plan.runs.max(3))?;
    report.append(measured.iter().map(|one| one.record(&run.workload, limits)))?;
    report.say(tally_bench::report::recovery(&measured, &run.workload, limits));
    Ok(())
}
