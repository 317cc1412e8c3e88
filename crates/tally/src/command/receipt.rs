//! `tally receipt UETR`

use super::{Ended, print};
use crate::connection::ConnectionArguments;
use anyhow::Context;

/// Arguments of `tally receipt`.
#[derive(Debug, clap::Args)]
pub(super) struct ReceiptOf {
    /// The transaction's reference
    uetr: tally_ledger::Uetr,
}

impl ReceiptOf {
    /// Prints the receipt as JSON, after checking it against the operator's key: that of the first participant. Ends
    /// with 1 when what is proven is a refusal.
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let connected = connection.connect()?;
        let receipt = connected.client.receipt(&self.uetr.to_string())?;
        let operator = connected.network.participants.first().context("the network has no participants")?;
        let verdict = receipt.verify(&connected.network.id, &operator.key);
        let proven = verdict.with_context(|| format!("the receipt of {} proves nothing", self.uetr))?;
        print::line(&serde_json::to_string_pretty(&receipt)?);
        Ok(if proven.is_ok() { Ended::Well } else { Ended::Refused })
    }
}
