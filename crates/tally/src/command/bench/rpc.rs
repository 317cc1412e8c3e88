//! `tally bench rpc`

use super::{Common, Ended, Report, chain};
use anyhow::Context as _;
use std::time::Duration;
use tally_bench::chain::network::Consensus;
use tally_bench::chain::outcome::Outcome;
use tally_bench::chain::reads::{Load, Method, Mix, Observer, Plan, run};
use tally_bench::chain::{ChainBenchError, history};
use tally_ops::shutdown::Shutdown;

/// Arguments of `tally bench rpc`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Rpc {
    #[command(flatten)]
    common: Common,
    /// Only these: mix (equal parts of all), or a method's name, with or without eth_
    methods: Vec<Mix>,
    /// Connections to the node
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1000))]
    connections: u64,
    /// The mix in open loop as well: requests a second, whatever the node does; several, separated by commas
    #[arg(long, value_name = "REQ/S", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    rate: Vec<u64>,
    #[command(flatten)]
    history: History,
    /// Different requests of each method
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    requests: u64,
    /// How long each method is measured, such as 5s
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    duration: Option<Duration>,
    /// How long requests come before they are measured
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = super::duration)]
    warm_up: Duration,
}

/// What the chain holds that is built for a measurement.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct History {
    /// Blocks of the chain; 300, with --quick 60
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    blocks: Option<u64>,
    /// Calls in each block
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    calls: u64,
    /// Accounts that have called
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    accounts: u64,
}

impl History {
    pub(super) fn plan(&self, common: &Common) -> history::Plan {
        let usual = if common.quick { 60 } else { 300 };
        history::Plan {
            blocks: self.blocks.unwrap_or(usual),
            calls: self.calls,
            accounts: self.accounts,
            seed: common.seed,
        }
    }
}

/// Shows and keeps what has ended.
pub(super) struct Kept<'r>(pub(super) &'r mut Report);

impl Observer for Kept<'_> {
    fn begins(&mut self, what: &str) {
        self.0.note(what);
    }

    fn ended(&mut self, outcome: &Outcome) -> Result<(), ChainBenchError> {
        Ok(self.0.writer.append(&outcome.record())?)
    }
}

impl Rpc {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let stop = Shutdown::install()?;
        let methods = if self.methods.is_empty() {
            Method::ALL.into_iter().map(Mix::Only).chain([Mix::Equal]).collect()
        } else {
            self.methods.clone()
        };
        let closed = methods.into_iter().map(|mix| (mix, Load::Closed));
        let open = self.rate.iter().map(|rate| (Mix::Equal, Load::Open(*rate)));
        let usual = Duration::from_secs(if self.common.quick { 2 } else { 8 });
        let plan = Plan {
            layout: chain::layout(&self.common, Consensus::Qbft, &stop)?,
            history: self.history.plan(&self.common),
            runs: closed.chain(open).collect(),
            connections: usize::try_from(self.connections)?,
            warm_up: self.warm_up,
            duration: self.duration.unwrap_or(usual),
            requests: usize::try_from(self.requests)?,
            seed: self.common.seed,
        };
        let mut report = Report::begin(&self.common)?;
        let outcomes = run(&plan, &mut Kept(&mut report)).context("reading from a node")?;
        chain::finish(report, &outcomes)
    }
}
