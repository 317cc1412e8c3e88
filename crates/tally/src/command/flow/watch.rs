//! `tally flow watch NODE ID`

use crate::command::{Ended, print};
use crate::flows_network::reach::{NodeArguments, Reached};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use tally_rpc::{ClientError, FlowEvent, FlowStep, Outcome};

/// Arguments of `tally flow watch`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Watch {
    #[command(flatten)]
    node: NodeArguments,
    /// The flow
    id: String,
}

impl Watch {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        follow(&self.node.connect()?, &self.id)
    }
}

/// Shows the steps of a flow on standard error, and its outcome as JSON on standard output.
pub(in crate::command) fn follow(reached: &Reached, flow: &str) -> anyhow::Result<Ended> {
    let again = |error: ClientError| match error {
        error @ ClientError::Refused(_) => anyhow::Error::from(error),
        error => anyhow::Error::from(error).context(format!(
            "flow {flow} may go on without being watched; to watch it again: tally flow watch {} {flow}",
            reached.node
        )),
    };
    let outcome = reached.block_on(async {
        let mut watch = reached.client.watch_flow(flow).await.map_err(again)?;
        loop {
            match watch.next().await.map_err(again)? {
                Some(FlowEvent::Step(step)) => eprintln!("{}", describe(&step)),
                Some(FlowEvent::Ended(outcome)) => return Ok(outcome),
                None => bail!("the node stopped telling about flow {flow} before its end"),
            }
        }
    })?;
    print::line(&serde_json::to_string(&json(flow, &outcome)).context("an outcome that is no JSON")?);
    Ok(match outcome {
        Outcome::Completed(_) => Ended::Well,
        Outcome::Failed(failure) => {
            eprintln!("failed: {failure}");
            Ended::Refused
        }
    })
}

/// A step in a line.
pub(super) fn describe(step: &FlowStep) -> String {
    step.path.iter().chain([&step.label]).map(String::as_str).collect::<Vec<_>>().join(" / ")
}

/// An outcome as the command line prints it.
pub(super) fn json(flow: &str, outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Completed(output) => json!({ "flow": flow, "completed": output }),
        Outcome::Failed(failure) => json!({ "flow": flow, "failed": {
            "code": failure.code, "reason": failure.reason, "counterparty": failure.counterparty,
        }}),
    }
}
