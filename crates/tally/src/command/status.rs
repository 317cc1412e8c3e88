//! `tally status UETR`

use super::{Ended, print};
use crate::connection::ConnectionArguments;

/// Arguments of `tally status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusOf {
    /// The transaction's reference
    uetr: tally_ledger::Uetr,
}

impl StatusOf {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let outcome = connection.connect()?.client.status(&self.uetr.to_string())?;
        print::outcome(&outcome);
        Ok(Ended::Well)
    }
}
