//! `tally node parameters show NODE`, `tally node parameters accept NODE EPOCH`

use crate::command::{Ended, print};
use crate::flows_network::reach::{NodeArguments, Reached};
use serde_json::{Value, json};

/// The commands about the network's parameters at one node.
#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Parameters {
    /// Show which parameters are in force, announced and accepted
    Show(Show),
    /// Accept parameters that are in force or announced: without that a node takes no new work under them
    Accept(Accept),
}

/// Arguments of `tally node parameters show`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Show {
    #[command(flatten)]
    node: NodeArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `tally node parameters accept`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Accept {
    #[command(flatten)]
    node: NodeArguments,
    /// The epoch, as `tally node parameters show` names it
    epoch: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Parameters {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        match self {
            Self::Show(Show { node, json }) => {
                let reached = node.connect()?;
                let found = reached.wait(reached.client.parameters(None))?;
                tell(&reached, found, json);
            }
            Self::Accept(Accept { node, epoch, json }) => {
                let reached = node.connect()?;
                let found = reached.wait(reached.client.parameters(Some(epoch)))?;
                tell(&reached, found, json);
            }
        }
        Ok(Ended::Well)
    }
}

fn tell(reached: &Reached, found: tally_rpc::Parameters, as_json: bool) {
    let tally_rpc::Parameters { epoch, parameters, announced, accepted, missing } = found;
    if as_json {
        let announced = announced.as_ref().map(|next| &next.parameters);
        let told = json!({
            "in_force": parameters, "announced": announced, "accepted": accepted, "missing": missing,
        });
        print::line(&told.to_string());
        return;
    }
    let stands = |epoch: u32| if accepted.contains(&epoch) { "accepted" } else { "not accepted" };
    print::line(&format!("epoch {epoch}, in force, {}", stands(epoch)));
    fields(&parameters, None);
    if let Some(next) = announced {
        let from = print::time(next.in_force_from_ms);
        print::line(&format!(
            "epoch {}, announced, in force from {from}, {}",
            next.epoch,
            stands(next.epoch)
        ));
        fields(&next.parameters, Some(&parameters));
    }
    if let Some(missing) = missing {
        print::line(&format!("{} takes no new work: {missing}", reached.node));
    }
}

/// Each field on a line; of announced parameters those that differ from the ones in force.
fn fields(parameters: &Value, before: Option<&Value>) {
    let Some(fields) = parameters.as_object() else { return };
    for (field, value) in fields {
        if before.is_none_or(|before| before.get(field) != Some(value)) {
            print::line(&format!("  {field}: {value}"));
        }
    }
}
