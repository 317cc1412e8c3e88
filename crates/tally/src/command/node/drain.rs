//! `tally node drain NODE`, `tally node resume NODE`

use crate::command::{Ended, print};
use crate::flows_network::reach::{NodeArguments, Reached};
use serde_json::json;
use std::time::Duration;

/// How often a node is asked how far it is drained.
const PAUSE: Duration = Duration::from_millis(200);

/// Arguments of `tally node drain`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Drain {
    #[command(flatten)]
    node: NodeArguments,
    /// Wait until no flow is under way
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `tally node resume`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Resume {
    #[command(flatten)]
    node: NodeArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Drain {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let mut drain = reached.wait(reached.client.drain(Some(true)))?;
        while self.wait && drain.draining && drain.under_way > 0 {
            std::thread::sleep(PAUSE);
            drain = reached.wait(reached.client.drain(None))?;
        }
        tell(&reached, drain, self.json);
        // Somebody else may have resumed it meanwhile.
        Ok(if drain.draining { Ended::Well } else { Ended::Refused })
    }
}

impl Resume {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let drain = reached.wait(reached.client.drain(Some(false)))?;
        tell(&reached, drain, self.json);
        Ok(Ended::Well)
    }
}

fn tell(reached: &Reached, drain: tally_rpc::Drain, as_json: bool) {
    let tally_rpc::Drain { draining, under_way, for_a_person, waiting } = drain;
    if as_json {
        let told = json!({
            "draining": draining,
            "under_way": under_way,
            "for_a_person": for_a_person,
            "waiting": waiting,
        });
        print::line(&told.to_string());
        return;
    }
    let stands = match (draining, under_way) {
        (false, _) => "takes new flows",
        (true, 0) => "is drained",
        (true, _) => "is being drained",
    };
    print::line(&format!(
        "{} {stands}: {under_way} flows under way, {for_a_person} paused or held, {waiting} of peers waiting",
        reached.node
    ));
}
