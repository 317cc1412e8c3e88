//! `tally flow names NODE`

use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;
use tally_bench::table::{self, Align, Table};

/// Arguments of `tally flow names`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Names {
    #[command(flatten)]
    node: NodeArguments,
}

impl Names {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let mut rows =
            Table::new(&[("flow", Align::Left), ("versions", Align::Left), ("arguments", Align::Left)]);
        for flow in reached.wait(reached.client.flow_names())? {
            let versions: Vec<String> = flow.versions.iter().map(u32::to_string).collect();
            rows.row([flow.flow, versions.join(", "), flow.arguments.join(", ")]);
        }
        print::line(rows.render(table::styled()).trim_end_matches('\n'));
        Ok(Ended::Well)
    }
}
