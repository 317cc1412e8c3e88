//! Flows, outcomes and transactions as clients read them.

use serde_json::{Value, json};
use tally_contracts::{Name, SignedTransaction, TransactionId};
use tally_flows::{FlowError, FlowState as Standing, Outcome, Registry, View};
use tally_rpc::{
    FlowFailure, FlowInfo, FlowPage, FlowQuery, FlowState, FlowStep, Refusal, RefusalCode, UndeliveredPage,
    UndeliveredQuery, UnknownFate,
};
use tally_store::{FlowRow, FlowStatus, Mark, StoreError};

use super::{millis, opening, origin};
use crate::core::Core;
use crate::desk::full_text;
use crate::desk::watch::Step;

/// An outcome: the output as JSON, or the failure with its code.
pub(super) fn outcome(
    registry: &Registry,
    name: &str,
    version: u32,
    outcome: &Outcome,
) -> tally_rpc::Outcome {
    match outcome {
        // A flow that answers has no output, and its name is that of the flow it answers.
        Ok(output) if output.is_empty() => tally_rpc::Outcome::Completed(Value::Null),
        Ok(output) => match registry.output_to_json(name, version, output) {
            Ok(value) => tally_rpc::Outcome::Completed(value),
            Err(error) => tally_rpc::Outcome::Completed(json!({ "unreadable": error.to_string() })),
        },
        // What was asked for is done, and must not be asked for again.
        Err(FlowError::Final { transaction, reason, .. }) => {
            let output = json!({ "transaction": transaction.to_string(), "ended_early": reason });
            tally_rpc::Outcome::Completed(output)
        }
        Err(FlowError::Unknown { transaction, reason, .. }) => tally_rpc::Outcome::Unknown(UnknownFate {
            transaction_id: transaction.to_string(),
            reason: reason.clone(),
        }),
        Err(error) => tally_rpc::Outcome::Failed(failure(error)),
    }
}

/// The outcome of a flow with what the node has learned since: the notary was asked again about a transaction that the
/// flow left unknown.
fn learned(core: &Core, outcome: Outcome) -> Result<Outcome, Refusal> {
    let Err(FlowError::Unknown { transaction, kind, reason }) = &outcome else { return Ok(outcome) };
    let (store, id) = (core.store(), *transaction);
    if store.transaction(id).map_err(store_refusal)?.is_some() {
        let (kind, reason) = (kind.clone(), reason.clone());
        return Ok(Err(FlowError::Final { transaction: id, kind, reason }));
    }
    if store.unresolved(Some(id), None, 1).map_err(store_refusal)?.is_empty() {
        return Ok(Err(FlowError::refused(format!(
            "its notary did not make transaction {id} final: {reason}"
        ))));
    }
    Ok(outcome)
}

/// What others have not confirmed, and what is not known to be final.
pub(super) fn undelivered(core: &Core, query: &UndeliveredQuery) -> Result<UndeliveredPage, Refusal> {
    let invalid =
        |what: &str| Refusal::new(RefusalCode::RequestInvalid, format!("{what} is no transaction's id"));
    let transaction: Option<TransactionId> = match &query.transaction_id {
        Some(text) => Some(text.parse().map_err(|_| invalid("`transaction_id`"))?),
        None => None,
    };
    let after: Option<(Name, TransactionId)> = match &query.cursor {
        Some(cursor) => {
            let parsed =
                cursor.split_once(' ').and_then(|(id, party)| Some((party.parse().ok()?, id.parse().ok()?)));
            let damaged = || Refusal::new(RefusalCode::CursorInvalid, "the cursor is damaged");
            Some(parsed.ok_or_else(damaged)?)
        }
        None => None,
    };
    let size = usize::try_from(query.page_size.clamp(1, 1000)).expect("a page's size");
    let unresolved = if after.is_none() {
        core.store().unresolved(transaction, None, size).map_err(store_refusal)?
    } else {
        Vec::new()
    };
    let rows = tally_store::UndeliveredQuery { transaction, after, due_by: None, limit: size };
    let rows = core.store().undelivered(&rows).map_err(store_refusal)?;
    let next = rows.last().filter(|_| rows.len() == size);
    let next = next.map(|row| format!("{} {}", row.transaction, row.party));
    let network = &core.parts().network;
    Ok(UndeliveredPage {
        undelivered: rows
            .into_iter()
            .map(|row| tally_rpc::Undelivered {
                transaction_id: row.transaction.to_string(),
                is_member: network.party(&row.party).is_some(),
                party: row.party.to_string(),
                first_tried_at_ms: millis(row.first_tried),
                last_tried_at_ms: millis(row.last_tried),
                due_at_ms: millis(row.due),
                reason: row.reason,
            })
            .collect(),
        unresolved: unresolved
            .into_iter()
            .map(|row| tally_rpc::Unresolved {
                transaction_id: row.unresolved.transaction.to_string(),
                first_tried_at_ms: millis(row.first_tried),
                last_tried_at_ms: millis(row.unresolved.at),
                due_at_ms: millis(row.due),
                reason: row.unresolved.reason,
            })
            .collect(),
        next,
    })
}

