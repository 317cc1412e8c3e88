//! `tally proof UETR|ID`

use super::{Ended, print};
use crate::connection::ConnectionArguments;
use anyhow::Context;
use std::path::PathBuf;
use tally_proof::Keys;
use tally_settlement::proof::Wanted;

/// Arguments of `tally proof`.
#[derive(Debug, clap::Args)]
pub(super) struct ProofOf {
    /// The transaction's reference, or its id
    transaction: Wanted,
    /// Where to write the proof; else it is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Institutions whose legs the proof shows, by BIC; all others are hidden
    #[arg(long, value_name = "BIC", value_delimiter = ',')]
    legs: Vec<String>,
}

impl ProofOf {
    /// Fetches the proof and checks it against the network's keys. Ends with 1 when what is proven is a refusal.
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let connected = connection.connect()?;
        let proof = connected.client.proof(&self.transaction.to_string(), &self.legs)?;
        let keys = Keys::of(&connected.network).context("the network has no participants")?;
        let proven = proof
            .verify_finality(&keys)
            .with_context(|| format!("the proof of {} proves nothing", self.transaction))?;
        let text = serde_json::to_string_pretty(&proof)?;
        match &self.out {
            Some(path) => std::fs::write(path, text + "\n")
                .with_context(|| format!("cannot write the proof to {}", path.display()))?,
            None => print::line(&text),
        }
        if proven.not_shown() > 0 {
            let missing: Vec<String> = proven.missing.iter().map(|of| keys.name(*of)).collect();
            eprintln!(
                "the approvals of {} institutions could not be had ({}): the proof shows finality alone",
                proven.not_shown(),
                missing.join(", ")
            );
        }
        Ok(if proven.verdict.is_ok() { Ended::Well } else { Ended::Refused })
    }
}
