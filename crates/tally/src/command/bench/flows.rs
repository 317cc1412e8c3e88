//! `tally bench flows`

use super::{Common, Ended, Report, print, show, styled};
use std::time::Duration;
use tally_bench::flows::FlowsError;
use tally_bench::flows::network::{Database, Launcher, Layout, NotaryLayout};
use tally_bench::flows::outcome::{Ceiling, Outcome};
use tally_bench::flows::plan::Plan;
use tally_bench::flows::suite::{self, Observer, Part, Sizes};
use tally_bench::limits::{ALL_CORES, Area, Limit, PAY, PAY_CLUSTER};
use tally_bench::report::flows as tables;
use tally_bench::result::Commit;
use tally_bench::table;
use tally_ops::process;

/// Arguments of `tally bench flows`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Flows {
    #[command(flatten)]
    common: Common,
    /// Only these: load, latency, start, waiting, history, vault, iou, in-flight, outputs, cores, threads, database, memory
    parts: Vec<Part>,
    /// All of them, with more points and for a longer time
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Flows under way in closed loop
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    in_flight: u64,
    /// Connections of the driver
    #[arg(long, value_name = "N", default_value_t = 2)]
    connections: usize,
    /// Coins of a payment
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    outputs: u32,
    /// A notary that sees and verifies whole transactions
    #[arg(long)]
    validating: bool,
    /// A notary of four nodes that are shown hashes and agree, of which one may fail or lie
    #[arg(long, conflicts_with = "validating")]
    cluster: bool,
    /// Threads of each node that run flows; as many as fit the machine if not given
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    flow_threads: usize,
    /// Threads of each node for network and RPC; as many as fit the machine if not given
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    rpc_threads: usize,
    /// Run everything, the driver too, on the first so many cores
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    /// PostgreSQL instead of SQLite: how to connect, as libpq writes it; a server is started for it if nothing is given
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    postgres: Option<String>,
    /// How long issue and pay are measured, such as 10s
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    duration: Option<Duration>,
    /// How long each load runs before it is measured
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    warm_up: Option<Duration>,
    /// Flows that wait
    #[arg(long, value_name = "N")]
    waiting: Option<u64>,
    /// Transactions of the long history
    #[arg(long, value_name = "N")]
    depth: Option<u64>,
    /// States of the large vault
    #[arg(long, value_name = "N")]
    states: Option<u64>,
    /// Payments before memory is looked at
    #[arg(long, value_name = "N")]
    payments: Option<u64>,
}

/// Shows and keeps what has ended.
struct Kept<'r>(&'r mut Report);

impl Observer for Kept<'_> {
    fn begins(&mut self, what: &str) {
        self.0.note(what);
    }

    fn ended(&mut self, outcome: &Outcome) -> Result<(), FlowsError> {
        Ok(self.0.writer.append(&outcome.record())?)
    }
}

impl Flows {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let mut plan = self.plan()?;
        let sizes = self.sizes();
        let parts = if self.parts.is_empty() { Part::ALL.to_vec() } else { self.parts.clone() };
        let mut report = Report::begin(&self.common)?;
        if parts.iter().any(|part| {
            !matches!(part, Part::Iou | Part::Start | Part::Waiting | Part::History | Part::Vault)
        }) {
            let total = Duration::from_secs(3);
            let machine = report.limits(total, &[Area::Pay], 1 << 20)?;
            report.say(tally_bench::report::limits(&machine.limits));
            plan.pay_limits = ceilings(&machine.limits);
        }
        let findings = suite::run(&plan, &sizes, &parts, &mut Kept(&mut report))?;
        show(&tables::text(&findings, styled()));
        print::line("");
        report.write(|| tables::page(&findings, self.facts(&plan)))?;
        report.end()
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let database = match self.postgres.as_deref() {
            None => Database::Sqlite,
            Some("") => Database::start_server()?,
            Some(url) => Database::Postgres(url.to_owned()),
        };
        Ok(Plan {
            layout: Layout {
                parties: vec!["PartyA", "PartyB"],
                notary: self.notary(),
                flow_threads: self.flow_threads,
                rpc_threads: self.rpc_threads,
                database,
                directory: std::path::absolute(self.common.networks())?,
                launcher: Launcher::this_program()?,
            },
            in_flight: self.in_flight,
            connections: self.connections.max(1),
            warm_up: Duration::ZERO,
            duration: Duration::ZERO,
            outputs: self.outputs,
            cores: self.cores,
            pay_limits: Vec::new(),
        })
    }

    fn notary(&self) -> NotaryLayout {
        match (self.validating, self.cluster) {
            (true, _) => NotaryLayout::Validating,
            (false, true) => NotaryLayout::Clustered,
            (false, false) => NotaryLayout::NonValidating,
        }
    }

    fn sizes(&self) -> Sizes {
        let mut sizes = match (self.common.quick, self.full) {
            (true, _) => Sizes::quick(),
            (false, true) => Sizes::full(),
            (false, false) => Sizes::usual(),
        };
        sizes.warm_up = self.warm_up.unwrap_or(sizes.warm_up);
        if let Some(duration) = self.duration {
            sizes.point = duration.min(sizes.point);
            sizes.duration = duration;
        }
        sizes.waiting = self.waiting.unwrap_or(sizes.waiting);
        sizes.depth = self.depth.unwrap_or(sizes.depth);
        sizes.states = self.states.unwrap_or(sizes.states);
        sizes.payments = self.payments.unwrap_or(sizes.payments);
        sizes
    }

    /// Where and how it was measured, for the page.
    fn facts(&self, plan: &Plan) -> Vec<(String, String)> {
        let (machine, commit) = (process::machine(), Commit::of_this_build());
        let dirty = if commit.dirty == Some(true) { ", with changes" } else { "" };
        let bytes = machine.memory_bytes.map_or("unknown".to_owned(), |bytes| table::bytes(bytes as f64));
        let facts = [
            ("processor", format!("{}, {} cores", machine.cpu_model, machine.cores)),
            ("memory", bytes),
            ("kernel", machine.kernel),
            ("source", format!("{}{dirty}", commit.revision.as_deref().unwrap_or("unknown"))),
            ("database", plan.layout.database.name().to_owned()),
            ("under way", plan.in_flight.to_string()),
            ("connections", plan.connections.to_string()),
        ];
        facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

/// The limit of payments on one core, and on all.
fn ceilings(limits: &[Limit]) -> Vec<(usize, Ceiling)> {
    let is_of_pay = |name: &str| [PAY, PAY_CLUSTER].contains(&name.trim_end_matches(ALL_CORES));
    let of_pay = limits.iter().filter(|limit| is_of_pay(&limit.name));
    let mut ceilings: Vec<(usize, Ceiling)> =
        of_pay.map(|limit| (limit.cores, Ceiling { name: limit.name.clone(), rate: limit.value })).collect();
    // Where there is one core, both are of it.
    ceilings.dedup_by(|(cores, next), (of, last)| {
        cores == of && next.name.trim_end_matches(ALL_CORES) == last.name.trim_end_matches(ALL_CORES)
    });
    ceilings
}
