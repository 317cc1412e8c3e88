//! `tally rpc info NODE`

use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;
use serde_json::json;
use tally_bench::table;
use tally_rpc::NotaryKind;

/// Arguments of `tally rpc info`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Info {
    #[command(flatten)]
    node: NodeArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let info = reached.wait(reached.client.node_info())?;
        if self.json {
            let info = json!({
                "name": info.name,
                "key": info.key,
                "addresses": info.addresses,
                "version": info.version,
                "notary": info.notary.map(kind),
                "started_at_ms": info.started_at_ms,
                "now_ms": info.now_ms,
                "unfinished_flows": info.unfinished_flows,
            });
            print::line(&serde_json::to_string(&info)?);
            return Ok(Ended::Well);
        }
        let facts = [
            ("name", info.name),
            ("key", info.key),
            ("addresses", info.addresses.join(", ")),
            ("version", info.version),
            ("notary", info.notary.map_or("no", kind).to_owned()),
            ("started", print::time(info.started_at_ms)),
            ("clock", print::time(info.now_ms)),
            ("unfinished flows", table::count(info.unfinished_flows)),
        ];
        print::line(table::facts(facts).trim_end_matches('\n'));
        Ok(Ended::Well)
    }
}

/// A kind of notary in words.
pub(super) fn kind(kind: NotaryKind) -> &'static str {
    match kind {
        NotaryKind::NonValidating => "non-validating",
        NotaryKind::Validating => "validating",
    }
}
