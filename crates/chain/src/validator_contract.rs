//! Asking a chain's contract who its validators are.

use alloy_consensus::Header;
use alloy_primitives::{Address, TxKind};
use alloy_rpc_types_eth::TransactionRequest;
use tally_evm::call::{self, CallError, Limits, Place};
use tally_state::View;

use crate::chain::Chain;
use crate::sealed::{GET_VALIDATORS, ValidatorsError, read_validators};

/// As Besu allows such a call.
const GAS: u64 = 50_000_000;

/// `getValidators()` over the state after the block with `header`.
pub(crate) fn call(
    chain: &Chain,
    view: &View,
    header: &Header,
    contract: Address,
) -> Result<Vec<Address>, ValidatorsError> {
    let wrong = |reason: String| ValidatorsError::Contract { contract, reason };
    let env = chain.environment(header);
    let reader = chain.reader();
    let hashes = reader.hashes();
    let place = Place {
        schedule: chain.schedule(),
        env: &env,
        state: view,
        hashes: &hashes,
        codes: Some(chain.codes()),
        limits: Limits { gas: GAS, stop: None },
    };
    let request = TransactionRequest {
        to: Some(TxKind::Call(contract)),
        input: GET_VALIDATORS.to_vec().into(),
        ..TransactionRequest::default()
    };
    let called = call::call(&place, &request, None, None).map_err(|error| match error {
        CallError::State(source) => ValidatorsError::State(source),
        error => wrong(error.to_string()),
    })?;
    match called.failure {
        Some(failure) => Err(wrong(format!("the call failed: {failure}"))),
        None => read_validators(contract, &called.output),
    }
}
