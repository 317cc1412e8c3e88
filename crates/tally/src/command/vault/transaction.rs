//! `tally vault transaction NODE ID`

use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;
use anyhow::Context;
use std::path::PathBuf;

/// Arguments of `tally vault transaction`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Transaction {
    #[command(flatten)]
    node: NodeArguments,
    /// The transaction
    id: String,
    /// Also write the signed transaction to this file, in its canonical encoding
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Transaction {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let transaction = reached.wait(reached.client.transaction(&self.id))?;
        print::line(&serde_json::to_string_pretty(&transaction.details)?);
        if let Some(file) = &self.out {
            std::fs::write(file, &transaction.encoded)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(Ended::Well)
    }
}
