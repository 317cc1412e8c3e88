//! `tally flow watch NODE ID`

use super::undelivered;
use crate::command::{Ended, print};
use crate::flows_network::reach::{NodeArguments, Reached};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use tally_rpc::{ClientError, FlowEvent, FlowStep, Outcome, Undelivered, UndeliveredQuery};

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
    let mut printed = json(flow, &outcome);
    if let (Some(lacking), Value::Object(printed)) = (lacking(reached, &outcome)?, &mut printed) {
        eprintln!("final, and not confirmed yet by: {}", undelivered::parties(&lacking));
        printed.insert("undelivered".to_owned(), lacking.iter().map(undelivered::json).collect());
    }
    print::line(&serde_json::to_string(&printed).context("an outcome that is no JSON")?);
    Ok(match outcome {
        Outcome::Completed(_) => Ended::Well,
        Outcome::Unknown(fate) => {
            eprintln!(
                "it is not known yet whether transaction {} is final: {}; the node asks its notary again, do not \
                 repeat the request: tally flow show {} {flow}",
                fate.transaction_id, fate.reason, reached.node
            );
            Ended::Refused
        }
        Outcome::Failed(failure) => {
            eprintln!("failed: {failure}");
            Ended::Refused
        }
    })
}

/// Who has not confirmed the transaction of an outcome; nothing when everybody has.
pub(super) fn lacking(reached: &Reached, outcome: &Outcome) -> anyhow::Result<Option<Vec<Undelivered>>> {
    let Outcome::Completed(output) = outcome else { return Ok(None) };
    let Some(transaction) = output.get("transaction").and_then(Value::as_str) else { return Ok(None) };
    let query = UndeliveredQuery {
        transaction_id: Some(transaction.to_owned()),
        page_size: 1000,
        ..UndeliveredQuery::default()
    };
    let lacking = reached.wait(reached.client.undelivered(&query))?.undelivered;
    Ok((!lacking.is_empty()).then_some(lacking))
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
        Outcome::Unknown(fate) => json!({ "flow": flow, "unknown": {
            "transaction": fate.transaction_id, "reason": fate.reason,
        }}),
    }
}
