//! Which accounts and slots a call touches.

use alloy_eips::eip2930::AccessList;
use alloy_primitives::TxKind;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use revm::InspectEvm;
use revm_inspectors::access_list::AccessListInspector;
use tally_state::Read;

use super::machine::CallParts;
use super::{CallError, Called, Failure, Place, error_of};

/// A list, and what came of the call with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessListOutcome {
    /// What the call touches beside its sender, its target and the precompiled contracts.
    pub access_list: AccessList,
    /// With the list.
    pub gas_used: u64,
    /// Why the call failed, when it did.
    pub failure: Option<Failure>,
}

/// Finds the access list with which a call touches nothing that is not in it.
///
/// A call may touch other slots once they are cheaper, so it is made until the list stays the same.
///
/// # Errors
/// As [`call`](super::call).
pub fn access_list<R: Read>(
    place: &Place<'_, R>,
    request: &TransactionRequest,
    state_overrides: Option<&StateOverride>,
    block_overrides: Option<&BlockOverrides>,
) -> Result<AccessListOutcome, CallError> {
    /// Gas that depends on itself could go on forever.
    const MOST_ROUNDS: usize = 16;
    let mut parts = CallParts::new(place, state_overrides, block_overrides)?;
    let mut transaction = parts.transaction(request)?;
    if transaction.tx_type == 0 {
        transaction.tx_type = 1;
    }
    let mut round = 0;
    loop {
        round += 1;
        let before = transaction.access_list.clone();
        let inspector = AccessListInspector::new(before.clone());
        let mut machine = parts.machine(&transaction, inspector);
        let result = machine.inspect_tx(transaction.clone());
        let touched = machine.inspector.into_access_list();
        let result = result.map_err(|error| error_of(error, &transaction, &parts.env))?.result;
        let list = cleaned(touched, &parts, transaction.caller, transaction.kind);
        if list == before || round == MOST_ROUNDS {
            let called = Called::of(result);
            return Ok(AccessListOutcome {
                access_list: list,
                gas_used: called.gas_used,
                failure: called.failure,
            });
        }
        transaction.access_list = list;
    }
}

/// The list in order of address and slot, without accounts that are warm anyway.
fn cleaned<R>(
    list: AccessList,
    parts: &CallParts<'_, R>,
    sender: alloy_primitives::Address,
    target: TxKind,
) -> AccessList {
    let mut items: Vec<_> = list
        .0
        .into_iter()
        .filter(|item| {
            let warm = item.address == sender
                || target.to() == Some(&item.address)
                || parts.precompiled.addresses().contains(&item.address);
            !warm || !item.storage_keys.is_empty()
        })
        .collect();
    for item in &mut items {
        item.storage_keys.sort_unstable();
    }
    items.sort_unstable_by_key(|item| item.address);
    AccessList(items)
}
