use super::{
    NotUnderstood, REFERENCES_LIMIT, condition, invalid, json, missing, not_empty, optional, page_size, text,
};
use crate::refusal::Refusal;
use crate::types::{SortBy, StateStatus, TransactionInfo, VaultPage, VaultQuery, VaultState, VaultUpdate};
use crate::wire;

impl From<StateStatus> for wire::StateStatus {
    fn from(status: StateStatus) -> Self {
        match status {
            StateStatus::Unconsumed => Self::Unconsumed,
            StateStatus::Consumed => Self::Consumed,
            StateStatus::Any => Self::Any,
        }
    }
}

impl TryFrom<wire::QueryVaultRequest> for VaultQuery {
    type Error = Refusal;

    fn try_from(request: wire::QueryVaultRequest) -> Result<Self, Refusal> {
        let status = match wire::StateStatus::try_from(request.status) {
            Ok(wire::StateStatus::Unspecified | wire::StateStatus::Unconsumed) => StateStatus::Unconsumed,
            Ok(wire::StateStatus::Consumed) => StateStatus::Consumed,
            Ok(wire::StateStatus::Any) => StateStatus::Any,
            Err(_) => return Err(invalid(format!("`status` is {}, which is none", request.status))),
        };
        let sort_by = match wire::SortBy::try_from(request.sort_by) {
            Ok(wire::SortBy::Unspecified | wire::SortBy::Recorded) => SortBy::Recorded,
            Ok(wire::SortBy::Quantity) => SortBy::Quantity,
            Err(_) => return Err(invalid(format!("`sort_by` is {}, which is none", request.sort_by))),
        };
        if let (Some(from), Some(to)) = (request.quantity_from, request.quantity_to)
            && from > to
        {
            return Err(invalid(format!("`quantity_from` {from} is above `quantity_to` {to}")));
        }
        if let (Some(from), Some(until)) = (request.recorded_from_ms, request.recorded_until_ms)
            && from >= until
        {
            return Err(invalid(format!(
                "`recorded_from_ms` {from} is not before `recorded_until_ms` {until}"
            )));
        }
        if request.references.len() > REFERENCES_LIMIT {
            let count = request.references.len();
            return Err(invalid(format!(
                "there are {count} references; at most {REFERENCES_LIMIT} are looked up"
            )));
        }
        let references = request.references.into_iter().map(|reference| text("references", reference));
        Ok(Self {
            status,
            contract: condition("contract", request.contract)?,
            kind: condition("kind", request.kind)?,
            participant: condition("participant", request.participant)?,
            owner: condition("owner", request.owner)?,
            asset: condition("asset", request.asset)?,
            quantity_from: request.quantity_from,
            quantity_to: request.quantity_to,
            recorded_from_ms: request.recorded_from_ms,
            recorded_until_ms: request.recorded_until_ms,
            linear_id: condition("linear_id", request.linear_id)?,
            notary: condition("notary", request.notary)?,
            references: references.collect::<Result<_, _>>()?,
            sort_by,
            descending: request.descending,
            page_size: page_size(request.page_size)?,
            cursor: optional("cursor", request.cursor)?,
        })
    }
}

impl From<&VaultQuery> for wire::QueryVaultRequest {
    fn from(query: &VaultQuery) -> Self {
        let sort_by = match query.sort_by {
            SortBy::Recorded => wire::SortBy::Recorded,
            SortBy::Quantity => wire::SortBy::Quantity,
        };
        Self {
            status: wire::StateStatus::from(query.status).into(),
            contract: query.contract.clone(),
            kind: query.kind.clone(),
            participant: query.participant.clone(),
            owner: query.owner.clone(),
            asset: query.asset.clone(),
            quantity_from: query.quantity_from,
            quantity_to: query.quantity_to,
            recorded_from_ms: query.recorded_from_ms,
            recorded_until_ms: query.recorded_until_ms,
            linear_id: query.linear_id.clone(),
            notary: query.notary.clone(),
            references: query.references.clone(),
            sort_by: sort_by.into(),
            descending: query.descending,
            page_size: query.page_size,
            cursor: query.cursor.clone().unwrap_or_default(),
        }
    }
}