fn failure(error: &FlowError) -> FlowFailure {
    match error {
        FlowError::Counterparty { party, kind, reason } => {
            FlowFailure { code: kind.clone(), reason: reason.clone(), counterparty: Some(party.to_string()) }
        }
        error => FlowFailure { code: error.code().to_owned(), reason: error.to_string(), counterparty: None },
    }
}

pub(super) fn step(step: &Step) -> FlowStep {
    let mut path: Vec<String> = step.path.split(" / ").map(str::to_owned).collect();
    let label = path.pop().unwrap_or_default();
    FlowStep { path, label, at_ms: millis(step.at) }
}

pub(super) fn under_way(core: &Core, view: &View) -> FlowInfo {
    let (state, held_reason) = match &view.state {
        Standing::Running => (FlowState::Running, None),
        Standing::Healing { attempts, reason, .. } => {
            (FlowState::Running, Some(format!("tried {attempts} times, and again by itself: {reason}")))
        }
        Standing::Paused => (FlowState::Paused, None),
        Standing::Held { reason } => (FlowState::Held, Some(reason.clone())),
    };
    FlowInfo {
        flow_id: view.flow.to_string(),
        flow: view.name.to_string(),
        version: view.version,
        state,
        origin: origin(&view.origin),
        started_at_ms: millis(view.at),
        ended_at_ms: None,
        step: core.latest_step(view.flow).as_ref().map(step),
        held_reason,
        outcome: None,
    }
}

pub(super) fn row(core: &Core, row: FlowRow) -> Result<FlowInfo, Refusal> {
    let flow = tally_flows::FlowId(row.flow.flow);
    let broken = |what: &str, error: &dyn std::fmt::Display| {
        Refusal::new(RefusalCode::Internal, format!("flow {flow} in the database: {what}: {error}"))
    };
    let started_by = borsh::from_slice(&row.flow.origin).map_err(|error| broken("its origin", &error))?;
    let (state, ended_at_ms, held_reason, came_to) = match row.status {
        FlowStatus::Unfinished(Mark::Running) => (FlowState::Running, None, None, None),
        FlowStatus::Unfinished(Mark::Paused) => (FlowState::Paused, None, None, None),
        FlowStatus::Unfinished(Mark::Held { reason }) => (FlowState::Held, None, Some(reason), None),
        FlowStatus::Ended { outcome: bytes, at } => {
            let came_to: Outcome =
                borsh::from_slice(&bytes).map_err(|error| broken("its outcome", &error))?;
            let registry = core.engine().registry();
            let came_to = outcome(registry, &row.flow.name, row.flow.version, &learned(core, came_to)?);
            let state = match &came_to {
                tally_rpc::Outcome::Completed(_) => FlowState::Completed,
                tally_rpc::Outcome::Failed(_) => FlowState::Failed,
                tally_rpc::Outcome::Unknown(_) => FlowState::Unknown,
            };
            (state, Some(millis(at)), None, Some(came_to))
        }
    };
    Ok(FlowInfo {
        flow_id: flow.to_string(),
        flow: row.flow.name,
        version: row.flow.version,
        state,
        origin: origin(&started_by),
        started_at_ms: millis(row.flow.at),
        ended_at_ms,
        step: None,
        held_reason,
        outcome: came_to,
    })
}

