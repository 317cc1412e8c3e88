//! `tally network status DIR`

use super::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::flows_network::layout::NetworkDirectory;
use crate::flows_network::reach::NodeArguments;
use std::path::{Path, PathBuf};
use tally_bench::table::{self, Align, Table};
use tally_gateway::wire::NetworkView;

/// Arguments of `tally network status`.
#[derive(Debug, clap::Args)]
pub(super) struct Status {
    /// Directory of the network
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(super) fn run(self, arguments: &ConnectionArguments) -> anyhow::Result<Ended> {
        if let Some(directory) =
            self.directory.as_deref().filter(|directory| NetworkDirectory::is_one(directory))
        {
            return nodes(directory, self.json);
        }
        let mut arguments = arguments.clone();
        arguments.network = self.directory.or(arguments.network);
        let client = arguments.connect()?.client;
        let view = client.network()?;
        if self.json {
            print::line(&serde_json::to_string(&view)?);
        } else {
            let metrics = client.metrics()?;
            show(&view, &metrics)?;
        }
        Ok(if view.health.healthy { Ended::Well } else { Ended::Refused })
    }
}

/// How each node of a network of nodes does.
fn nodes(directory: &Path, as_json: bool) -> anyhow::Result<Ended> {
    let mut rows = Table::new(&[
        ("node", Align::Left),
        ("state", Align::Left),
        ("unfinished flows", Align::Right),
        ("name", Align::Left),
    ]);
    let mut ended = Ended::Well;
    for node in NetworkDirectory::new(directory).nodes()? {
        let asked = NodeArguments::directory(node.root()).connect();
        let info = asked.and_then(|reached| reached.wait(reached.client.node_info()));
        if as_json {
            let info = info.as_ref();
            print::line(&serde_json::to_string(&serde_json::json!({
                "node": node.label(),
                "serves": info.is_ok(),
                "name": info.ok().map(|info| &info.name),
                "unfinished_flows": info.ok().map(|info| info.unfinished_flows),
                "error": info.err().map(|error| format!("{error:#}")),
            }))?);
        }
        match info {
            Ok(info) => {
                rows.row([node.label(), "serves".to_owned(), table::count(info.unfinished_flows), info.name])
            }
            Err(error) => {
                ended = Ended::Refused;
                rows.row([node.label(), format!("{error:#}"), String::new(), String::new()]);
            }
        }
    }
    if !as_json {
        print::line(rows.render(table::styled()).trim_end_matches('\n'));
    }
    Ok(ended)
}

fn show(view: &NetworkView, metrics: &str) -> anyhow::Result<()> {
    print::line(&format!("network {}: {}", view.network.id, view.health.text));
    print::line(&format!("decided {} transactions", view.sequence));
    if let Some(signed) = &view.tree_head {
        let root = tally_gateway::codec::to_hex(&signed.head.root);
        print::line(&format!("tree head {} of {} records", root, signed.head.size));
    }
    print::line("");
    print::line(&format!("{:11}  {:16}  {}", "participant", "kind", "name"));
    for (participant, kind) in view.network.participants.iter().zip(&view.kinds) {
        let kind = serde_json::to_value(kind)?;
        let kind = kind.as_str().unwrap_or_default();
        print::line(&format!("{:11}  {kind:16}  {}", participant.bic, participant.name));
    }
    print::line("");
    print::line(&format!(
        "{:11}  {:12}  {:>8}  {:>18}  {:>18}  {:>18}  {:>18}",
        "institution", "asset", "accounts", "customers", "own funds", "held for others", "issued"
    ));
    for total in &view.totals {
        let exponent = view.network.asset(&total.asset).map_or(0, |(_, asset)| asset.exponent);
        let amount = |minor_units| print::decimal(minor_units, exponent);
        print::line(&format!(
            "{:11}  {:12}  {:>8}  {:>18}  {:>18}  {:>18}  {:>18}",
            total.institution,
            total.asset,
            total.accounts,
            amount(total.customers),
            amount(total.own),
            amount(total.settlement),
            amount(total.issued)
        ));
    }
    print::line("");
    print::line("since the start");
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, value)) = line.rsplit_once(' ')
            && !name.contains("_bucket")
            && value != "0"
        {
            print::line(&format!("  {} {value}", name.trim_end_matches("{}")));
        }
    }
    Ok(())
}
