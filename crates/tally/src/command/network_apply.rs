//! `tally network apply DIR`

use super::{Ended, print};
use crate::configuration::Configuration;
use crate::layout::Layout as Directory;
use crate::references;
use crate::stages::{self, ClusterConfiguration};
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::sync::Arc;
use tally_log::FileLog;
use tally_settlement::engine::wall_clock;
use tally_settlement::process::found;

/// Arguments of `tally network apply`.
#[derive(Debug, clap::Args)]
pub(super) struct Apply {
    /// Directory of the network, with its cluster.toml
    directory: PathBuf,
    /// Change nothing: only say whether everything is as it has to be
    #[arg(long)]
    check: bool,
    /// A setting in place of cluster.toml's; may be repeated
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    settings: Vec<String>,
}

impl Apply {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let directory = Directory::new(&self.directory);
        let configuration = Configuration::read(&directory, &[])?;
        let settings = ClusterConfiguration::read(&directory, &self.settings)?;
        let layout = settings.layout(&configuration)?;
        let cluster = settings.cluster()?;
        let network = Arc::new(configuration.network()?);
        let journal = directory.root().join("journal");
        // Topics that do not fit the journal would be in the way of those that do.
        let prepared = if self.check || !journal.is_dir() || directory.moved().exists() {
            None
        } else {
            let (log, _) = FileLog::open(&journal, tally_log::Options::default())
                .with_context(|| format!("cannot open the journal in {}", journal.display()))?;
            let prepared = found::prepare(&layout, &network, &log, wall_clock())
                .context("the journal cannot be the beginning of the topics; none was made")?;
            Some((log, prepared))
        };
        if !self.check {
            // Before the first gateway starts: each of them needs this one.
            references::of_network(&directory, &configuration)?;
        }
        let plans = stages::plans(&settings, &layout);
        let partitions: u32 = plans.iter().map(|plan| u32::from(plan.partitions)).sum();
        if self.check {
            stages::check(&cluster, &plans)?;
        } else {
            stages::apply(&cluster, &plans)?;
        }
        let grants = stages::grants(&settings, &layout);
        if !grants.is_empty() && !self.check {
            cluster.allow(&grants).context("cannot give the institutions of [principals] access")?;
            let institutions: Vec<&str> = settings.principals.keys().map(String::as_str).collect();
            print::line(&format!(
                "{} have access to their own topics, and to no others",
                institutions.join(", ")
            ));
        }
        print::line(&format!("{} topics with {partitions} partitions are as planned", plans.len()));

        if found::is_founded(&cluster, &layout).context("cannot look into the topics")? {
            if !self.check {
                self.mark(&directory)?;
            }
            print::line("the network has its beginning in the topics");
            return Ok(Ended::Well);
        }
        if self.check {
            print::line(
                "the network has no beginning in the topics: `tally network apply` without --check puts it there",
            );
            return Ok(Ended::Refused);
        }
        let Some((log, prepared)) = prepared else {
            bail!(
                "{} has no journal that is not moved to topics yet: a network begins where `tally network init` made it; run \
                 this in that directory",
                directory.root().display()
            );
        };
        let founded = prepared.found(&cluster, &layout, &network, &log)?;
        self.mark(&directory)?;
        print::line(&format!(
            "the journal in {} is the beginning of the topics: {} transactions accepted, {} sequenced; the network goes \
             on there",
            journal.display(),
            founded.accepted,
            founded.sequenced
        ));
        Ok(Ended::Well)
    }

    /// From now on the files must not be gone on from: there would be two networks.
    fn mark(&self, directory: &Directory) -> anyhow::Result<()> {
        let path = directory.moved();
        let text = "The network goes on in the topics that cluster.toml names. What lies here is history.\n";
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
