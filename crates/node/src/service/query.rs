//! Queries of the vault, and those who track it.

use std::str::FromStr;

use tally_contracts::{Name, PublicKey, StateRef, Timestamp};
use tally_rpc::{
    Feed, Refusal, RefusalCode, SortBy, StateStatus, VaultPage, VaultQuery, VaultState, VaultUpdate,
};
use tally_store::{Aside, Sort, StateQuery, Status};

use super::view::store_refusal;
use super::{full_text, millis};
use crate::core::{Core, VaultChange};

/// A page of the vault.
pub(super) fn page(core: &Core, query: &VaultQuery) -> Result<VaultPage, Refusal> {
    let page = core.store().states(&parse(core, query)?).map_err(store_refusal)?;
    Ok(VaultPage { states: page.states.iter().map(|state| show(core, state)).collect(), next: page.next })
}

/// The first page, and every change from before it on.
pub(super) fn track(core: &Core, query: &VaultQuery, feed: Feed<VaultUpdate>) -> Result<VaultPage, Refusal> {
    let parsed = parse(core, query)?;
    let filter = Filter(StateQuery { status: Status::All, ..parsed });
    let names = core.parts().network.clone();
    let store = core.store().clone();
    core.track(move |change| {
        if feed.is_closed() {
            return false;
        }
        let produced: Vec<VaultState> = change
            .produced
            .iter()
            .filter(|produced| {
                filter.passes(
                    &produced.summary,
                    &produced.state,
                    reference(change, produced.index),
                    change.at,
                )
            })
            .map(|produced| {
                show_parts(
                    names.as_ref(),
                    reference(change, produced.index),
                    &produced.state,
                    &produced.summary,
                    change.at,
                    Standing { aside: Aside::of(&produced.state), ..Standing::default() },
                )
            })
            .collect();
        let consumed = match store.vault(&change.consumed) {
            Ok(states) => states
                .into_iter()
                .flatten()
                .filter(|state| filter.passes(&state.summary, &state.state, state.reference, state.recorded))
                .map(|state| state.reference.to_string())
                .collect::<Vec<_>>(),
            Err(error) => {
                // The client learns that it missed something: it has to begin anew.
                tracing::warn!(error = full_text(&error), "a vault's tracker was dropped");
                return false;
            }
        };
        if produced.is_empty() && consumed.is_empty() {
            return true;
        }
        feed.offer(VaultUpdate { transaction_id: change.transaction.to_string(), produced, consumed }).is_ok()
    });
    page(core, query)
}

fn reference(change: &VaultChange, index: u32) -> StateRef {
    StateRef { transaction: change.transaction, index }
}

/// What a query asks of one state, whatever its status.
struct Filter(StateQuery);

impl Filter {
    fn passes(
        &self,
        summary: &tally_contracts::Summary,
        state: &tally_contracts::State,
        reference: StateRef,
        recorded: Timestamp,
    ) -> bool {
        let query = &self.0;
        fn is<T: PartialEq>(wanted: &Option<T>, found: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        }
        fn has<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        is(&query.contract, &state.contract)
            && is(&query.kind, &summary.kind)
            && is(&query.notary, &state.notary.name)
            && query
                .participant
                .as_ref()
                .is_none_or(|key| summary.participants.contains(key) || summary.owner.as_ref() == Some(key))
            && has(&query.owner, &summary.owner)
            && has(&query.asset, &summary.asset)
            && query
                .quantity_from
                .is_none_or(|least| summary.quantity.is_some_and(|quantity| quantity >= least))
            && query.quantity_to.is_none_or(|most| summary.quantity.is_some_and(|quantity| quantity <= most))
            && query.recorded_from.is_none_or(|from| recorded >= from)
            && query.recorded_until.is_none_or(|until| recorded < until)
            && has(&query.linear_id, &summary.linear_id)
            && query.references.as_ref().is_none_or(|references| references.contains(&reference))
    }
}

fn invalid(field: &str, reason: impl std::fmt::Display) -> Refusal {
    Refusal::new(RefusalCode::RequestInvalid, format!("{field}: {reason}"))
}

