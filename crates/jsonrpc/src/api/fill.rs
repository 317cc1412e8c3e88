//! Transactions completed for their signer: `eth_fillTransaction`.

use alloy_primitives::{Address, U256};
use alloy_rpc_types_eth::TransactionRequest;
use tally_evm::call::estimate;
use tally_state::Read;

use super::execute::request;
use super::fees::next_fee;
use super::{Answer, Api, Methods, call_error, internal, state_error};
use crate::error::RpcError;
use crate::params::{BlockChoice, Params};
use crate::server::CallContext;
use crate::write::{self, Object};

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_fillTransaction", fill);
}

fn fill(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [transaction] = params.take::<1>()?;
    let mut request = request(transaction)?;
    context.costly()?;
    let chain_id = api.chain().chain_id();
    if let Some(wanted) = request.chain_id.filter(|wanted| *wanted != chain_id) {
        return Err(RpcError::server(format!(
            "chainId does not match node's (have={wanted}, want={chain_id})"
        )));
    }
    request.chain_id = Some(chain_id);
    request.value.get_or_insert(U256::ZERO);
    fill_fees(api, &mut request, context)?;
    let found = api.find(BlockChoice::default())?;
    if request.nonce.is_none() {
        let sender = request.from.unwrap_or(Address::ZERO);
        let next = api.node.pool().next_nonce(&sender);
        let next = match next {
            Some(next) => next,
            None => found.state()?.account(sender).map_err(state_error)?.map_or(0, |account| account.nonce),
        };
        request.nonce = Some(next);
    }
    if request.gas.is_none() {
        let gas = api.execute(&found, context, |place| estimate(place, &request, None, None))?;
        request.gas = Some(gas.map_err(call_error)?);
    }
    request.input = request.input.input().cloned().unwrap_or_default().into();
    if request.to.is_none() {
        request.to = Some(alloy_primitives::TxKind::Create);
    }
    let most = request.max_fee_per_gas;
    let typed = request.build_typed_tx().map_err(|_| {
        RpcError::params("the fields given belong to different types of transactions, or one that its type needs is missing")
    })?;
    let mut object = Object::open(out);
    object.member(out, "raw");
    write::data(out, &unsigned(&typed));
    object.member(out, "tx");
    let mut tx = serde_json::to_value(&typed).map_err(|error| internal(&error))?;
    if let (Some(members), Some(most)) = (tx.as_object_mut(), most) {
        // As of transactions that wait: the most that it pays.
        members.insert("gasPrice".into(), format!("{most:#x}").into());
    }
    serde_json::to_writer(&mut *out, &tx).map_err(|error| internal(&error))?;
    object.close(out);
    Ok(())
}

/// What the sender signs.
fn unsigned(typed: &alloy_consensus::TypedTransaction) -> Vec<u8> {
    use alloy_consensus::SignableTransaction as _;
    match typed {
        alloy_consensus::TypedTransaction::Legacy(unsigned) => unsigned.encoded_for_signing(),
        alloy_consensus::TypedTransaction::Eip2930(unsigned) => unsigned.encoded_for_signing(),
        alloy_consensus::TypedTransaction::Eip1559(unsigned) => unsigned.encoded_for_signing(),
        alloy_consensus::TypedTransaction::Eip4844(unsigned) => unsigned.encoded_for_signing(),
        alloy_consensus::TypedTransaction::Eip7702(unsigned) => unsigned.encoded_for_signing(),
    }
}

/// Fees that hold for some blocks: twice the base fee, and the tip that is usual.
fn fill_fees(api: &Api, request: &mut TransactionRequest, context: &CallContext<'_>) -> Answer {
    if request.gas_price.is_some() {
        if request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some() {
            return Err(RpcError::server(
                "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
            ));
        }
        return Ok(());
    }
    let head = api.chain().head();
    let Some(base_fee) = next_fee(api, &head.sealed().header) else {
        request.gas_price = Some(api.tip(context)?);
        return Ok(());
    };
    let tip = match request.max_priority_fee_per_gas {
        Some(tip) => tip,
        None => {
            let tip = api.tip(context)?;
            request.max_fee_per_gas.map_or(tip, |most| tip.min(most))
        }
    };
    request.max_priority_fee_per_gas = Some(tip);
    let most = request.max_fee_per_gas.unwrap_or(u128::from(base_fee).saturating_mul(2).saturating_add(tip));
    if most < tip {
        return Err(RpcError::server(format!("maxFeePerGas ({most}) < maxPriorityFeePerGas ({tip})")));
    }
    request.max_fee_per_gas = Some(most);
    if request.blob_versioned_hashes.is_some() {
        request.max_fee_per_blob_gas.get_or_insert(1);
    }
    Ok(())
}
