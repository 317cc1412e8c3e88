//! `tally network key DIR NAME`

use super::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::layout::Layout;
use crate::{keys, passphrase};
use std::path::PathBuf;
use tally_crypto::keystore::ScryptCost;

/// Arguments of `tally network key`.
#[derive(Debug, clap::Args)]
pub(super) struct Key {
    /// Directory of the network
    directory: PathBuf,
    /// The customer's name or the institution's BIC
    name: String,
    /// A key of an institution: for a participant that is added to network.toml
    #[arg(long)]
    institution: bool,
}

impl Key {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let layout = Layout::new(&self.directory);
        let passphrase = passphrase::of_network(&layout, connection.passphrase_file.as_deref())?;
        let directory = if self.institution { layout.institution_keys() } else { layout.customer_keys() };
        let key = keys::create(&directory, &self.name, &passphrase, ScryptCost::DEFAULT)?;
        print::line(&key.public_key().to_string());
        Ok(Ended::Well)
    }
}
