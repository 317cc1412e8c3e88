//! Calls that change nothing: `eth_call`, `eth_estimateGas`, `eth_createAccessList`.

mod access_list;
mod error;
mod estimate;
mod machine;
mod overrides;
mod precompiles;
mod request;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::atomic::AtomicBool;

use alloy_primitives::Bytes;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use revm::ExecuteEvm;
use revm::context_interface::result::ExecutionResult;
use tally_state::Read;

pub use access_list::{AccessListOutcome, access_list};
pub use error::{CallError, Failure};
pub use estimate::estimate;
pub(crate) use machine::{CallParts, STOPPED, call_configuration, call_machine, error_of, is_free, refused};
pub(crate) use overrides::{apply_blob_price, apply_block, apply_state};
pub(crate) use precompiles::Precompiled;
pub(crate) use request::environment;

use crate::execute::{BlockHashes, Codes, Env};
use crate::schedule::Schedule;

/// What a call may use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// Gas, whatever the call asks for; zero for no limit.
    pub gas: u64,
    /// Setting it ends the call soon, with [`CallError::Stopped`]. The host sets it when the time for
    /// the call is over, or nobody waits for it any more.
    pub stop: Option<&'a AtomicBool>,
}

/// The block and the state that calls are made in.
#[derive(Clone, Copy)]
pub struct Place<'a, R> {
    /// Of the chain.
    pub schedule: &'a Schedule,
    /// The block whose number, time and so on the code sees.
    pub env: &'a Env,
    /// The state that the code sees; for a mined block, the one after it.
    pub state: R,
    /// Hashes of earlier blocks.
    pub hashes: &'a BlockHashes<'a>,
    /// Codes kept from earlier calls.
    pub codes: Option<&'a Codes>,
    /// What the call may use.
    pub limits: Limits<'a>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// Returned data; with a revert, its reason as it was encoded.
    pub output: Bytes,
    /// Gas that the sender would have paid for.
    pub gas_used: u64,
    /// Gas that had to be there, before refunds.
    pub gas_needed: u64,
    /// Why the code failed, when it did.
    pub failure: Option<Failure>,
}

impl Called {
    pub(crate) fn of(result: ExecutionResult) -> Self {
        let gas = *result.gas();
        Self {
            gas_used: gas.tx_gas_used(),
            gas_needed: gas.total_gas_spent().max(gas.floor_gas()),
            failure: Failure::of(&result),
            output: result.into_output().unwrap_or_default(),
        }
    }
}

/// Makes a call, over a state and in a block that may be changed for it.
///
/// # Errors
/// A call that cannot begin; code that fails is no error but [`Called::failure`].
pub fn call<R: Read>(
    place: &Place<'_, R>,
    request: &TransactionRequest,
    state_overrides: Option<&StateOverride>,
    block_overrides: Option<&BlockOverrides>,
) -> Result<Called, CallError> {
    let mut parts = CallParts::new(place, state_overrides, block_overrides)?;
    let transaction = parts.transaction(request)?;
    let result = parts.machine(&transaction, ()).transact(transaction.clone());
    result.map(|done| Called::of(done.result)).map_err(|error| error_of(error, &transaction, &parts.env))
}
