//! From what a client asks for to what is executed.

use alloy_primitives::{Bytes, TxKind, U256};
use alloy_rpc_types_eth::TransactionRequest;
use revm::context::TxEnv;
use revm::context::either::Either;

use super::CallError;
use crate::transaction::recover_authorization;

/// What a client is ready to pay, in wei per gas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fees {
    price: u128,
    tip: Option<u128>,
}

impl Fees {
    /// # Errors
    /// Both kinds of fee at once.
    fn of(request: &TransactionRequest) -> Result<Self, CallError> {
        let dynamic = request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some();
        match request.gas_price {
            Some(_) if dynamic => Err(CallError::Request(
                "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified".into(),
            )),
            Some(price) => Ok(Self { price, tip: None }),
            None if dynamic => Ok(Self {
                price: request.max_fee_per_gas.unwrap_or(0),
                tip: Some(request.max_priority_fee_per_gas.unwrap_or(0)),
            }),
            None => Ok(Self::default()),
        }
    }
}

fn input(request: &TransactionRequest) -> Result<Bytes, CallError> {
    match (&request.input.input, &request.input.data) {
        (Some(input), Some(data)) if input != data => Err(CallError::Request(
            r#"both "data" and "input" are set and not equal. Please use "input" to pass transaction call data"#
                .into(),
        )),
        (Some(bytes), _) | (None, Some(bytes)) => Ok(bytes.clone()),
        (None, None) => Ok(Bytes::new()),
    }
}

/// The call as `revm` takes it. `gas` is the most that it may use.
///
/// # Errors
/// A request that contradicts itself, or is of another chain.
pub(crate) fn environment(
    request: &TransactionRequest,
    chain_id: u64,
    gas: u64,
    nonce: u64,
) -> Result<TxEnv, CallError> {
    let fees = Fees::of(request)?;
    if let Some(wanted) = request.chain_id
        && wanted != chain_id
    {
        return Err(CallError::Request(format!(
            "chainId does not match node's (have={wanted}, want={chain_id})"
        )));
    }
    let kind = request.to.unwrap_or(TxKind::Create);
    let input = input(request)?;
    let blobs = request.blob_versioned_hashes.clone().unwrap_or_default();
    if request.blob_versioned_hashes.is_some() {
        if blobs.is_empty() {
            return Err(CallError::Request(r#"need at least 1 blob for a blob transaction"#.into()));
        }
        if kind.is_create() {
            return Err(CallError::Request(r#"missing "to" in blob transaction"#.into()));
        }
    }
    let authorizations = request.authorization_list.as_deref().unwrap_or_default();
    let tx_type = if !authorizations.is_empty() {
        4
    } else if !blobs.is_empty() {
        3
    } else if fees.tip.is_some() {
        2
    } else {
        u8::from(request.access_list.is_some())
    };
    if tx_type == 4 && kind.is_create() {
        return Err(CallError::Request(r#"missing "to" in a transaction with authorizations"#.into()));
    }
    Ok(TxEnv {
        tx_type,
        caller: request.from.unwrap_or_default(),
        gas_limit: gas,
        gas_price: fees.price,
        kind,
        value: request.value.unwrap_or(U256::ZERO),
        data: input,
        nonce,
        chain_id: Some(chain_id),
        access_list: request.access_list.clone().unwrap_or_default(),
        gas_priority_fee: if tx_type >= 2 { Some(fees.tip.unwrap_or(0)) } else { None },
        blob_hashes: blobs,
        max_fee_per_blob_gas: request.max_fee_per_blob_gas.unwrap_or(0),
        authorization_list: authorizations
            .iter()
            .map(|authorization| Either::Right(recover_authorization(authorization)))
            .collect(),
    })
}
