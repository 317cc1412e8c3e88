//! `tally vault track NODE`

use super::filter::{self, Filter};
use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;
use serde_json::json;
use tally_rpc::VaultUpdate;

/// Arguments of `tally vault track`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Track {
    #[command(flatten)]
    node: NodeArguments,
    #[command(flatten)]
    filter: Filter,
    /// End after so many changes; by default, never
    #[arg(long, value_name = "NUMBER")]
    changes: Option<u64>,
    /// Print JSON: a line for each state of the first page, then one for each change
    #[arg(long)]
    json: bool,
}

impl Track {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let query = self.filter.query(&reached)?;
        reached.block_on(async {
            let (page, mut track) = reached.client.track_vault(&query).await?;
            if self.json {
                for state in &page.states {
                    print::line(&serde_json::to_string(&filter::json(state))?);
                }
            } else if !page.states.is_empty() {
                filter::show(&page.states);
            }
            let mut seen = 0;
            while self.changes.is_none_or(|wanted| seen < wanted) {
                show(&track.next().await?, self.json)?;
                seen += 1;
            }
            Ok(Ended::Well)
        })
    }
}

fn show(update: &VaultUpdate, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let change = json!({
            "transaction": update.transaction_id,
            "produced": update.produced.iter().map(filter::json).collect::<Vec<_>>(),
            "consumed": update.consumed,
        });
        print::line(&serde_json::to_string(&change)?);
        return Ok(());
    }
    print::line(&format!("transaction {}", update.transaction_id));
    for reference in &update.consumed {
        print::line(&format!("consumed {reference}"));
    }
    if !update.produced.is_empty() {
        filter::show(&update.produced);
    }
    Ok(())
}
