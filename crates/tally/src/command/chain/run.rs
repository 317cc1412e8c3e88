//! `tally chain run DIR`, or with Besu's options

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tally_chain::setup::Settings;
use tally_ops::shutdown::Shutdown;

use super::options::NodeOptions;
use crate::chain_node::ChainNode;
use crate::command::{Ended, print};

/// Arguments of `tally chain run`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Run {
    /// Directory of the node, with its config.toml; without it, options say where its files are
    directory: Option<PathBuf>,
    /// Stop as well when standard input ends: for a program that starts this one and may be killed
    #[arg(long)]
    until_input_ends: bool,
    #[command(flatten)]
    options: NodeOptions,
}

impl Run {
    /// The level of log lines that is asked for. What is wrong with the options is said when they are read again.
    pub(super) fn log_filter(&self) -> Option<String> {
        Settings::gather(&self.options.sources(self.directory.as_deref()).ok()?).ok()?.logging
    }

    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        let directory = self.directory.as_deref();
        let settings = Settings::gather(&self.options.sources(directory)?);
        let settings = match directory {
            Some(directory) => settings.with_context(|| format!("the node in {}", directory.display())),
            None => settings.map_err(Into::into),
        }?;
        let name = super::name(directory.unwrap_or(&settings.data_path));
        let node = ChainNode::start(&settings, &name)?;
        // Not before it has started: another process may run in this directory, and the file be that one's.
        let running = match settings.pid_path.as_deref().map(PidFile::write).transpose() {
            Ok(running) => running,
            Err(error) => {
                node.stop();
                return Err(error);
            }
        };
        print::line(&format!(
            "ready {name}{} block={}",
            node.addresses(),
            node.node().chain().head().number()
        ));
        if self.until_input_ends {
            crate::command::stop_with_input(shutdown.clone())?;
        }
        shutdown.wait();
        node.stop();
        drop(running);
        print::line("stopped");
        Ok(Ended::Well)
    }
}

/// A file with the number of this process, which goes with it.
struct PidFile(PathBuf);

impl PidFile {
    fn write(path: &Path) -> anyhow::Result<Self> {
        std::fs::write(path, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "the file with the number of the process stays");
        }
    }
}
