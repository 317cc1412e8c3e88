//! `tally node recover NODE`

use crate::command::Ended;
use crate::command::flow::watch;
use crate::flows_network::names;
use crate::flows_network::reach::NodeArguments;
use anyhow::Context;
use serde_json::{Map, Value};
use tally_rpc::StartFlow;

/// Arguments of `tally node recover`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Recover {
    #[command(flatten)]
    node: NodeArguments,
    /// Ask these peers only, by name or organisation; everybody on the network map if absent
    #[arg(long = "from", value_name = "PARTY")]
    peers: Vec<String>,
    /// How long a peer has for each page of its ledger, in milliseconds; 30000 if absent
    #[arg(long, value_name = "MS")]
    wait_ms: Option<u64>,
}

impl Recover {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let mut arguments = Map::new();
        if !self.peers.is_empty() {
            let map = reached.wait(reached.client.network_map())?;
            let peers = self.peers.iter().map(|peer| {
                names::resolve(&map, peer).map(Value::from).with_context(|| format!("--from {peer}"))
            });
            arguments.insert("peers".to_owned(), peers.collect::<anyhow::Result<Vec<_>>>()?.into());
        }
        if let Some(wait_ms) = self.wait_ms {
            arguments.insert("wait_ms".to_owned(), wait_ms.into());
        }
        let start = StartFlow { flow: "Recover".to_owned(), arguments, request_id: None };
        let flow = reached.wait(reached.client.start_flow(&start))?;
        watch::follow(&reached, &flow)
    }
}
