//! `tally node accept DIR`

use super::publish;
use crate::command::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::flows_network::layout::NodeDirectory;
use crate::flows_network::pem;
use std::path::PathBuf;
use tally_identity::{Address, NodeKeys, system_now};

/// Arguments of `tally node accept`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Accept {
    /// Directory of the node
    directory: PathBuf,
    /// What the identity manager issued (PEM)
    #[arg(long, value_name = "FILE")]
    certificates: PathBuf,
    /// The network's root certificate (PEM), from a source you believe
    #[arg(long, value_name = "FILE")]
    root: PathBuf,
    /// Where other nodes reach this one; may be repeated. Where it listens if not given
    #[arg(long, value_name = "HOST:PORT")]
    address: Vec<Address>,
    /// Make the key of a notary service as well. The network's authority then makes the node a notary
    #[arg(long)]
    notary: bool,
}

impl Accept {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let home = NodeDirectory::new(&self.directory);
        let settings = tally_node::Settings::load(home.root(), &[])?;
        let identity = home.root().join(&settings.identity.directory);
        let passphrase = publish::passphrase(&home, &settings, connection)?;
        let root = pem::root(&self.root)?;
        if self.notary {
            publish::notary_service(&home, &settings, &passphrase)?;
        }
        NodeKeys::accept(&identity, &passphrase, root.der(), &pem::path(&self.certificates)?, system_now())?;
        print::line(&format!("{} has its certificates", home.root().display()));
        publish::publish(&home, &settings, &passphrase, self.address)?;
        Ok(Ended::Well)
    }
}
