//! `tally bench settlement`

use super::{Common, Ended, Machine, Report, recovery, show};
use anyhow::{Context, ensure};
use std::process::{Command, Stdio};
use std::time::Duration;
use tally_bench::ceiling::Ceiling;
use tally_bench::limits::Area;
use tally_bench::report as tables;
use tally_bench::settlement::Load;
use tally_bench::stages::Measured;
use tally_bench::suite::{Outcome, Plan, ceilings, verified};
use tally_bench::workload::Mix;

/// Arguments of `tally bench settlement`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Settlement {
    #[command(flatten)]
    common: Common,
    /// One experiment: payments inside an institution, between two, or so many of 100 between
    #[arg(long, value_name = "inside|between|mixed:N", value_parser = mix)]
    mix: Option<Mix>,
    /// One experiment: each payment signed by its payer, and verified
    #[arg(long)]
    signed: bool,
    /// One experiment in open loop: payments a second, whatever the network does
    #[arg(long, value_name = "TX/S", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Distinct payers of signed payments
    #[arg(long, value_name = "N")]
    payers: Option<u32>,
    /// Customers' accounts at each of the two banks
    #[arg(long, value_name = "N")]
    accounts: Option<u32>,
    /// Batches under way at each scheduler in closed loop
    #[arg(long, value_name = "N")]
    window: Option<usize>,
    /// Payments of a batch
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// How long each run is measured, such as 10s
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    duration: Option<Duration>,
    /// How long each run lasts before it is measured
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    warm_up: Option<Duration>,
    /// How often each experiment is repeated; medians are shown
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// The memory that so many accounts take, and nothing else
    #[arg(long, value_name = "ACCOUNTS", num_args = 0..=1, default_missing_value = "10000000")]
    memory: Option<u32>,
    #[command(flatten)]
    joined: super::cluster::Joined,
    /// More experiments: signed and latency for payments between institutions, a mix, the memory of 10 million accounts
    #[arg(long)]
    full: bool,
}

fn mix(text: &str) -> Result<Mix, String> {
    match (text, text.strip_prefix("mixed:").map(str::parse)) {
        ("inside", _) => Ok(Mix::Inside),
        ("between", _) => Ok(Mix::Between),
        (_, Some(Ok(share @ 0..=100))) => Ok(Mix::Mixed(share)),
        _ => Err("inside, between, or mixed:N with N of 0 to 100".to_owned()),
    }
}

/// Batches under way at each scheduler in closed loop over Kafka.
const KAFKA_WINDOW: usize = 16;

/// Signed payments are prepared beforehand for so many a second at most; a run ends when there are no more.
const KAFKA_SIGNED: f64 = 300_000.0;

/// How many accounts the memory is to be bounded for.
const MEMORY_ACCOUNTS: u32 = 10_000_000;

