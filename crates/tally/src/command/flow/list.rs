//! `tally flow list NODE`

use super::show;
use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;
use anyhow::bail;
use std::str::FromStr;
use tally_bench::table::{self, Align, Table};
use tally_rpc::{FlowQuery, FlowState};

/// Arguments of `tally flow list`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct List {
    #[command(flatten)]
    node: NodeArguments,
    /// Only flows that are running, paused, held, completed, failed or unknown; may be repeated
    #[arg(long)]
    state: Vec<State>,
    /// Only flows of this name
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// How many at most
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug)]
struct State(FlowState);

impl FromStr for State {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(Self(match text {
            "running" => FlowState::Running,
            "paused" => FlowState::Paused,
            "held" => FlowState::Held,
            "completed" => FlowState::Completed,
            "failed" => FlowState::Failed,
            "unknown" => FlowState::Unknown,
            other => bail!(
                "'{other}' is no state of a flow: running, paused, held, completed, failed or unknown is wanted"
            ),
        }))
    }
}

impl List {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let mut flows = Vec::new();
        let mut cursor = None;
        let mut more = true;
        while more && flows.len() < self.limit {
            let query = FlowQuery {
                states: self.state.iter().map(|state| state.0).collect(),
                flow: self.flow.clone(),
                page_size: u32::try_from((self.limit - flows.len()).min(1000)).unwrap_or(1000),
                cursor,
            };
            let page = reached.wait(reached.client.flows(&query))?;
            flows.extend(page.flows);
            more = page.next.is_some();
            cursor = page.next;
        }
        if self.json {
            for flow in &flows {
                print::line(&serde_json::to_string(&show::json(flow))?);
            }
            return Ok(Ended::Well);
        }
        let mut rows = Table::new(&[
            ("flow", Align::Left),
            ("name", Align::Left),
            ("state", Align::Left),
            ("started", Align::Left),
            ("by", Align::Left),
            ("step or outcome", Align::Left),
        ]);
        for flow in &flows {
            rows.row([
                flow.flow_id.clone(),
                flow.flow.clone(),
                show::state(flow.state).to_owned(),
                print::time(flow.started_at_ms),
                flow.origin.clone(),
                show::standing(flow),
            ]);
        }
        print::line(rows.render(table::styled()).trim_end_matches('\n'));
        if more {
            print::line(&format!("there are more: --limit {}", self.limit.saturating_mul(2)));
        }
        Ok(Ended::Well)
    }
}
