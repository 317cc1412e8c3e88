//! `tally bench …`

mod all;
mod chain;
mod cluster;
mod compare;
mod evm;
mod flows;
mod gateway;
mod import;
mod limits;
mod recovery;
mod rpc;
mod settlement;
mod stages;

use super::{Ended, print};
use anyhow::Context;
use clap::Subcommand;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tally_bench::ceiling::BeyondLimit;
use tally_bench::limits::{Area, Limit, Options};
use tally_bench::processes::{Watch, Watched};
use tally_bench::report::page::{Page, Section};
use tally_bench::result::{Commit, Record, ResultWriter};
use tally_bench::{limits as measure, report, table};
use tally_ops::process;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    /// What this machine can do at best: hash, sign, verify, copy, write durably
    Limits(limits::Limits),
    /// Each stage alone, one instance on one thread, beside the published figures
    Stages(stages::Stages),
    /// The whole network; without a mix, a rate or signatures: the list of experiments
    Settlement(settlement::Settlement),
    /// The gateway: signed payments over a stream of gRPC and over HTTP, one by one and as a message
    Gateway(gateway::Gateway),
    /// Nodes and a notary, each a process: issue, pay, IOU, waiting flows, long histories, large vaults
    Flows(flows::Flows),
    /// An EVM chain: validators and a node that follows, each a process, under calls of a contract in open loop
    Chain(chain::Chain),
    /// Read-only JSON-RPC of one node over a chain with history: each method alone, and all mixed
    Rpc(rpc::Rpc),
    /// A chain into an empty node: from a file, and from a peer
    Import(import::Import),
    /// Gas per second of the EVM, beside bare revm
    Evm(evm::Evm),
    /// How fast a journal is read back, by a start without snapshots and by an audit
    Recovery(recovery::Recovery),
    /// Limits, stages, the whole network and recovery, one after the other
    All(all::All),
    #[command(hide = true)]
    StageProcess(cluster::StageProcess),
    /// Two sets of results: ratios with their intervals
    Compare(compare::Compare),
}

impl Bench {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        match self {
            Self::Limits(command) => command.run(),
            Self::Stages(command) => command.run(),
            Self::Settlement(command) => command.run(),
            Self::Gateway(command) => command.run(),
            Self::Flows(command) => command.run(),
            Self::Chain(command) => command.run(),
            Self::Rpc(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Evm(command) => command.run(),
            Self::Recovery(command) => command.run(),
            Self::All(command) => command.run(),
            Self::StageProcess(command) => command.run(),
            Self::Compare(command) => command.run(),
        }
    }
}

/// Options of every measurement.
#[derive(Debug, Clone, clap::Args)]
struct Common {
    /// Directory in which networks are made and measured; results go to its `results`
    #[arg(long, value_name = "DIR", default_value = "tally-bench")]
    out: PathBuf,
    /// Measure less and for a shorter time
    #[arg(long)]
    quick: bool,
    /// Makes the same payments again
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show how runs are getting on, also where standard error is not a terminal
    #[arg(long)]
    progress: bool,
    /// Write a page with tables and charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Limits of this machine, measured in the same run as what they are compared with.
struct Machine {
    limits: Vec<Limit>,
    options: Options,
}

/// A report in the making.
struct Report {
    writer: ResultWriter,
    common: Common,
    /// What was said, for a page.
    sections: Vec<Section>,
    /// What this process uses meanwhile, for a page.
    watch: Option<Watch>,
}

/// How often that is looked at: processor time is counted in whole ticks of the clock.
const WATCH: Duration = Duration::from_millis(500);

impl Report {
    fn begin(common: &Common) -> anyhow::Result<Self> {
        let writer = ResultWriter::create(&common.out.join("results"))?;
        show(&report::heading(&process::machine(), &Commit::of_this_build()));
        print::line("");
        let itself = Watched { with_children: true, ..Watched::new("all processes", std::process::id()) };
        let watch = common.html.as_ref().map(|_| Watch::start(vec![itself], WATCH)).transpose()?;
        Ok(Self { writer, common: common.clone(), sections: Vec::new(), watch })
    }