impl Settlement {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        self.joined.check(&[
            ("--memory", self.memory.is_some(), "the memory of one process is measured with files"),
            ("--full", self.full, "one experiment at a time: try --mix, --rate and --signed"),
        ])?;
        let mut plan = plan(&self.common);
        plan.accounts = self.accounts.unwrap_or(plan.accounts).max(2);
        plan.payers = self.payers.unwrap_or(plan.payers).max(1);
        plan.window = self.window.unwrap_or(plan.window).max(1);
        plan.batch = self.batch.unwrap_or(plan.batch).clamp(1, tally_ledger::batch::MAX_BATCH);
        plan.duration = self.duration.unwrap_or(plan.duration);
        plan.warm_up = self.warm_up.unwrap_or(plan.warm_up);
        plan.runs = self.runs.unwrap_or(plan.runs).max(1);
        let mut report = Report::begin(&self.common)?;
        if self.joined.by_kafka() {
            self.over_kafka(&mut report, &plan)?;
            return report.end_with_page("the whole network over Kafka");
        }
        if let Some(accounts) = self.memory {
            measure_memory(&mut report, &plan, accounts)?;
        } else {
            if self.mix.is_some() || self.signed || self.rate.is_some() {
                self.single(&mut report, &plan)?;
            } else {
                let machine = limits(&mut report)?;
                list(&mut report, &plan, &machine, &[], self.full)?;
            }
        }
        report.end_with_page("the whole network")
    }

    fn over_kafka(&self, report: &mut Report, plan: &Plan) -> anyhow::Result<()> {
        let broker = self.joined.broker()?;
        let mix = self.mix.unwrap_or(Mix::Inside);
        let workload = plan.workload(mix, if self.signed { plan.payers } else { 0 });
        let mut run = match self.rate {
            Some(rate) => plan.open(workload, rate),
            None => plan.closed(workload),
        };
        // Each payment passes the log several times before it is final.
        if let Load::Closed(window) = &mut run.load {
            *window = self.window.unwrap_or(KAFKA_WINDOW);
        }
        let mut verified = None;
        if self.signed {
            let most = verified.insert(verified_now(report)?);
            let rate = self.rate.map_or(KAFKA_SIGNED.min(most.rate), |rate| rate as f64);
            run.prepared = (rate * (plan.warm_up + plan.duration).as_secs_f64()) as usize + run.batch;
        }
        let limits = super::cluster::limits(report, &broker, super::cluster::Sizes::Batches, None)?;
        super::cluster::settlement(report, &self.joined, &broker, &run, plan, &limits, verified.as_ref())?;
        if self.rate.is_none() {
            super::cluster::witnesses(report, &self.joined, &broker, &run)?;
            super::cluster::takeover(report, &self.joined, &broker, &run)?;
        }
        Ok(())
    }

    fn single(&self, report: &mut Report, plan: &Plan) -> anyhow::Result<()> {
        let mix = self.mix.unwrap_or(Mix::Inside);
        let outcome = match (self.rate, self.signed) {
            (Some(rate), signed) => open(plan, mix, rate, signed)?,
            (None, true) => signed(plan, mix)?,
            (None, false) => {
                let machine = limits(report)?;
                if mix == Mix::Inside {
                    let pair = in_use(plan, mix, &machine)?;
                    pair.iter().try_for_each(|outcome| finish(report, plan, outcome))?;
                    report.say(tables::throughput(&pair));
                    return Ok(());
                }
                unsigned(plan, mix, &machine)?
            }
        };
        let is_open = matches!(outcome.run.load, Load::Open(_));
        finish(report, plan, &outcome)?;
        let outcomes = [outcome];
        report.say(tables::throughput(&outcomes));
        if is_open {
            report.say(tables::latency(&outcomes));
        }
        Ok(())
    }
}

fn verified_now(report: &Report) -> anyhow::Result<Ceiling> {
    report.note("how many signatures this machine verifies");
    Ok(verified()?)
}

/// The usual plan.
pub(super) fn plan(common: &Common) -> Plan {
    let usual = Plan {
        directory: common.networks().to_owned(),
        seed: common.seed,
        progress: common.shows_progress(),
        ..Plan::default()
    };
    if common.quick {
        Plan {
            accounts: 200_000,
            payers: 50_000,
            duration: Duration::from_millis(2500),
            warm_up: Duration::from_millis(500),
            runs: 1,
            ..usual
        }
    } else {
        usual
    }
}

/// The limits that the whole network is compared with.
fn limits(report: &mut Report) -> anyhow::Result<Machine> {
    let plan = plan(&report.common);
    let total = Duration::from_secs(if report.common.quick { 3 } else { 8 });
    let bytes = (plan.accounts as usize * size_of::<tally_ledger::Account>()).max(1 << 20);
    report.limits(total, &[Area::Hash, Area::Memory, Area::Disk], bytes)
}

/// The list of experiments; `stages` were measured before, or none.
pub(super) fn list(
    report: &mut Report,
    plan: &Plan,
    machine: &Machine,
    stages: &[Measured],
    full: bool,
) -> anyhow::Result<()> {
    let mut outcomes = Vec::new();
    let mut add = |report: &mut Report, outcome: Outcome| {
        finish(report, plan, &outcome).map(|()| outcomes.push(outcome))
    };
    let [inside, bare] = in_use(plan, Mix::Inside, machine)?;
    let between = unsigned(plan, Mix::Between, machine)?;
    let half = |outcome: &Outcome| (outcome.rate() / 2.0) as u64;
    let (inside_rate, between_rate) = (half(&inside), half(&between));
    add(report, inside)?;
    add(report, bare)?;
    add(report, between)?;
    if full {
        add(report, unsigned(plan, Mix::Mixed(50), machine)?)?;
    }
    add(report, signed(plan, Mix::Inside)?)?;
    if full {
        add(report, signed(plan, Mix::Between)?)?;
    }
    report.say(tables::throughput(&outcomes));
    if !stages.is_empty() {
        report.say(tables::breakdown(&outcomes, stages));
    }

    let mut latencies = vec![open(plan, Mix::Inside, inside_rate, false)?];
    if full || !report.common.quick {
        latencies.push(open(plan, Mix::Between, between_rate, false)?);
    }
    for outcome in &latencies {
        finish(report, plan, outcome)?;
    }
    report.say(tables::latency(&latencies));

    recovery::measure(report, plan, Mix::Inside, 0, &machine.limits)?;
    if full {
        memory_in_its_own_process(report)?;
    }
    Ok(())
}

