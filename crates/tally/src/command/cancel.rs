//! `tally cancel FILE`

use super::{Ended, pay, print};
use crate::connection::ConnectionArguments;
use anyhow::Context;
use std::path::PathBuf;
use tally_iso20022::{CancellationVerdict, Limits};

/// Arguments of `tally cancel`.
#[derive(Debug, clap::Args)]
pub(super) struct Cancel {
    /// A request for cancellation, camt.056
    file: PathBuf,
    /// Print the answer (camt.029) in place of a line for each cancellation
    #[arg(long)]
    xml: bool,
}

impl Cancel {
    pub(super) fn run(self, arguments: &ConnectionArguments) -> anyhow::Result<Ended> {
        let answer = arguments.connect()?.client.cancel(&pay::read(&self.file)?)?;
        let resolution = tally_iso20022::parse_resolution(answer.as_bytes(), &Limits::default())
            .context("the network's answer cannot be read")?;
        if self.xml {
            print::line(answer.trim_end());
        }
        let mut ended = Ended::Well;
        for answer in &resolution.answers {
            if answer.verdict != CancellationVerdict::Accepted {
                ended = Ended::Refused;
            }
            if !self.xml {
                let uetr = answer.original.uetr.as_ref().map(tally_iso20022::format_uetr);
                let reason = answer.reason.as_ref();
                let code = reason.and_then(|reason| reason.code.as_ref()).map_or("-", |code| code.as_str());
                let text = reason.map(|reason| reason.text.as_str()).unwrap_or_default();
                let uetr = uetr.as_deref().unwrap_or("-");
                print::line(&format!("{} {code:4}  {uetr:36}  {text}", answer.verdict.code()));
            }
        }
        Ok(ended)
    }
}