/// Rows that one call looks at, at most, to fill a page.
const LOOKED_AT: usize = 10_000;

pub(super) fn flows(core: &Core, query: FlowQuery) -> Result<FlowPage, Refusal> {
    let wants = |state: FlowState| query.states.is_empty() || query.states.contains(&state);
    let ended = match (
        wants(FlowState::Completed) || wants(FlowState::Failed) || wants(FlowState::Unknown),
        wants(FlowState::Running) || wants(FlowState::Paused) || wants(FlowState::Held),
    ) {
        (true, true) => None,
        (ended, _) => Some(ended),
    };
    let wanted = usize::try_from(query.page_size.clamp(1, 1000)).expect("a page's size");
    let mut cursor = query.cursor.clone();
    let mut flows = Vec::new();
    let mut looked = 0;
    loop {
        let page = core
            .store()
            .flows(&tally_store::FlowQuery {
                name: query.flow.clone(),
                ended,
                cursor,
                page_size: u32::try_from(wanted - flows.len()).expect("a page's size"),
            })
            .map_err(store_refusal)?;
        looked += page.flows.len();
        for found in page.flows {
            let id = tally_flows::FlowId(found.flow.flow);
            let info = match core.engine().view(id) {
                Some(view) => under_way(core, &view),
                None => row(core, found)?,
            };
            if wants(info.state) {
                flows.push(info);
            }
        }
        cursor = page.next;
        if cursor.is_none() || flows.len() >= wanted || looked >= LOOKED_AT {
            return Ok(FlowPage { flows, next: cursor });
        }
    }
}

/// How an error of a query looks to a client.
pub(super) fn store_refusal(error: StoreError) -> Refusal {
    match error {
        StoreError::Cursor { .. } => Refusal::new(RefusalCode::CursorInvalid, full_text(&error)),
        StoreError::Query { .. } => Refusal::new(RefusalCode::RequestInvalid, full_text(&error)),
        error => opening(&error.into()),
    }
}

/// A transaction for a person.
pub(super) fn transaction(core: &Core, signed: &SignedTransaction) -> Value {
    let parts = core.parts();
    let transaction = signed.transaction();
    let name = |key: &tally_contracts::PublicKey| {
        parts.network.name_of(key).map_or_else(|| key.to_string(), |name| name.to_string())
    };
    let outputs: Vec<Value> = transaction
        .outputs()
        .iter()
        .map(|state| {
            let described = parts.contracts.describe(state).ok().flatten();
            json!({
                "contract": state.contract.to_string(),
                "notary": state.notary.name.to_string(),
                "kind": described.as_ref().map(|summary| summary.kind.clone()),
                "details": described.map(|summary| summary.details),
            })
        })
        .collect();
    json!({
        "inputs": transaction.inputs().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "references": transaction.references().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "outputs": outputs,
        "commands": transaction.commands().iter().map(|command| json!({
            "contract": command.contract.to_string(),
            "signers": command.signers.iter().map(&name).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "attachments": transaction.attachments().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "contracts": transaction.contracts().iter().map(|(contract, version)| json!({
            "contract": contract.to_string(), "version": version,
        })).collect::<Vec<_>>(),
        "notary": transaction.notary().name.to_string(),
        "signatures": signed.signatures().iter().map(|signature| name(&signature.by)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steps_path_ends_in_its_label() {
        let at = tally_contracts::Timestamp::from_millis(5);
        let shown = step(&Step { path: "CashPay / Finalise / Signing".into(), at });
        assert_eq!(
            shown,
            FlowStep { path: vec!["CashPay".into(), "Finalise".into()], label: "Signing".into(), at_ms: 5 }
        );
    }
}