fn finish(report: &mut Report, plan: &Plan, outcome: &Outcome) -> anyhow::Result<()> {
    report.append(outcome.records(plan.seed))
}

fn words(mix: Mix) -> String {
    match mix {
        Mix::Inside => "2 legs in one institution".to_owned(),
        Mix::Between => "4 legs over three institutions".to_owned(),
        Mix::Mixed(share) => format!("2 legs, {share} % of them 4"),
    }
}

fn name(mix: Mix) -> String {
    match mix {
        Mix::Inside => "inside".to_owned(),
        Mix::Between => "between".to_owned(),
        Mix::Mixed(share) => format!("mixed-{share}"),
    }
}

fn unsigned(plan: &Plan, mix: Mix, machine: &Machine) -> anyhow::Result<Outcome> {
    let run = plan.closed(plan.workload(mix, 0));
    let title = format!("{}, unsigned", words(mix));
    let mut outcome = plan.measure(&name(mix), &title, &run)?;
    outcome.ceilings = ceilings(mix, &machine.limits, machine.options.cores);
    Ok(outcome)
}

/// With the settings of a network in use, and without them, in turn.
fn in_use(plan: &Plan, mix: Mix, machine: &Machine) -> anyhow::Result<[Outcome; 2]> {
    let bare = plan.closed(plan.workload(mix, 0));
    let title = format!("{}, unsigned", words(mix));
    let pair = [
        Outcome::begin(
            &format!("{}-in-use", name(mix)),
            &format!("{title}, settings in use"),
            &plan.in_use(bare.clone()),
        ),
        Outcome::begin(&name(mix), &format!("{title}, 15 s valid, no snapshots, until sequenced"), &bare),
    ];
    let mut pair = plan.measure_pair(pair)?;
    for outcome in &mut pair {
        outcome.ceilings = ceilings(mix, &machine.limits, machine.options.cores);
    }
    Ok(pair)
}

fn signed(plan: &Plan, mix: Mix) -> anyhow::Result<Outcome> {
    let title = format!("{}, signed by {} payers", words(mix), plan.payers);
    Ok(plan.signed(&format!("{}-signed", name(mix)), &title, mix)?)
}

fn open(plan: &Plan, mix: Mix, rate: u64, signed: bool) -> anyhow::Result<Outcome> {
    let payers = if signed { plan.payers } else { 0 };
    let mut run = plan.open(plan.workload(mix, payers), rate);
    if signed {
        let time = (plan.warm_up + plan.duration).as_secs_f64();
        run.prepared = (rate as f64 * time) as usize + run.batch;
    }
    let title = format!("{}, {}", words(mix), if signed { "signed" } else { "unsigned" });
    Ok(plan.measure(&format!("{}-open", name(mix)), &title, &run)?)
}

fn measure_memory(report: &mut Report, plan: &Plan, accounts: u32) -> anyhow::Result<()> {
    report.note(&format!("the memory of {accounts} accounts"));
    let memory = plan.memory(accounts)?;
    report.append([memory.record()])?;
    report.say(tables::memory(&memory));
    Ok(())
}

/// Memory that earlier experiments have used must not count.
fn memory_in_its_own_process(report: &Report) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let accounts = MEMORY_ACCOUNTS.to_string();
    let output = Command::new(program)
        .args(["bench", "settlement", "--quick", "--memory", &accounts, "--out"])
        .arg(&report.common.out)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start a process for the memory's measurement")?;
    ensure!(output.status.success(), "the measurement of memory failed: {}", output.status);
    // Its heading is that of this report.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let table = text.split_once("\n\n").map_or(text.as_str(), |(_, table)| table);
    show(table);
    Ok(())
}
