//! `tally node backup DIR FILE`, `tally node restore DIR FILE`

use crate::command::{Ended, print};
use crate::flows_network::layout::NodeDirectory;
use crate::flows_network::pem;
use anyhow::Context;
use serde_json::json;
use std::path::PathBuf;
use tally_bench::table;
use tally_contracts::Name;
use tally_identity::system_now;
use tally_node::Settings;
use tally_store::{Database, backup};

/// Arguments of `tally node backup`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Backup {
    /// Directory of the node; the node may run
    directory: PathBuf,
    /// The backup; a new file. It holds the database, not the keys: keep the directory `identity` elsewhere
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `tally node restore`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Restore {
    /// Directory of the node, with its keys and node.toml; the node must not run, and its database must be empty
    directory: PathBuf,
    /// A backup of this node, of SQLite or PostgreSQL whichever it has now
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A node's database, and whose it is.
struct Home {
    name: Name,
    database: Database,
    configuration: String,
}

impl Home {
    fn load(directory: &std::path::Path) -> anyhow::Result<Self> {
        let home = NodeDirectory::new(directory);
        let settings = Settings::load(home.root(), &[])?;
        // Read and not verified: a node whose certificate has expired has its data all the same.
        let certificate = home.root().join(&settings.identity.directory).join("identity.pem");
        let name = pem::path(&certificate).context("whose database it is, its certificate says")?;
        Ok(Self {
            name: name.subject().clone(),
            database: settings.database(home.root()),
            configuration: home.configuration().display().to_string(),
        })
    }
}

impl Backup {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let home = Home::load(&self.directory)?;
        let taken = backup::back_up(&home.database, &home.name, system_now(), &self.file)
            .with_context(|| format!("no backup of the database of {}", home.configuration))?;
        tell("backed up", &taken, self.json);
        Ok(Ended::Well)
    }
}

impl Restore {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let home = Home::load(&self.directory)?;
        if let Database::Sqlite(options) = &home.database
            && let Some(parent) = options.path.parent()
        {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        let restored = backup::restore(&home.database, &home.name, system_now(), &self.file)
            .with_context(|| format!("nothing was restored into the database of {}", home.configuration))?;
        tell("restored", &restored, self.json);
        if !self.json {
            let taken = print::time(restored.taken.as_millis());
            print::line(&format!("what this node and its peers did since {taken} is not in it"));
        }
        Ok(Ended::Well)
    }
}

fn tell(done: &str, backup: &backup::Backup, as_json: bool) {
    if as_json {
        let told = json!({
            "node": backup.node,
            "schema": backup.schema,
            "taken_ms": backup.taken.as_millis(),
            "rows": backup.rows,
            "bytes": backup.bytes,
            "checksum": backup.checksum.to_string(),
        });
        print::line(&told.to_string());
        return;
    }
    let facts = [
        (done, backup.node.to_string()),
        ("taken", print::time(backup.taken.as_millis())),
        ("schema", backup.schema.to_string()),
        ("rows", table::count(backup.rows)),
        ("bytes", table::count(backup.bytes)),
        ("checksum", backup.checksum.to_string()),
    ];
    print::line(table::facts(facts).trim_end_matches('\n'));
}
