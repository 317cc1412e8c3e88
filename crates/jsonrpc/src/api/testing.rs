//! For tests of other programs alone: `testing_buildBlockV1`.

use alloy_eips::Encodable2718 as _;
use alloy_eips::eip4895::Withdrawal;
use alloy_eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy_primitives::{Address, B256, Bytes};
use serde::Deserialize;
use tally_chain::chain::{Attributes, Built};
use tally_chain::pool::{Draw, Pooled};
use tally_evm::{Recovered, recover};

use super::fees::next_fee;
use super::{Answer, Api, Methods, internal};
use crate::error::{METHOD_NOT_SUPPORTED, RpcError};
use crate::params::{Hexed, Params};
use crate::server::CallContext;
use crate::write::{self, Object};

/// The gas limit that blocks move to, as other clients do for mainnet.
const GAS_LIMIT: u64 = 60_000_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PayloadAttributes {
    timestamp: Hexed<u64>,
    prev_randao: B256,
    suggested_fee_recipient: Address,
    withdrawals: Option<Vec<Withdrawal>>,
    parent_beacon_block_root: Option<B256>,
}

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("testing_buildBlockV1", build);
}

fn build(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [parent, attributes, transactions, extra] = params.take::<4>()?;
    context.costly()?;
    if api.chain().sealed().is_some() {
        let text = "Method not supported: blocks of this chain are built by its validators";
        return Err(RpcError::new(METHOD_NOT_SUPPORTED, text));
    }
    let parent = parent.required::<B256>()?;
    let attributes: PayloadAttributes =
        attributes.deserialize()?.ok_or_else(|| RpcError::params("missing value for required argument 1"))?;
    let given = transactions.optional::<Vec<Bytes>>()?;
    let head = api.chain().head();
    if head.hash() != parent {
        return Err(RpcError::server("the parent is not the newest block"));
    }
    let before = &head.sealed().header;
    let step = (before.gas_limit / 1024).saturating_sub(1);
    let gas_limit =
        GAS_LIMIT.clamp(before.gas_limit.saturating_sub(step), before.gas_limit.saturating_add(step));
    let list: Vec<Recovered> = match &given {
        Some(given) => given
            .iter()
            .map(|encoded| {
                let decoded = tally_evm::transaction::decode(encoded);
                decoded.and_then(recover).map_err(|error| RpcError::server(error.to_string()))
            })
            .collect::<Result<_, _>>()?,
        None => {
            let base_fee = u128::from(next_fee(api, before).unwrap_or(0));
            let best = api.node.pool().draw(&mut Draw::new(base_fee), usize::MAX);
            best.iter().map(|pooled: &std::sync::Arc<Pooled>| pooled.transaction().clone()).collect()
        }
    };
    let attributes = Attributes {
        timestamp: attributes.timestamp.0,
        beneficiary: attributes.suggested_fee_recipient,
        extra_data: extra.optional::<Bytes>()?.unwrap_or_default(),
        mix_hash: attributes.prev_randao,
        gas_limit,
        withdrawals: attributes.withdrawals.unwrap_or_default(),
        parent_beacon_block_root: attributes.parent_beacon_block_root,
        until: None,
    };
    let built = api.chain().build(&head.branch, attributes, list).map_err(|error| internal(&error))?;
    if let (Some(_), Some(skipped)) = (&given, built.skipped.first()) {
        return Err(RpcError::server(format!(
            "transaction {} cannot be applied: {}",
            skipped.hash, skipped.reason
        )));
    }
    if given.as_ref().is_some_and(|given| built.candidate.block.transactions.len() < given.len()) {
        return Err(RpcError::server("the block has not gas enough for all transactions"));
    }
    if built.candidate.block.sealed.header.requests_hash.is_some_and(|hash| hash != EMPTY_REQUESTS_HASH) {
        return Err(RpcError::server("the block has requests for the beacon chain, which are not kept"));
    }
    write_payload(out, &built);
    Ok(())
}

/// Writes the block as the engine API's `getPayload` gives it.
fn write_payload(out: &mut Vec<u8>, built: &Built) {
    let block = &built.candidate.block;
    let header = &block.sealed.header;
    let mut answer = Object::open(out);
    answer.member(out, "executionPayload");
    let mut payload = Object::open(out);
    payload.data(out, "parentHash", header.parent_hash);
    payload.data(out, "feeRecipient", header.beneficiary);
    payload.data(out, "stateRoot", header.state_root);
    payload.data(out, "receiptsRoot", header.receipts_root);
    payload.data(out, "logsBloom", header.logs_bloom);
    payload.data(out, "prevRandao", header.mix_hash);
    payload.quantity(out, "blockNumber", header.number);
    payload.quantity(out, "gasLimit", header.gas_limit);
    payload.quantity(out, "gasUsed", header.gas_used);
    payload.quantity(out, "timestamp", header.timestamp);
    payload.data(out, "extraData", &header.extra_data);
    payload.quantity(out, "baseFeePerGas", header.base_fee_per_gas.unwrap_or(0));
    payload.data(out, "blockHash", block.sealed.hash);
    payload.member(out, "transactions");
    write::array(out, &block.transactions, |out, signed| write::data(out, &signed.encoded_2718()));
    if let Some(withdrawals) = &block.withdrawals {
        payload.member(out, "withdrawals");
        write::withdrawals(out, withdrawals);
    }
    for (name, value) in [("blobGasUsed", header.blob_gas_used), ("excessBlobGas", header.excess_blob_gas)] {
        if let Some(value) = value {
            payload.quantity(out, name, value);
        }
    }
    payload.close(out);
    answer.quantity_u256(out, "blockValue", built.value);
    answer.member(out, "blobsBundle");
    out.extend_from_slice(br#"{"commitments":[],"proofs":[],"blobs":[]}"#);
    answer.member(out, "executionRequests");
    out.extend_from_slice(b"[]");
    answer.member(out, "shouldOverrideBuilder");
    out.extend_from_slice(b"false");
    answer.close(out);
}
