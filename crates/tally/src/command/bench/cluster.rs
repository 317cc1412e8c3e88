//! What the measurements over Kafka have in common, and a stage's process of theirs.

use super::{Ended, Report, show, styled};
use anyhow::Context;
use std::time::Duration;
use tally_bench::cluster::member::Member;
use tally_bench::cluster::network::{Broker, Launcher, Outcome, Running};
use tally_bench::cluster::{ClusterError, Shape, alone, limits, takeover};
use tally_bench::limits::{Limit, render};
use tally_bench::report::cluster as tables;
use tally_bench::settlement::{Load, Run};
use tally_bench::stages;
use tally_bench::workload::{Mix, Workload};

/// Which log joins the stages.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::command) struct Joined {
    // The same name as the option for log lines, of which nobody means `kafka`.
    /// What joins the stages: the journal of one process in files, or Kafka between processes
    #[arg(long, id = "log", value_name = "file|kafka")]
    log: Option<String>,
    /// With --log kafka: brokers that are there; one is started where none is named
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    brokers: Vec<String>,
    /// With --log kafka: how many schedulers share the payments
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    schedulers: u16,
    /// With --log kafka: how many assemblers share the accepted batches
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    assemblers: u16,
    /// With --log kafka: compress records
    #[arg(long)]
    lz4: bool,
}

impl Joined {
    /// How the network is split, for its record.
    fn settings(&self) -> tables::Split {
        tables::Split { schedulers: self.schedulers, assemblers: self.assemblers, lz4: self.lz4 }
    }

    /// Whether it is Kafka.
    pub(super) fn by_kafka(&self) -> bool {
        self.log.as_deref() == Some("kafka")
    }

    /// The broker: the one that is named, or one that is started here.
    pub(super) fn broker(&self) -> anyhow::Result<Broker> {
        let broker = if self.brokers.is_empty() {
            Broker::start().context("cannot start a broker to measure on")?
        } else {
            Broker::given(self.brokers.clone())
        };
        Ok(broker.compressed(self.lz4))
    }

    /// The network of a run, under a name that no other has.
    pub(super) fn shape(&self, run: &Run) -> Shape {
        let now = tally_settlement::engine::wall_clock().0;
        Shape {
            prefix: format!("bench-{}-{now}", std::process::id()),
            schedulers: self.schedulers,
            assemblers: self.assemblers,
            signed: run.workload.is_signed(),
            validity_ms: u64::try_from(run.workload.validity.as_millis()).unwrap_or(u64::MAX),
            // Longer than any run: a crash is not what is measured here.
            snapshots_ms: 3_600_000,
        }
    }

    /// Measures one run on a network of its own.
    pub(super) fn measure(
        &self,
        broker: &Broker,
        run: &Run,
        progress: Option<&str>,
    ) -> anyhow::Result<Outcome> {
        let mut network = Running::start(broker, &self.shape(run), &Launcher::this_program()?)?;
        network.open_accounts(run)?;
        let outcome = network.drive(run, progress)?;
        network.end()?;
        Ok(outcome)
    }
}

/// The broker's limits.
///
/// With `batches_only` only of records that hold many payments.
pub(super) fn limits(report: &mut Report, broker: &Broker, batches_only: bool) -> anyhow::Result<Vec<Limit>> {
    report.note("limits of the broker");
    let mut options = limits::Options::default();
    if report.common.quick {
        options.sizes = vec![256 << 10];
    } else if batches_only {
        options.sizes.retain(|size| *size > 1 << 10);
    }
    let found = limits::run(&broker.cluster()?, &options)?;
    report.append(found.iter().map(|limit| limits::record(limit, &options)))?;
    show(&render(&found, styled()));
    Ok(found)
}

/// Measures a run, and shows it.
pub(super) fn settlement(
    report: &mut Report,
    joined: &Joined,
    broker: &Broker,
    run: &Run,
    limits: &[Limit],
    progress: Option<&str>,
) -> anyhow::Result<()> {
    report.note("settlement over Kafka");
    let outcome = joined.measure(broker, run, progress)?;
    report.append([tables::record(&outcome, run, joined.settings(), limits)])?;
    show(&tables::runs([("payments", &outcome)], styled()));
    super::print::line("");
    show(&tables::processes(&outcome, styled()));
    super::print::line("");
    show(&tables::hops(&outcome, &tables::Hops::of(&outcome), limits, styled()));
    Ok(())
}

/// Kills the sequencer again and again.
pub(super) fn takeover(
    report: &mut Report,
    joined: &Joined,
    broker: &Broker,
    run: &Run,
) -> anyhow::Result<()> {
    report.note("the sequencer's takeover");
    let options = takeover::Options::default();
    // Accounts are not what is measured, and take long to open.
    let workload = Workload { accounts: run.workload.accounts.min(10_000), ..run.workload.clone() };
    let run = Run { workload, ..run.clone() };
    let found = takeover::run(broker, &joined.shape(&run), &run, &Launcher::this_program()?, &options)?;
    report.append([tables::takeover_record(&found, &options)])?;
    show(&tables::takeovers(&found, styled()));
    Ok(())
}

/// Payments that pass each stage alone.
const ALONE_BATCHES: usize = 150;
/// So long what is prepared must be valid.
const ALONE_VALIDITY: Duration = Duration::from_secs(900);

/// Each stage alone, beside what it takes in memory; one instance, and several where they are not named.
pub(super) fn stages(report: &mut Report, joined: &Joined, options: &stages::Options) -> anyhow::Result<()> {
    let broker = joined.broker()?;
    report.note("each stage alone in memory");
    let memory = stages::run_each(&stages::Options { payers: 0, repetitions: 3, ..options.clone() }, |_| {});
    let workload = Workload {
        mix: Mix::Inside,
        accounts: options.accounts,
        payers: 0,
        validity: ALONE_VALIDITY,
        seed: options.seed,
    };
    let run = Run {
        workload,
        load: Load::Closed(1),
        duration: Duration::ZERO,
        warm_up: Duration::ZERO,
        batch: options.batch,
        prepared: 0,
    };
    let batches = if report.common.quick { ALONE_BATCHES / 3 } else { ALONE_BATCHES };
    let measure = |instances: u16| -> Result<_, ClusterError> {
        let joined = Joined { schedulers: instances, assemblers: instances, ..joined.clone() };
        alone::run(&broker, &joined.shape(&run), &run, batches, &Launcher::this_program()?)
    };
    report.note("warming the broker up");
    measure(1)?;
    for instances in [1, 2, 4] {
        report.note(&format!("each stage alone over Kafka, {instances} instances of those that split"));
        let found = measure(instances)?;
        report.append(found.iter().map(|one| tables::alone_record(one, instances, &run)))?;
        show(&tables::stages(&found, &memory, 2, styled()));
        super::print::line("");
        if instances == 1 {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            show(&tables::predictions(&found, cores, styled()));
            super::print::line("");
        }
    }
    Ok(())
}

/// Arguments of the hidden `tally bench stage-process`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct StageProcess {
    /// What it is told, as JSON
    member: String,
}

impl StageProcess {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let member: Member =
            serde_json::from_str(&self.member).context("a stage's process is told what it is")?;
        member.serve()?;
        Ok(Ended::Well)
    }
}
