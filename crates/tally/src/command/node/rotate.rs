//! `tally node rotate DIR`

use super::publish;
use crate::command::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::flows_network::layout::NodeDirectory;
use anyhow::Context;
use std::path::PathBuf;
use tally_contracts::Timestamp;
use tally_identity::{NodeKeys, system_now};
use tally_node::Settings;
use tally_store::{Database, Store, StoreError};

/// Flows read in one go.
const PAGE: usize = 1000;

/// Arguments of `tally node rotate`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Rotate {
    /// Directory of the node; the node must not run. The former key stays in it: states name it
    directory: PathBuf,
}

impl Rotate {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let home = NodeDirectory::new(&self.directory);
        let settings = Settings::load(home.root(), &[])?;
        let passphrase = publish::passphrase(&home, &settings, connection)?;
        let database = settings.database(home.root());
        let is_new = matches!(&database, Database::Sqlite(options) if !options.path.exists());
        let now = system_now();
        // The database is this process's until the key is another one.
        let store = if is_new {
            None
        } else {
            Some(
                tally_store::open(&database)
                    .context("the key of a node is rotated while the node does not run")?,
            )
        };
        let until = match &store {
            Some(store) => after_all_flows(store.as_ref(), now)?,
            None => now,
        };
        let identity = home.root().join(&settings.identity.directory);
        let party = NodeKeys::rotate(&identity, &passphrase, NodeKeys::COST, until, now)
            .context("the key was not rotated")?;
        print::line(&format!("the key of {} is {} now", party.name, party.key));
        print::line(&format!(
            "make it known before the node starts: tally node publish {}",
            home.root().display()
        ));
        Ok(Ended::Well)
    }
}

/// A time that is later than the beginning of each flow that has not ended, also where the clock was set back: those go on
/// under the key that they began with.
fn after_all_flows(store: &dyn Store, now: Timestamp) -> Result<Timestamp, StoreError> {
    let mut until = now;
    let mut after = None;
    loop {
        let page = store.unfinished_flows(after, PAGE)?;
        let Some(last) = page.last() else { return Ok(until) };
        after = Some(last.flow.flow);
        for saved in &page {
            until = until.max(Timestamp::from_millis(saved.flow.at.as_millis().saturating_add(1)));
        }
    }
}
