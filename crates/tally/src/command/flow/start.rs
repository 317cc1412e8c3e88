//! `tally flow start NODE FLOW KEY=VALUE…`

use super::watch;
use crate::command::{Ended, print};
use crate::flows_network::names;
use crate::flows_network::reach::{NodeArguments, Reached};
use anyhow::{Context, ensure};
use serde_json::{Map, Value};
use tally_rpc::StartFlow;

/// Arguments of `tally flow start`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Start {
    #[command(flatten)]
    node: NodeArguments,
    /// The flow, such as CashPay; `tally flow names NODE` lists them
    flow: String,
    /// The flow's arguments: JSON, or else text; @PartyB is the party of that name on the network map
    #[arg(value_name = "KEY=VALUE")]
    arguments: Vec<String>,
    /// Print the flow's id once its start is durable, and leave it to itself
    #[arg(long, conflicts_with = "follow")]
    detach: bool,
    /// Show each step and wait for the end; this is the default
    #[arg(long)]
    follow: bool,
    /// A name for this request, at most 128 visible characters: starting with the same one again is the same start
    #[arg(long, value_name = "TEXT")]
    request_id: Option<String>,
}

impl Start {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let arguments = arguments(&reached, &self.arguments)?;
        let start = StartFlow { flow: self.flow, arguments, request_id: self.request_id };
        let flow = reached.wait(reached.client.start_flow(&start))?;
        if self.detach {
            print::line(&flow);
            return Ok(Ended::Well);
        }
        watch::follow(&reached, &flow)
    }
}

/// The arguments of a flow from the command line's `key=value`.
fn arguments(reached: &Reached, texts: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut arguments = Map::new();
    let mut map = None;
    for text in texts {
        let (key, value) = text
            .split_once('=')
            .with_context(|| format!("'{text}': KEY=VALUE is wanted, such as value=50"))?;
        let value = match value.strip_prefix('@') {
            Some(party) => {
                let map = match &map {
                    Some(map) => map,
                    None => map.insert(reached.wait(reached.client.network_map())?),
                };
                names::resolve(map, party).with_context(|| format!("argument {key}"))?.into()
            }
            None => serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)),
        };
        ensure!(arguments.insert(key.to_owned(), value).is_none(), "argument {key} is given twice");
    }
    Ok(arguments)
}
