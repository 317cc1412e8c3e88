//! `tally network status DIR`

use super::{Ended, print};
use crate::connection::ConnectionArguments;
use crate::wire::NetworkView;
use std::path::PathBuf;

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

fn show(view: &NetworkView, metrics: &str) -> anyhow::Result<()> {
    print::line(&format!("network {:08x}: {}", view.network.id.0, view.health.text));
    print::line(&format!("decided {} transactions", view.sequence));
    if let Some(signed) = &view.tree_head {
        let root = crate::codec::to_hex(&signed.head.root);
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
