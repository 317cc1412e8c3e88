//! `tally vault query NODE`

use super::filter::{self, Filter};
use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;

/// Arguments of `tally vault query`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Query {
    #[command(flatten)]
    node: NodeArguments,
    #[command(flatten)]
    filter: Filter,
    /// How many at most
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
}

impl Query {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let mut query = self.filter.query(&reached)?;
        let mut states = Vec::new();
        let mut more = true;
        while more && states.len() < self.limit {
            query.page_size = u32::try_from((self.limit - states.len()).min(1000)).unwrap_or(1000);
            let page = reached.wait(reached.client.query_vault(&query))?;
            states.extend(page.states);
            more = page.next.is_some();
            query.cursor = page.next;
        }
        if self.json {
            for state in &states {
                print::line(&serde_json::to_string(&filter::json(state))?);
            }
        } else if states.is_empty() {
            print::line("no states");
        } else {
            filter::show(&states);
            if more {
                print::line(&format!("there are more: --limit {}", self.limit.saturating_mul(2)));
            }
        }
        Ok(Ended::Well)
    }
}
