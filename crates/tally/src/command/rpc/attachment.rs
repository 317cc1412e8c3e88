//! `tally rpc upload NODE FILE`, `tally rpc download NODE ID FILE`

use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;
use anyhow::{Context, ensure};
use bytes::Bytes;
use std::path::PathBuf;
use tally_contracts::limits::ATTACHMENT_BYTES;

/// Arguments of `tally rpc upload`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Upload {
    #[command(flatten)]
    node: NodeArguments,
    /// The attachment
    file: PathBuf,
}

/// Arguments of `tally rpc download`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Download {
    #[command(flatten)]
    node: NodeArguments,
    /// The attachment's id
    id: String,
    /// Where to write it
    file: PathBuf,
}

impl Upload {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let failed = || format!("cannot read {}", self.file.display());
        let length = std::fs::metadata(&self.file).with_context(failed)?.len();
        ensure!(
            usize::try_from(length).is_ok_and(|length| length <= ATTACHMENT_BYTES),
            "{} has {length} bytes; an attachment has at most {ATTACHMENT_BYTES}",
            self.file.display()
        );
        let content = Bytes::from(std::fs::read(&self.file).with_context(failed)?);
        let reached = self.node.connect()?;
        print::line(&reached.wait(reached.client.upload_attachment(&content))?);
        Ok(Ended::Well)
    }
}

impl Download {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let content = reached.wait(reached.client.attachment(&self.id, ATTACHMENT_BYTES))?;
        std::fs::write(&self.file, &content)
            .with_context(|| format!("cannot write {}", self.file.display()))?;
        print::line(&format!("{} bytes in {}", content.len(), self.file.display()));
        Ok(Ended::Well)
    }
}
