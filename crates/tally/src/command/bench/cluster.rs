//! What the measurements over Kafka have in common, and a stage's process of theirs.

use super::{Ended, Report, show, styled};
use anyhow::Context;
use tally_bench::cluster::member::Member;
use tally_bench::cluster::network::{Broker, Launcher, Outcome, Running};
use tally_bench::cluster::{Shape, limits};
use tally_bench::limits::{Limit, render};
use tally_bench::report::cluster as tables;
use tally_bench::settlement::Run;

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
pub(super) fn limits(report: &mut Report, broker: &Broker) -> anyhow::Result<Vec<Limit>> {
    report.note("limits of the broker");
    let mut options = limits::Options::default();
    if report.common.quick {
        options.sizes = vec![256 << 10];
    }
    let found = limits::run(&broker.cluster()?, &options)?;
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
    let outcome = joined.measure(broker, run, progress)?;
    show(&tables::runs([("payments", &outcome)], styled()));
    super::print::line("");
    show(&tables::processes(&outcome, styled()));
    super::print::line("");
    show(&tables::hops(&outcome, &tables::Hops::of(&outcome, "bench-"), limits, styled()));
    let _ = report;
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
        let member: Member = serde_json::from_str(&self.member).context("a stage's process is told what it is")?;
        member.serve()?;
        Ok(Ended::Well)
    }
}
