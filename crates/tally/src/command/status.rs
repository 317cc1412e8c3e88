//! `tally status UETR|ID`

use super::{Ended, print};
use crate::connection::ConnectionArguments;
use tally_settlement::proof::Wanted;

/// Arguments of `tally status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusOf {
    /// The transaction's reference, or its id
    transaction: Wanted,
}

impl StatusOf {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let outcome = connection.connect()?.client.status(&self.transaction.to_string())?;
        print::outcome(&outcome);
        Ok(Ended::Well)
    }
}
