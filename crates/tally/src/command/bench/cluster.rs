//! What the measurements over Kafka have in common, and a stage's process of theirs.

use super::{Ended, Report};
use anyhow::Context;
use std::time::Duration;
use tally_bench::ceiling::Ceiling;
use tally_bench::cluster::alone::{Both, Repeated};
use tally_bench::cluster::member::Member;
use tally_bench::cluster::network::{Broker, Launcher, Outcome, Running};
use tally_bench::cluster::{Shape, alone, limits, takeover, witnesses};
use tally_bench::limits::Limit;
use tally_bench::report::cluster as tables;
use tally_bench::settlement::{Counted, Load, Run};
use tally_bench::stages;
use tally_bench::suite::Plan;
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

/// An option that means nothing with this log.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{option} does not go with --log {log}: {why}")]
pub(in crate::command) struct Unfit {
    option: &'static str,
    log: &'static str,
    why: &'static str,
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

    /// Whether there is more than one scheduler or assembler.
    pub(super) fn is_split(&self) -> bool {
        self.schedulers > 1 || self.assemblers > 1
    }

    /// Refuses options that mean nothing with this log. `files_only` are those that Kafka has no use for: name, whether it
    /// was given, and why it means nothing.
    ///
    /// # Errors
    /// [`Unfit`], naming the first.
    pub(super) fn check(&self, files_only: &[(&'static str, bool, &'static str)]) -> Result<(), Unfit> {
        let why = "try it with --log kafka";
        let kafka_only = [
            ("--brokers", !self.brokers.is_empty(), why),
            ("--schedulers", self.schedulers > 1, why),
            ("--assemblers", self.assemblers > 1, why),
            ("--lz4", self.lz4, why),
        ];
        let (log, unfit) = if self.by_kafka() { ("kafka", files_only) } else { ("file", &kafka_only[..]) };
        let given = unfit.iter().find(|(_, given, _)| *given);
        given.map_or(Ok(()), |(option, _, why)| Err(Unfit { option, log, why }))
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
            gateways: 1,
            banks: run.workload.spread,
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

/// Of which records the broker's limits are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sizes {
    /// Of a payment's and of those that hold many.
    All,
    /// Only of those that hold many payments, with which others are compared.
    Batches,
}

/// The broker's limits, in about `total` where that is given.
pub(super) fn limits(
    report: &mut Report,
    broker: &Broker,
    sizes: Sizes,
    total: Option<Duration>,
) -> anyhow::Result<Vec<Limit>> {
    report.note("limits of the broker");
    let mut options = limits::Options::default();
    if sizes == Sizes::Batches {
        options.sizes.retain(|size| *size > 1 << 10);
    }
    if report.common.quick {
        options.sizes.retain(|size| [200, 256 << 10].contains(size));
        (options.warm_up, options.repetition) = (Duration::from_secs(2), Duration::from_millis(300));
    }
    if let Some(total) = total {
        options = options.within(total);
    }
    let found = limits::run(&broker.cluster()?, &options)?;
    report.append(found.iter().map(|limit| limits::record(limit, &options)))?;
    report.say(tables::limits(&found));
    Ok(found)
}

/// Measures a run as often as planned, and shows it.
pub(super) fn settlement(
    report: &mut Report,
    joined: &Joined,
    broker: &Broker,
    run: &Run,
    plan: &Plan,
    limits: &[Limit],
    verified: Option<&Ceiling>,
) -> anyhow::Result<()> {
    let mut outcomes = Vec::new();
    for number in 1..=plan.runs {
        report.note(&format!("settlement over Kafka, run {number} of {}", plan.runs));
        let outcome = joined.measure(broker, run, plan.progress.then_some("settlement over Kafka"))?;
        report.append([tables::record(&outcome, run, joined.settings(), limits, verified)])?;
        outcomes.push(outcome);
    }
    for section in tables::settlement(&outcomes, limits, verified) {
        report.say(section);
    }
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
    let usual = takeover::Options::default();
    let kills = if report.common.quick { 2 } else { usual.kills };
    let options = takeover::Options { kills, ..usual };
    let run = with_few_accounts(run);
    let found = takeover::run(broker, &joined.shape(&run), &run, &Launcher::this_program()?, &options)?;
    report.append([tables::takeover::record(&found, &options)])?;
    report.say(tables::takeover::section(&found, &options));
    Ok(())
}

/// What witnesses add to the time until an outcome is told.
pub(super) fn witnesses(
    report: &mut Report,
    joined: &Joined,
    broker: &Broker,
    run: &Run,
) -> anyhow::Result<()> {
    report.note("outcomes with witnesses and without");
    let usual = witnesses::Options::default();
    let options = match report.common.quick {
        true => {
            let (duration, warm_up) = (Duration::from_secs(3), Duration::from_secs(1));
            witnesses::Options { duration, warm_up, ..usual }
        }
        false => usual,
    };
    let run = with_few_accounts(run);
    let found = witnesses::run(broker, &joined.shape(&run), &run, &Launcher::this_program()?, &options)?;
    report.append(tables::witnesses::records(&found, &options))?;
    report.say(tables::witnesses::section(&found, &options));
    Ok(())
}

/// The same where accounts are not what is measured, and take long to open.
fn with_few_accounts(run: &Run) -> Run {
    const ACCOUNTS: u32 = 10_000;
    let (accounts, payers) = (run.workload.accounts.min(ACCOUNTS), run.workload.payers.min(ACCOUNTS));
    Run { workload: Workload { accounts, payers, ..run.workload.clone() }, ..run.clone() }
}

/// How often each stage is measured.
pub(super) const REPETITIONS: usize = 3;
/// Batches that pass each stage alone.
const ALONE_BATCHES: usize = 200;
/// So long what is prepared must be valid.
const ALONE_VALIDITY: Duration = Duration::from_secs(900);

/// Each stage alone on Kafka, beside what it takes in files and in memory; with as many instances as `levels` say, the first
/// of them beside files.
pub(super) fn stages(
    report: &mut Report,
    joined: &Joined,
    options: &stages::Options,
    levels: &[u16],
) -> anyhow::Result<()> {
    let broker = joined.broker()?;
    let limits = limits(report, &broker, Sizes::Batches, None)?;
    report.note("each stage alone in memory");
    let repetition = if report.common.quick { options.repetition / 4 } else { options.repetition };
    let in_memory = stages::Options { payers: 0, repetitions: 3, repetition, ..options.clone() };
    let memory = stages::run_each(&in_memory, |_| {});
    let batches = if report.common.quick { ALONE_BATCHES / 4 } else { ALONE_BATCHES };
    let batches = batches.min(alone::MOST / options.batch).max(1);
    let run = |spread: u16| Run {
        workload: Workload {
            mix: Mix::Inside,
            accounts: options.accounts,
            payers: 0,
            validity: ALONE_VALIDITY,
            seed: options.seed,
            spread,
        },
        load: Load::Closed(1),
        duration: Duration::ZERO,
        warm_up: Duration::ZERO,
        batch: options.batch,
        prepared: 0,
        snapshots: None,
        counted: Counted::Sequenced,
    };
    // Its disk is the one measured.
    let networks = Plan { directory: report.common.out.clone(), ..Plan::default() };
    let measure = |instances: u16, with_files: bool| -> anyhow::Result<Both> {
        let joined = Joined { schedulers: instances, assemblers: instances, ..joined.clone() };
        let run = run(instances);
        let files = if with_files { Some(networks.directory()?) } else { None };
        let files = files.as_ref().map(tempfile::TempDir::path);
        Ok(alone::run(&broker, &joined.shape(&run), &run, batches, &Launcher::this_program()?, files)?)
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<(u16, Vec<Repeated>)> = Vec::new();
    for instances in levels {
        let (mut kafka, mut files) = (Vec::new(), Vec::new());
        for number in 1..=options.repetitions {
            let with_files = *instances == 1;
            let of = options.repetitions;
            report.note(&format!(
                "each stage alone, {instances} instances of those that split, {number} of {of}"
            ));
            let both = measure(*instances, with_files)?;
            kafka.push(both.kafka);
            files.push(both.files);
        }
        let (kafka, files) = (Repeated::of(kafka), Repeated::of(files));
        let run = run(*instances);
        let record = |stage: &Repeated, log| tables::stages::record(stage, log, *instances, &run, &limits);
        report.append(kafka.iter().map(|stage| record(stage, "kafka")))?;
        report.append(files.iter().map(|stage| record(stage, "file")))?;
        report.say(tables::stages::alone(&kafka, *instances, &limits));
        if !files.is_empty() {
            report.say(tables::stages::cost(&kafka, &files, &memory, 2));
        }
        found.push((*instances, kafka));
    }
    if let Some(at) = found.iter().position(|(instances, _)| *instances == 1) {
        found.swap(0, at);
        report.say(tables::stages::scaling(&found, cores));
        report.say(tables::stages::predictions(&found[0].1, cores, options.batch));
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        joined: Joined,
    }

    fn joined(words: &[&str]) -> Joined {
        Line::try_parse_from([&["bench"], words].concat()).unwrap().joined
    }

    #[test]
    fn what_means_nothing_with_a_log_is_refused_and_named() {
        let memory = [("--memory", true, "why")];
        assert_eq!(joined(&[]).check(&memory), Ok(()));
        let refused = joined(&["--log", "kafka"]).check(&memory).unwrap_err().to_string();
        assert_eq!(refused, "--memory does not go with --log kafka: why");
        assert_eq!(joined(&["--log", "kafka", "--lz4"]).check(&[("--x", false, "")]), Ok(()));
        for words in [["--brokers", "a:1"], ["--schedulers", "2"], ["--assemblers", "2"]] {
            let refused = joined(&words).check(&memory).unwrap_err();
            assert_eq!((refused.option, refused.log), (words[0], "file"));
        }
        assert!(joined(&["--lz4"]).check(&[]).is_err());
    }
}
