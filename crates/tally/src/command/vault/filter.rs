//! Which states, and how they look.

use crate::command::print;
use crate::flows_network::names;
use crate::flows_network::reach::Reached;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::str::FromStr;
use tally_bench::table::{self, Align, Table};
use tally_rpc::{NetworkMap, SortBy, StateStatus, VaultQuery, VaultState};

/// Which states of a vault, in which order.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::command) struct Filter {
    /// States that are unconsumed, consumed, or any
    #[arg(long, default_value = "unconsumed")]
    status: StatusArgument,
    /// Only of this kind, such as cash, iou or bond
    #[arg(long)]
    kind: Option<String>,
    /// Only of this contract
    #[arg(long, value_name = "NAME")]
    contract: Option<String>,
    /// Only of this asset, such as 'USD@O=PartyA, L=London, C=GB'
    #[arg(long)]
    asset: Option<String>,
    /// Only with this owner: a name (@PartyB is enough) or a public key
    #[arg(long, value_name = "PARTY")]
    owner: Option<String>,
    /// Only with this participant: a name (@PartyB is enough) or a public key
    #[arg(long, value_name = "PARTY")]
    participant: Option<String>,
    /// Only with this notary: a name (@Notary is enough)
    #[arg(long, value_name = "PARTY")]
    notary: Option<String>,
    /// Only with this linear id
    #[arg(long, value_name = "ID")]
    linear_id: Option<String>,
    /// Only these states, as transaction:index; may be repeated
    #[arg(long, value_name = "STATE")]
    reference: Vec<String>,
    /// At least this quantity, in minor units
    #[arg(long, value_name = "NUMBER")]
    quantity_from: Option<u64>,
    /// At most this quantity, in minor units
    #[arg(long, value_name = "NUMBER")]
    quantity_to: Option<u64>,
    /// Recorded at or after this time
    #[arg(long, value_name = "TIME")]
    recorded_from: Option<humantime::Timestamp>,
    /// Recorded before this time
    #[arg(long, value_name = "TIME")]
    recorded_until: Option<humantime::Timestamp>,
    /// In the order of recorded time, or of quantity if they are unconsumed
    #[arg(long, default_value = "recorded")]
    sort: SortArgument,
    /// From the greatest to the least
    #[arg(long)]
    descending: bool,
}

#[derive(Clone, Copy, Debug)]
struct StatusArgument(StateStatus);

impl FromStr for StatusArgument {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(Self(match text {
            "unconsumed" => StateStatus::Unconsumed,
            "consumed" => StateStatus::Consumed,
            "any" => StateStatus::Any,
            other => bail!("'{other}' is no status of a state: unconsumed, consumed or any is wanted"),
        }))
    }
}

#[derive(Clone, Copy, Debug)]
struct SortArgument(SortBy);

impl FromStr for SortArgument {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(Self(match text {
            "recorded" => SortBy::Recorded,
            "quantity" => SortBy::Quantity,
            other => bail!("states are sorted by recorded or quantity, not by '{other}'"),
        }))
    }
}

impl Filter {
    /// The query, less its page.
    pub(super) fn query(&self, reached: &Reached) -> anyhow::Result<VaultQuery> {
        let mut map = None;
        let mut party = |option: &str, text: &Option<String>| -> anyhow::Result<Option<String>> {
            let Some(text) = text else { return Ok(None) };
            let Some(party) = text.strip_prefix('@') else { return Ok(Some(text.clone())) };
            let map: &NetworkMap = match &map {
                Some(map) => map,
                None => map.insert(reached.wait(reached.client.network_map())?),
            };
            names::resolve(map, party).with_context(|| option.to_owned()).map(Some)
        };
        Ok(VaultQuery {
            status: self.status.0,
            contract: self.contract.clone(),
            kind: self.kind.clone(),
            participant: party("--participant", &self.participant)?,
            owner: party("--owner", &self.owner)?,
            asset: self.asset.clone(),
            quantity_from: self.quantity_from,
            quantity_to: self.quantity_to,
            recorded_from_ms: self.recorded_from.map(millis).transpose()?,
            recorded_until_ms: self.recorded_until.map(millis).transpose()?,
            linear_id: self.linear_id.clone(),
            notary: party("--notary", &self.notary)?,
            references: self.reference.clone(),
            sort_by: self.sort.0,
            descending: self.descending,
            page_size: 0,
            cursor: None,
        })
    }
}

fn millis(time: humantime::Timestamp) -> anyhow::Result<u64> {
    let since = std::time::SystemTime::from(time).duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.context("a time before 1970")?.as_millis()).context("a time too far away")
}

/// States for a person.
pub(super) fn show(states: &[VaultState]) {
    let mut rows = Table::new(&[
        ("kind", Align::Left),
        ("quantity", Align::Right),
        ("of", Align::Left),
        ("owner", Align::Left),
        ("status", Align::Left),
        ("recorded", Align::Left),
        ("state", Align::Left),
    ]);
    for state in states {
        rows.row([
            state.kind.clone(),
            quantity(state),
            of(state),
            state.owner.clone().unwrap_or_else(|| state.participants.join("; ")),
            standing(state),
            print::time(state.recorded_at_ms),
            state.reference.clone(),
        ]);
    }
    print::line(rows.render(table::styled()).trim_end_matches('\n'));
}

/// How much, with decimals where the contract tells them.
fn quantity(state: &VaultState) -> String {
    let told = ["amount", "nominal", "value"].iter().find_map(|key| match state.details.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    told.or_else(|| state.quantity.map(|quantity| quantity.to_string())).unwrap_or_default()
}

/// What it is a quantity of.
fn of(state: &VaultState) -> String {
    let text = |key: &str| state.details.get(key).and_then(Value::as_str).map(str::to_owned);
    match (text("isin"), text("issuer"), text("borrower")) {
        (Some(isin), _, _) => isin,
        (None, Some(issuer), _) => format!("from {issuer}"),
        (None, None, Some(borrower)) => format!("owed by {borrower}"),
        (None, None, None) => state.asset.clone().or_else(|| state.linear_id.clone()).unwrap_or_default(),
    }
}

fn standing(state: &VaultState) -> String {
    match (&state.consumed_by, &state.lost_to, &state.locked_by) {
        (Some(_), ..) => "consumed".to_owned(),
        (None, Some(transaction), _) => format!("lost to {transaction}"),
        (None, None, _) if state.encumbered => "encumbered".to_owned(),
        (None, None, Some(flow)) => format!("held by flow {flow}"),
        (None, None, None) => "unconsumed".to_owned(),
    }
}

/// A state as JSON.
pub(super) fn json(state: &VaultState) -> Value {
    json!({
        "reference": state.reference,
        "status": if state.consumed_by.is_some() { "consumed" } else { "unconsumed" },
        "contract": state.contract,
        "kind": state.kind,
        "notary": state.notary,
        "participants": state.participants,
        "owner": state.owner,
        "asset": state.asset,
        "quantity": state.quantity,
        "linear_id": state.linear_id,
        "recorded_at_ms": state.recorded_at_ms,
        "consumed_by": state.consumed_by,
        "locked_by": state.locked_by,
        "encumbered": state.encumbered,
        "lost_to": state.lost_to,
        "details": state.details,
    })
}
