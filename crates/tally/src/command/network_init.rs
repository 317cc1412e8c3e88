//! `tally network init DIR`

use super::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::opening::Opening;
use crate::plan::Plan;
use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use tally_crypto::keystore::ScryptCost;

/// Arguments of `tally network init`.
#[derive(Debug, clap::Args)]
pub(super) struct Init {
    /// Directory of the network; must not exist
    directory: PathBuf,
    /// The plan: who takes part, what is held, who has what at the start; several are joined
    #[arg(long, value_name = "FILE", required_unless_present = "demo")]
    plan: Vec<PathBuf>,
    /// The network of the demonstration: a central bank, three banks and a depository
    #[arg(long, conflicts_with = "plan")]
    demo: bool,
    /// Encrypt the keys so that guessing the passphrase is cheap; for networks that are thrown away
    #[arg(long)]
    weak_keys: bool,
}

impl Init {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let plan = if self.demo { Plan::demo() } else { Plan::read(&self.plan)? };
        plan.check()?;
        ensure!(!self.directory.exists(), "{} exists already", self.directory.display());
        let passphrase = crate::passphrase::given(connection.passphrase_file.as_deref())?;

        // Everything is made beside the directory and gets its name at the end: all or nothing.
        let parent = parent(&self.directory)?;
        std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let building = tempfile::Builder::new()
            .prefix(".tally-network-")
            .tempdir_in(&parent)
            .with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        let opening = Opening {
            directory: building.path(),
            plan: &plan,
            passphrase,
            cost: if self.weak_keys { ScryptCost::TRIVIAL } else { ScryptCost::DEFAULT },
        };
        let opened = opening.make()?;
        let built = building.keep();
        if let Err(error) = publish(&built, &self.directory, &parent) {
            let _ = std::fs::remove_dir_all(&built);
            return Err(error);
        }

        let directory = self.directory.display();
        print::line(&format!(
            "network {:08x} in {directory}: {} participants, {} assets, {} accounts",
            opened.network.0,
            plan.participant.len(),
            plan.asset.len(),
            plan.account.len()
        ));
        if opened.generated_passphrase {
            print::line(&format!(
                "the keys' passphrase was generated: {directory}/passphrase (in production, keep it elsewhere and \
                 give it as {})",
                crate::passphrase::VARIABLE
            ));
        }
        Ok(Ended::Well)
    }
}

fn parent(directory: &Path) -> anyhow::Result<PathBuf> {
    if directory.file_name().is_none() {
        bail!("{} cannot be the name of a new directory", directory.display());
    }
    Ok(match directory.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    })
}

/// Gives the finished directory its name; durable once this returns.
fn publish(built: &Path, directory: &Path, parent: &Path) -> anyhow::Result<()> {
    let sync = |path: &Path| std::fs::File::open(path).and_then(|file| file.sync_all());
    sync(built)
        .and_then(|()| std::fs::rename(built, directory))
        .and_then(|()| sync(parent))
        .with_context(|| format!("cannot give {} its name", directory.display()))
}
