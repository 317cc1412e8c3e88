//! `tally evidence DIR`

use super::{Ended, print};
use crate::configuration::Configuration;
use crate::evidence;
use crate::layout::Layout;
use crate::stages::ClusterConfiguration;
use anyhow::{Context, ensure};
use std::path::PathBuf;
use tally_bench::table::{self, Align, Table};
use tally_settlement::process::evidence::{Collected, collect};

/// Arguments of `tally evidence`.
#[derive(Debug, clap::Args)]
pub(super) struct EvidenceOf {
    /// Directory of the network; only network.toml, genesis.toml and cluster.toml are read
    directory: PathBuf,
    /// A setting in place of cluster.toml's; may be repeated
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    settings: Vec<String>,
    /// Where to write the files of evidence; the directory's folder `evidence` if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl EvidenceOf {
    /// Reads what was signed on the network's topics. Ends with 1 when somebody signed against itself.
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let layout = Layout::new(&self.directory);
        ensure!(
            layout.cluster().exists(),
            "{} has no cluster.toml: its network runs in one process of the operator's, where nobody else signs; there is nothing \
             to look for, and `tally audit` checks the journal",
            layout.root().display()
        );
        let configuration = Configuration::read(&layout, &[])?;
        let network = configuration.network()?;
        let settings = ClusterConfiguration::read(&layout, &self.settings)?;
        let (cluster, topics) = (settings.cluster()?, settings.layout(&configuration)?);
        let collected = collect(&cluster, &topics, &network).context("cannot read the network's topics")?;
        let out = self.out.unwrap_or_else(|| layout.evidence());
        for finding in &collected.findings {
            let path = evidence::write(&out, &finding.evidence)?;
            print::line(&format!("{}\n  {}", finding.misconduct, path.display()));
            for (partition, position) in &finding.places {
                print::line(&format!("  record {position} of {partition}"));
            }
        }
        summary(&collected);
        Ok(if collected.findings.is_empty() { Ended::Well } else { Ended::Refused })
    }
}

fn summary(collected: &Collected) {
    if collected.more > 0 {
        print::line(&format!(
            "{} more like these were counted and not written",
            table::count(collected.more)
        ));
    }
    if !collected.faults.is_empty() {
        let columns = ["partition", "unreadable", "not signed by the member", "head made up", "first record"];
        let mut rows = Table::new(
            &columns.map(|name| (name, if name == "partition" { Align::Left } else { Align::Right })),
        );
        for (partition, faults) in &collected.faults {
            let counts = [faults.unreadable, faults.unsigned, faults.made_up, faults.first];
            let counts = counts.map(table::count);
            let [unreadable, unsigned, made_up, first] = counts;
            rows.row([partition.to_string(), unreadable, unsigned, made_up, first]);
        }
        print::line("What counts for nothing, and proves nothing:");
        print::line(rows.render(table::styled()).trim_end_matches('\n'));
    }
    for (partition, reason) in &collected.unread {
        eprintln!("{partition} was not read: {reason}");
    }
    let (records, found) = (table::count(collected.records), collected.findings.len());
    print::line(&format!("{records} records read; {found} contradictions"));
}