fn parsed<T: FromStr>(field: &str, text: Option<&String>) -> Result<Option<T>, Refusal>
where
    T::Err: std::fmt::Display,
{
    text.map(|text| text.parse().map_err(|error| invalid(field, error))).transpose()
}

/// A party's name or a public key.
fn key(core: &Core, field: &str, text: Option<&String>) -> Result<Option<PublicKey>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    if let Ok(key) = text.parse::<PublicKey>() {
        return Ok(Some(key));
    }
    let name: Name =
        text.parse().map_err(|error| invalid(field, format!("neither a key nor a party's name: {error}")))?;
    match core.parts().network.party(&name) {
        Some(party) => Ok(Some(party.key)),
        None => Err(invalid(field, format!("no party `{name}` is on the network map"))),
    }
}

fn parse(core: &Core, query: &VaultQuery) -> Result<StateQuery, Refusal> {
    Ok(StateQuery {
        status: match query.status {
            StateStatus::Unconsumed => Status::Unconsumed,
            StateStatus::Consumed => Status::Consumed,
            StateStatus::Any => Status::All,
        },
        contract: parsed("contract", query.contract.as_ref())?,
        kind: query.kind.clone(),
        notary: parsed("notary", query.notary.as_ref())?,
        participant: key(core, "participant", query.participant.as_ref())?,
        owner: key(core, "owner", query.owner.as_ref())?,
        asset: query.asset.clone(),
        quantity_from: query.quantity_from,
        quantity_to: query.quantity_to,
        recorded_from: query.recorded_from_ms.map(Timestamp::from_millis),
        recorded_until: query.recorded_until_ms.map(Timestamp::from_millis),
        linear_id: parsed("linear_id", query.linear_id.as_ref())?,
        references: if query.references.is_empty() {
            None
        } else {
            let references = query.references.iter().map(|text| text.parse::<StateRef>());
            Some(references.collect::<Result<_, _>>().map_err(|error| invalid("references", error))?)
        },
        sort: match query.sort_by {
            SortBy::Recorded => Sort::Recorded,
            SortBy::Quantity => Sort::Quantity,
        },
        descending: query.descending,
        cursor: query.cursor.clone(),
        page_size: query.page_size,
    })
}

fn show(core: &Core, state: &tally_store::VaultState) -> VaultState {
    let locked_by = core.holder(&state.reference).map(|flow| flow.to_string());
    show_parts(
        core.parts().network.as_ref(),
        state.reference,
        &state.state,
        &state.summary,
        state.recorded,
        Standing { consumed_by: state.consumed.map(|(by, _)| by.to_string()), locked_by, aside: state.aside },
    )
}

/// What became of a state.
#[derive(Default)]
struct Standing {
    consumed_by: Option<String>,
    locked_by: Option<String>,
    aside: Option<Aside>,
}

fn show_parts(
    network: &dyn crate::Network,
    reference: StateRef,
    state: &tally_contracts::State,
    summary: &tally_contracts::Summary,
    recorded: Timestamp,
    Standing { consumed_by, locked_by, aside }: Standing,
) -> VaultState {
    let name =
        |key: &PublicKey| network.name_of(key).map_or_else(|| key.to_string(), |name| name.to_string());
    VaultState {
        reference: reference.to_string(),
        status: if consumed_by.is_some() { StateStatus::Consumed } else { StateStatus::Unconsumed },
        contract: state.contract.to_string(),
        kind: summary.kind.clone(),
        notary: state.notary.name.to_string(),
        participants: summary.participants.iter().map(name).collect(),
        owner: summary.owner.as_ref().map(name),
        asset: summary.asset.clone(),
        quantity: summary.quantity,
        linear_id: summary.linear_id.map(|id| id.to_string()),
        recorded_at_ms: millis(recorded),
        consumed_by,
        locked_by,
        encumbered: aside == Some(Aside::Encumbered),
        lost_to: match aside {
            Some(Aside::Lost { by }) => Some(by.to_string()),
            Some(Aside::Encumbered) | None => None,
        },
        details: summary.details.clone(),
    }
}
