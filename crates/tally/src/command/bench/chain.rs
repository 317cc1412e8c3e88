//! `tally bench chain`

use super::{Common, Ended, Report, show, styled};
use anyhow::ensure;
use std::time::Duration;
use tally_bench::chain::calls::{Plan, run};
use tally_bench::chain::network::{Consensus, GAS_LIMIT, Layout, Program};
use tally_bench::chain::outcome::Outcome;
use tally_bench::report::chain as tables;
use tally_bench::result::Commit;
use tally_bench::table;
use tally_ops::process;
use tally_ops::shutdown::Shutdown;

/// Arguments of `tally bench chain`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Chain {
    #[command(flatten)]
    common: Common,
    /// Transactions a second, whatever the network does with them; several, separated by commas, for a run of each
    #[arg(long, value_name = "TX/S", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    rate: Vec<u64>,
    /// From block to block, such as 2s or 250ms
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = super::duration)]
    period: Duration,
    /// What validators agree by: qbft or ibft2
    #[arg(long, value_name = "PROTOCOL", default_value = "qbft")]
    consensus: Consensus,
    /// Validators; one node more follows them and takes the calls
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    validators: u64,
    /// Gas limit of a block
    #[arg(long, value_name = "GAS", default_value_t = GAS_LIMIT)]
    gas_limit: u64,
    /// Accounts that send, one after the other
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    accounts: u64,
    /// Connections to the node that takes the calls
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1000))]
    connections: u64,
    /// How long each rate is measured, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    duration: Option<Duration>,
    /// How long each rate is sent before it is measured; five block periods if not given
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    warm_up: Option<Duration>,
    /// How long blocks are waited for after the last transaction was sent, while they bring none
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = super::duration)]
    patience: Duration,
}

impl Chain {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let stop = Shutdown::install()?;
        let layout = Layout { period: self.period, ..layout(&self.common, self.consensus, &stop)? };
        let layout =
            Layout { validators: usize::try_from(self.validators)?, gas_limit: self.gas_limit, ..layout };
        let (rates, duration): (&[u64], _) =
            if self.common.quick { (&[500, 1000], 16) } else { (&[500, 1000, 2000], 60) };
        let rates = if self.rate.is_empty() { rates.to_vec() } else { self.rate.clone() };
        let mut report = Report::begin(&self.common)?;
        let mut outcomes = Vec::with_capacity(rates.len());
        for rate_tps in rates {
            report.note(&format!("{rate_tps} calls a second"));
            let plan = Plan {
                layout: layout.clone(),
                rate_tps,
                warm_up: self.warm_up.unwrap_or(self.period * 5),
                duration: self.duration.unwrap_or(Duration::from_secs(duration)),
                patience: self.patience,
                accounts: self.accounts,
                connections: usize::try_from(self.connections)?,
                seed: self.common.seed,
            };
            let outcome = run(&plan, self.common.shows_progress())?;
            report.append([outcome.record()])?;
            outcomes.push(outcome);
        }
        let lost: f64 =
            outcomes.iter().filter_map(|outcome| outcome.fact("lost")).map(|fact| fact.value).sum();
        let ended = finish(report, &outcomes)?;
        ensure!(lost == 0.0, "{lost} transactions were accepted and lost");
        Ok(ended)
    }
}

/// A network of four validators and a follower with blocks every two seconds, nodes being run by this program.
pub(super) fn layout(common: &Common, consensus: Consensus, stop: &Shutdown) -> anyhow::Result<Layout> {
    Ok(Layout {
        validators: 4,
        followers: 1,
        consensus,
        period: Duration::from_secs(2),
        gas_limit: GAS_LIMIT,
        timestamp: 0,
        connections: 80,
        directory: std::path::absolute(common.networks())?,
        program: Program::this()?,
        stop: stop.clone(),
    })
}

/// Shows what was found, and says where it lies.
pub(super) fn finish(report: Report, outcomes: &[Outcome]) -> anyhow::Result<Ended> {
    show(&tables::text(outcomes, styled()));
    super::print::line("");
    report.write(|| tables::page(outcomes, about()))?;
    report.end()
}

/// Where it was measured, and of which source.
pub(super) fn about() -> Vec<(String, String)> {
    let (machine, commit) = (process::machine(), Commit::of_this_build());
    let dirty = if commit.dirty == Some(true) { ", with changes" } else { "" };
    let bytes = machine.memory_bytes.map_or("unknown".to_owned(), |bytes| table::bytes(bytes as f64));
    let facts = [
        ("processor", format!("{}, {} cores", machine.cpu_model, machine.cores)),
        ("memory", bytes),
        ("kernel", machine.kernel),
        ("source", format!("{}{dirty}", commit.revision.as_deref().unwrap_or("unknown"))),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
}
