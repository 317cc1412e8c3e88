//! `tally rpc map NODE`

use super::info::kind;
use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;
use serde_json::json;
use tally_bench::table::{self, Align, Table};

/// Arguments of `tally rpc map`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Map {
    #[command(flatten)]
    node: NodeArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Map {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let map = reached.wait(reached.client.network_map())?;
        if self.json {
            let parties = map.parties.iter().map(|party| {
                json!({ "name": party.name, "key": party.key, "addresses": party.addresses, "serial": party.serial })
            });
            let notaries = map
                .notaries
                .iter()
                .map(|notary| json!({ "name": notary.name, "key": notary.key, "kind": kind(notary.kind) }));
            let map = json!({
                "parties": parties.collect::<Vec<_>>(),
                "notaries": notaries.collect::<Vec<_>>(),
                "parameters": map.parameters,
            });
            print::line(&serde_json::to_string(&map)?);
            return Ok(Ended::Well);
        }
        let mut rows = Table::new(&[
            ("name", Align::Left),
            ("notary", Align::Left),
            ("addresses", Align::Left),
            ("key", Align::Left),
        ]);
        for party in map.parties {
            let notary = map.notaries.iter().find(|notary| notary.name == party.name);
            rows.row([
                party.name,
                notary.map_or("", |notary| kind(notary.kind)).to_owned(),
                party.addresses.join(", "),
                party.key,
            ]);
        }
        print::line(rows.render(table::styled()).trim_end_matches('\n'));
        print::line(&format!("parameters {}", map.parameters));
        Ok(Ended::Well)
    }
}