    fn append(&mut self, records: impl IntoIterator<Item = Record>) -> anyhow::Result<()> {
        Ok(records.into_iter().try_for_each(|record| self.writer.append(&record))?)
    }

    /// Shows a section, and keeps it for the page.
    fn say(&mut self, section: Section) {
        show(&section.text(styled()));
        print::line("");
        self.sections.push(section);
    }

    /// Writes a page, where one is wanted.
    fn write(&self, page: impl FnOnce() -> Page) -> anyhow::Result<()> {
        let Some(file) = &self.common.html else { return Ok(()) };
        let html = page().render();
        std::fs::write(file, html).with_context(|| format!("cannot write {}", file.display()))?;
        print::line(&format!("Page: {}", file.display()));
        Ok(())
    }

    /// Writes what was said as a page, where one is wanted, and says where the results lie.
    fn end_with_page(mut self, title: &str) -> anyhow::Result<Ended> {
        let mut sections = std::mem::take(&mut self.sections);
        let used = self.watch.take().map(Watch::stop).unwrap_or_default();
        sections.extend(used.iter().map(report::curves::usage));
        let title = format!("Tallystick: {title}");
        self.write(|| Page { title, facts: chain::about(), sections })?;
        self.end()
    }

    /// Says where the results lie.
    ///
    /// # Errors
    /// When something was found that is beyond its limit: then a benchmark is wrong.
    fn end(self) -> anyhow::Result<Ended> {
        print::line(&format!("Results, with raw samples: {}", self.writer.path().display()));
        believe(self.writer.beyond())
    }

    /// Measures limits of this machine and records them.
    fn limits(&mut self, total: Duration, areas: &[Area], memory_bytes: usize) -> anyhow::Result<Machine> {
        self.note("limits of this machine");
        let options = Options {
            total,
            areas: areas.to_vec(),
            memory_bytes,
            directory: self.common.out.clone(),
            ..Options::default()
        };
        let limits = measure::run(&options)?;
        measure::write(&limits, &options, &mut self.writer)?;
        Ok(Machine { limits, options })
    }

    /// Says on standard error what is being measured.
    fn note(&self, what: &str) {
        if self.common.shows_progress() {
            eprintln!("measuring {what}");
        }
    }
}

impl Common {
    fn shows_progress(&self) -> bool {
        self.progress || std::io::stderr().is_terminal()
    }

    /// Where networks are made.
    fn networks(&self) -> &Path {
        &self.out
    }
}

/// Refuses what no machine can do.
fn believe(beyond: &[BeyondLimit]) -> anyhow::Result<Ended> {
    let Some(first) = beyond.first() else { return Ok(Ended::Well) };
    for other in &beyond[1..] {
        eprintln!("{other}");
    }
    Err(first.clone().into())
}

/// Writes a table or several lines.
fn show(text: &str) {
    print::line(text.trim_end_matches('\n'));
}

/// A duration such as `5s` or `500ms`.
fn duration(text: &str) -> anyhow::Result<Duration> {
    let duration = humantime::parse_duration(text).with_context(|| format!("`{text}`: try 5s or 500ms"))?;
    anyhow::ensure!(!duration.is_zero(), "longer than nothing");
    Ok(duration)
}

fn styled() -> bool {
    table::styled()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_bench::ceiling::Ceiling;

    #[test]
    fn a_command_that_found_more_than_its_limit_fails_and_names_the_benchmark() {
        let home = tempfile::tempdir().unwrap();
        let mut writer = ResultWriter::create(home.path()).unwrap();
        let limit = Ceiling { name: "2 updates".into(), rate: 1e6 };
        writer.append(&Record::new("stages", "state updater").against(&limit, 1e6)).unwrap();
        assert!(matches!(believe(writer.beyond()), Ok(Ended::Well)));
        writer.append(&Record::new("stages", "state updater").against(&limit, 9e9)).unwrap();
        let refused = believe(writer.beyond()).unwrap_err().to_string();
        assert!(
            refused.contains("`stages state updater` is wrong") && refused.contains("2 updates"),
            "{refused}"
        );
    }
}
