//! `tally flow show NODE ID`

use super::{undelivered, watch};
use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;
use serde_json::{Value, json};
use tally_bench::table;
use tally_rpc::{FlowInfo, FlowState, Outcome};

/// Arguments of `tally flow show`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Show {
    #[command(flatten)]
    node: NodeArguments,
    /// The flow
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let flow = reached.wait(reached.client.flow(&self.id))?;
        let lacking = match &flow.outcome {
            Some(outcome) => watch::lacking(&reached, outcome)?,
            None => None,
        };
        if self.json {
            let mut printed = json(&flow);
            if let (Some(lacking), Value::Object(printed)) = (&lacking, &mut printed) {
                printed.insert("undelivered".to_owned(), lacking.iter().map(undelivered::json).collect());
            }
            print::line(&serde_json::to_string(&printed)?);
            return Ok(Ended::Well);
        }
        let mut facts = vec![
            ("flow", flow.flow_id.clone()),
            ("name", format!("{} version {}", flow.flow, flow.version)),
            ("state", state(flow.state).to_owned()),
            ("started", format!("{} by {}", print::time(flow.started_at_ms), flow.origin)),
        ];
        facts.extend(flow.ended_at_ms.map(|at| ("ended", print::time(at))));
        let standing = standing(&flow);
        facts.extend((!standing.is_empty()).then_some(("", standing)));
        facts.extend(lacking.map(|lacking| ("not confirmed by", undelivered::parties(&lacking))));
        print::line(table::facts(facts).trim_end_matches('\n'));
        Ok(Ended::Well)
    }
}

/// A state in a word.
pub(super) fn state(state: FlowState) -> &'static str {
    match state {
        FlowState::Running => "running",
        FlowState::Paused => "paused",
        FlowState::Held => "held",
        FlowState::Completed => "completed",
        FlowState::Failed => "failed",
        FlowState::Unknown => "unknown",
    }
}

/// How a flow ended, or why it does not go on, or how far it is.
pub(super) fn standing(flow: &FlowInfo) -> String {
    match (&flow.outcome, &flow.held_reason, &flow.step) {
        (Some(Outcome::Completed(Value::Null)), _, _) => String::new(),
        (Some(Outcome::Completed(output)), _, _) => output.to_string(),
        (Some(Outcome::Failed(failure)), _, _) => failure.to_string(),
        (Some(Outcome::Unknown(fate)), _, _) => {
            format!(
                "transaction {} may be final; its notary is asked again: {}",
                fate.transaction_id, fate.reason
            )
        }
        (None, Some(reason), _) => reason.clone(),
        (None, None, Some(step)) => watch::describe(step),
        (None, None, None) => String::new(),
    }
}

/// A flow as JSON.
pub(super) fn json(flow: &FlowInfo) -> Value {
    let mut object = json!({
        "flow": flow.flow_id,
        "name": flow.flow,
        "version": flow.version,
        "state": state(flow.state),
        "origin": flow.origin,
        "started_at_ms": flow.started_at_ms,
        "ended_at_ms": flow.ended_at_ms,
        "step": flow.step.as_ref().map(watch::describe),
        "reason": flow.held_reason,
    });
    if let (Some(outcome), Value::Object(object)) = (&flow.outcome, &mut object)
        && let Value::Object(ended) = watch::json(&flow.flow_id, outcome)
    {
        object.extend(ended);
    }
    object
}
