//! The least gas that a call needs.

use alloy_eips::eip7825::MAX_TX_GAS_LIMIT_OSAKA;
use alloy_primitives::U256;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use revm::ExecuteEvm;
use revm::context::TxEnv;
use revm::context_interface::result::ExecutionResult;
use tally_state::Read;

use super::machine::CallParts;
use super::{CallError, Failure, Place, error_of};
use crate::execute::Refusal;
use crate::schedule::Fork;
use crate::transaction::TransactionError;

const TRANSFER_GAS: u64 = 21_000;
const CALL_STIPEND: u64 = 2_300;
/// The search ends when the bounds are within 1.5 % of each other, as in other clients.
const TOLERANCE_PER_MILLE: u128 = 15;

/// Finds a gas limit with which the call succeeds, at most 1.5 % above the least one.
///
/// The search goes up to the request's own gas, the block's limit, what the sender can pay and the
/// place's limit, whichever is least.
///
/// # Errors
/// [`CallError::Failed`] when the call fails with all that gas, and as [`call`](super::call).
pub fn estimate<R: Read>(
    place: &Place<'_, R>,
    request: &TransactionRequest,
    state_overrides: Option<&StateOverride>,
    block_overrides: Option<&BlockOverrides>,
) -> Result<u64, CallError> {
    let mut parts = CallParts::new(place, state_overrides, block_overrides)?;
    let mut transaction = parts.transaction(request)?;
    let mut high = match request.gas {
        Some(gas) if gas >= TRANSFER_GAS => gas,
        _ => parts.env.gas_limit,
    };
    if parts.rules.has(Fork::Osaka) && !parts.rules.has(Fork::Amsterdam) {
        high = high.min(MAX_TX_GAS_LIMIT_OSAKA);
    }
    high = high.min(parts.gas).min(affordable(&mut parts, &transaction)?);

    let mut probe = Probe { parts: &mut parts, transaction: &mut transaction };
    if probe.parts.is_plain_transfer(probe.transaction)? && probe.run(TRANSFER_GAS)?.is_ok() {
        return Ok(TRANSFER_GAS);
    }
    let result = match probe.run(high)? {
        Ok(result) => result,
        Err(failure) => return Err(CallError::Failed(failure)),
    };
    // One that spends less cannot pass.
    let mut low = result.tx_gas_used().saturating_sub(1);
    // Enough for what was spent before refunds, and for the 64th that each call keeps.
    let likely =
        u64::try_from(u128::from(result.gas().total_gas_spent().saturating_add(CALL_STIPEND)) * 64 / 63)
            .unwrap_or(u64::MAX);
    if likely < high {
        match probe.run(likely)? {
            Ok(_) => high = likely,
            Err(_) => low = likely,
        }
    }
    while low.saturating_add(1) < high {
        if u128::from(high - low) * 1000 < u128::from(high) * TOLERANCE_PER_MILLE {
            break;
        }
        // Most calls need little more than they spend: do not begin in the middle.
        let middle = (low + (high - low) / 2).min(low.saturating_mul(2).max(low + 1));
        match probe.run(middle)? {
            Ok(_) => high = middle,
            Err(_) => low = middle,
        }
    }
    Ok(high)
}

struct Probe<'p, 'a, R> {
    parts: &'p mut CallParts<'a, R>,
    transaction: &'p mut TxEnv,
}

impl<R: Read> Probe<'_, '_, R> {
    /// Runs the call with this gas limit; the inner error is one that more gas might cure.
    fn run(&mut self, gas: u64) -> Result<Result<ExecutionResult, Failure>, CallError> {
        self.transaction.gas_limit = gas;
        let result = self.parts.machine(self.transaction, ()).transact(self.transaction.clone());
        match result {
            Ok(done) => Ok(match Failure::of(&done.result) {
                None => Ok(done.result),
                Some(Failure::Halt(reason)) if reason == "out of gas" => Err(Failure::Gas(gas)),
                Some(failure) => Err(failure),
            }),
            Err(error) => match error_of(error, self.transaction, &self.parts.env) {
                CallError::Refused {
                    refusal:
                        Refusal::Transaction(
                            TransactionError::IntrinsicGas { .. } | TransactionError::FloorGas { .. },
                        ),
                    ..
                } => Ok(Err(Failure::Gas(gas))),
                error => Err(error),
            },
        }
    }
}

/// How much gas the sender can pay for.
fn affordable<R: Read>(parts: &mut CallParts<'_, R>, transaction: &TxEnv) -> Result<u64, CallError> {
    if transaction.gas_price == 0 {
        return Ok(u64::MAX);
    }
    let account = parts.cache.account(transaction.caller).map_err(|error| CallError::State(error.0))?;
    let balance = account.unwrap_or_default().balance;
    let Some(mut available) = balance.checked_sub(transaction.value) else {
        return Err(CallError::Request("insufficient funds for transfer".into()));
    };
    let blob_gas = transaction.blob_hashes.len() as u64 * alloy_eips::eip4844::DATA_GAS_PER_BLOB;
    let blob_fee = U256::from(blob_gas).saturating_mul(U256::from(transaction.max_fee_per_blob_gas));
    available = available
        .checked_sub(blob_fee)
        .ok_or_else(|| CallError::Request("insufficient funds for gas * price + value".into()))?;
    Ok(u64::try_from(available / U256::from(transaction.gas_price)).unwrap_or(u64::MAX))
}
