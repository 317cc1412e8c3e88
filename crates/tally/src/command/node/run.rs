//! `tally node run DIR`

use crate::command::{Ended, print};
use crate::flows_network::layout::{NodeDirectory, NodeRunFile};
use std::path::PathBuf;
use std::time::Duration;
use tally_node::{DatabaseSection, NodeError, Running, Settings};
use tally_ops::shutdown::Shutdown;
use tally_rpc::UsersError;
use tally_store::StoreError;

/// How often a standby looks whether the database is free.
const STANDBY: Duration = Duration::from_millis(500);

/// Arguments of `tally node run`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Run {
    /// Directory of the node
    directory: PathBuf,
    /// A setting of node.toml in place of the file's, such as flows.threads=8; may be repeated
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    settings: Vec<String>,
    /// Wait while another process has the node's database, and take over when it is gone
    #[arg(long)]
    standby: bool,
    /// Stop as well when standard input ends: for a program that starts this one and may be killed
    #[arg(long)]
    until_input_ends: bool,
}

impl Run {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        let home = NodeDirectory::new(&self.directory);
        let settings = Settings::load(home.root(), &self.settings)?;
        if self.until_input_ends {
            crate::command::stop_with_input(shutdown.clone())?;
        }
        let mut waits = self.standby;
        let running = loop {
            match Running::start(home.root(), &settings, &shutdown) {
                Err(NodeError::Store(StoreError::InUse { what })) if self.standby => {
                    if std::mem::take(&mut waits) {
                        print::line(&format!("standby {}: {what} is in use", home.label()));
                    }
                    if shutdown.wait_timeout(STANDBY) {
                        print::line("stopped");
                        return Ok(Ended::Well);
                    }
                }
                result => break result.map_err(|error| located(error, &home, &settings))?,
            }
        };
        let addresses = running.addresses();
        let run = NodeRunFile {
            pid: std::process::id(),
            messaging: addresses.messaging,
            rpc: addresses.rpc,
            http: addresses.http,
        };
        run.write(&home)?;
        let name = &running.core().me().name;
        let http = run.http.map(|http| format!(" http={http}")).unwrap_or_default();
        print::line(&format!("ready {} messaging={} rpc={}{http}", home.label(), run.messaging, run.rpc));
        tracing::info!(node = %name, "ready");
        shutdown.wait();
        // Removed first: whoever reads it finds a node that answers, or none.
        let _ = std::fs::remove_file(home.run_file());
        running.stop()?;
        print::line("stopped");
        Ok(Ended::Well)
    }
}

/// Adds to an error that does not say so which file it is about.
fn located(error: NodeError, home: &NodeDirectory, settings: &Settings) -> anyhow::Error {
    let of = match &error {
        NodeError::Store(_) => {
            let database = match &settings.database {
                DatabaseSection::Sqlite { path, .. } => home.root().join(path).display().to_string(),
                // Its URL may hold a password.
                DatabaseSection::Postgres { schema, .. } => format!("PostgreSQL, schema {schema}"),
            };
            format!("{}: section [database]: {database}", home.configuration().display())
        }
        NodeError::Users(
            UsersError::Name(_)
            | UsersError::Twice(_)
            | UsersError::Hash { .. }
            | UsersError::Permission { .. },
        ) => format!("the users file {}", home.root().join(&settings.rpc.users_file).display()),
        _ => return error.into(),
    };
    anyhow::Error::from(error).context(of)
}