impl From<VaultState> for wire::VaultState {
    fn from(state: VaultState) -> Self {
        Self {
            reference: state.reference,
            status: wire::StateStatus::from(state.status).into(),
            contract: state.contract,
            kind: state.kind,
            notary: state.notary,
            participants: state.participants,
            owner: state.owner,
            asset: state.asset,
            quantity: state.quantity,
            linear_id: state.linear_id,
            recorded_at_ms: state.recorded_at_ms,
            consumed_by: state.consumed_by,
            locked_by: state.locked_by,
            encumbered: state.encumbered,
            lost_to: state.lost_to,
            details_json: state.details.to_string(),
        }
    }
}

impl TryFrom<wire::VaultState> for VaultState {
    type Error = NotUnderstood;

    fn try_from(state: wire::VaultState) -> Result<Self, NotUnderstood> {
        let status = match wire::StateStatus::try_from(state.status) {
            Ok(wire::StateStatus::Unconsumed) => StateStatus::Unconsumed,
            Ok(wire::StateStatus::Consumed) => StateStatus::Consumed,
            _ => return Err(NotUnderstood { field: "status", what: state.status.to_string() }),
        };
        Ok(Self {
            reference: state.reference,
            status,
            contract: state.contract,
            kind: state.kind,
            notary: state.notary,
            participants: state.participants,
            owner: state.owner,
            asset: state.asset,
            quantity: state.quantity,
            linear_id: state.linear_id,
            recorded_at_ms: state.recorded_at_ms,
            consumed_by: state.consumed_by,
            locked_by: state.locked_by,
            encumbered: state.encumbered,
            lost_to: state.lost_to,
            details: json("details_json", &state.details_json)?,
        })
    }
}

impl From<VaultPage> for wire::QueryVaultResponse {
    fn from(page: VaultPage) -> Self {
        Self {
            states: page.states.into_iter().map(Into::into).collect(),
            next: page.next.unwrap_or_default(),
        }
    }
}

impl TryFrom<wire::QueryVaultResponse> for VaultPage {
    type Error = NotUnderstood;

    fn try_from(page: wire::QueryVaultResponse) -> Result<Self, NotUnderstood> {
        let states = page.states.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(Self { states, next: not_empty(page.next) })
    }
}

impl From<VaultPage> for wire::VaultEvent {
    fn from(page: VaultPage) -> Self {
        Self { event: Some(wire::vault_event::Event::Snapshot(page.into())) }
    }
}

impl From<VaultUpdate> for wire::VaultEvent {
    fn from(update: VaultUpdate) -> Self {
        let update = wire::VaultUpdate {
            transaction_id: update.transaction_id,
            produced: update.produced.into_iter().map(Into::into).collect(),
            consumed: update.consumed,
        };
        Self { event: Some(wire::vault_event::Event::Update(update)) }
    }
}

/// The snapshot that begins a tracking stream.
pub(crate) fn snapshot(event: wire::VaultEvent) -> Result<VaultPage, NotUnderstood> {
    match event.event {
        Some(wire::vault_event::Event::Snapshot(page)) => page.try_into(),
        _ => Err(missing("snapshot")),
    }
}

/// An update of a tracking stream.
pub(crate) fn update(event: wire::VaultEvent) -> Result<VaultUpdate, NotUnderstood> {
    let Some(wire::vault_event::Event::Update(update)) = event.event else {
        return Err(missing("update"));
    };
    Ok(VaultUpdate {
        transaction_id: update.transaction_id,
        produced: update.produced.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        consumed: update.consumed,
    })
}

impl From<TransactionInfo> for wire::Transaction {
    fn from(transaction: TransactionInfo) -> Self {
        Self {
            transaction_id: transaction.transaction_id,
            encoded: transaction.encoded,
            details_json: transaction.details.to_string(),
        }
    }
}

impl TryFrom<wire::Transaction> for TransactionInfo {
    type Error = NotUnderstood;

    fn try_from(transaction: wire::Transaction) -> Result<Self, NotUnderstood> {
        Ok(Self {
            transaction_id: transaction.transaction_id,
            encoded: transaction.encoded,
            details: json("details_json", &transaction.details_json)?,
        })
    }
}
