//! Which states of the vault to show.

use crate::read::VaultState;
use serde::{Deserialize, Serialize};
use tally_contracts::{ContractName, Name, PublicKey, StateRef, Timestamp};
use tally_crypto::Hash;

/// The most states that one page holds.
pub const MAX_PAGE_SIZE: u32 = 1000;
/// The most references that one query names.
pub const MAX_REFERENCES: usize = 1000;

/// Filters, all of which a state must pass, an order, and a page. As JSON: an object without fields
/// shows the first hundred unconsumed states in the order of recording; a field that does not exist is
/// refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateQuery {
    /// Consumed or not.
    pub status: Status,
    /// Governed by this contract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<ContractName>,
    /// Of this kind, as in `Summary::kind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// With this notary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
    /// With this key among the participants, or as the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participant: Option<PublicKey>,
    /// With this owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<PublicKey>,
    /// Of this asset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// With at least this quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity_from: Option<u64>,
    /// With at most this quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity_to: Option<u64>,
    /// Recorded at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_from: Option<Timestamp>,
    /// Recorded before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_until: Option<Timestamp>,
    /// A version of this linear state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear_id: Option<Hash>,
    /// One of these; at most [`MAX_REFERENCES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<Vec<StateRef>>,
    /// Sorted by what.
    pub sort: Sort,
    /// The other way round: newest or largest first.
    pub descending: bool,
    /// Where the page before ended: [`StatePage::next`](crate::StatePage::next).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many states at most: 1 to [`MAX_PAGE_SIZE`], 100 when it is 0.
    pub page_size: u32,
}

/// Whether a state was consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It can still be consumed.
    #[default]
    Unconsumed,
    /// A recorded transaction consumed it.
    Consumed,
    /// Either.
    All,
}

/// The order of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// As recorded: by transaction, and by index within one.
    #[default]
    Recorded,
    /// By quantity, then as recorded. Only unconsumed states that have an asset and a quantity.
    Quantity,
}

impl StateQuery {
    /// Whether a state passes every filter; order and page aside.
    pub fn matches(&self, state: &VaultState) -> bool {
        fn asks<T: PartialEq>(filter: &Option<T>, value: Option<&T>) -> bool {
            filter.as_ref().is_none_or(|wanted| Some(wanted) == value)
        }
        let summary = &state.summary;
        let status = match self.status {
            Status::Unconsumed => state.consumed.is_none(),
            Status::Consumed => state.consumed.is_some(),
            Status::All => true,
        };
        let takes_part = |key: &PublicKey| summary.participants.contains(key) || summary.owner == Some(*key);
        let quantity = |bound: Option<u64>, holds: fn(u64, u64) -> bool| {
            bound.is_none_or(|bound| summary.quantity.is_some_and(|quantity| holds(quantity, bound)))
        };
        status
            && asks(&self.contract, Some(&state.state.contract))
            && asks(&self.kind, Some(&summary.kind))
            && asks(&self.notary, Some(&state.state.notary.name))
            && self.participant.as_ref().is_none_or(takes_part)
            && asks(&self.owner, summary.owner.as_ref())
            && asks(&self.asset, summary.asset.as_ref())
            && quantity(self.quantity_from, |quantity, bound| quantity >= bound)
            && quantity(self.quantity_to, |quantity, bound| quantity <= bound)
            && self.recorded_from.is_none_or(|from| state.recorded >= from)
            && self.recorded_until.is_none_or(|until| state.recorded < until)
            && asks(&self.linear_id, summary.linear_id.as_ref())
            && self.references.as_ref().is_none_or(|references| references.contains(&state.reference))
            && (self.sort == Sort::Recorded
                || (state.consumed.is_none() && summary.asset.is_some() && summary.quantity.is_some()))
    }
}

/// The size of a page that a query asks for.
pub(crate) fn page_size(asked: u32) -> usize {
    let size = if asked == 0 { 100 } else { asked.min(MAX_PAGE_SIZE) };
    // At most a thousand.
    size as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_object_asks_for_all_unconsumed_states() {
        assert_eq!(serde_json::from_str::<StateQuery>("{}").unwrap(), StateQuery::default());
        assert_eq!((page_size(0), page_size(7), page_size(u32::MAX)), (100, 7, 1000));
    }

    #[test]
    fn json_round_trips() {
        let json = serde_json::json!({
            "status": "all", "contract": "tally.cash", "kind": "cash", "notary": "O=N, L=London, C=GB",
            "participant": format!("ed25519:{}", "02".repeat(32)), "owner": format!("ed25519:{}", "03".repeat(32)),
            "asset": "USD", "quantity_from": 1, "quantity_to": u64::MAX, "recorded_from": 5, "recorded_until": 6,
            "linear_id": "04".repeat(32), "references": [format!("{}:7", "05".repeat(32))],
            "sort": "quantity", "descending": true, "cursor": "00", "page_size": 9,
        });
        let query: StateQuery = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&query).unwrap(), json);
        assert_eq!(query.references.unwrap()[0].index, 7);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for json in [
            r#"{"owners": []}"#,
            r#"{"status": "spent"}"#,
            r#"{"sort": "kind"}"#,
            r#"{"notary": "N"}"#,
            r#"{"owner": "ed25519:00"}"#,
            r#"{"references": ["00:1"]}"#,
            r#"{"page_size": -1}"#,
            r#"{"quantity_from": 1.5}"#,
        ] {
            assert!(serde_json::from_str::<StateQuery>(json).is_err(), "{json}");
        }
    }
}
