//! Receipts and logs (execution-apis, schemas/receipt).

use alloy_consensus::{Eip658Value, EthereumTxEnvelope, Transaction as _, TxEip4844};
use alloy_primitives::{Address, B256, Bloom, Log};

use super::{Object, Placed, array, data, quantity_u128};

/// What became of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// Success, or the state's root before Byzantium.
    pub status: &'a Eip658Value,
    /// Gas of the block up to and with this transaction.
    pub cumulative_gas_used: u64,
    /// Gas of this transaction.
    pub gas_used: u64,
    /// The place in the block of its first log.
    pub first_log: u64,
    /// Its logs.
    pub logs: &'a [Log],
    /// What a unit of blob gas cost in its block, in wei.
    pub blob_gas_price: Option<u128>,
}

/// Writes the receipt of a transaction.
pub fn receipt(
    out: &mut Vec<u8>,
    signed: &EthereumTxEnvelope<TxEip4844>,
    sender: Address,
    placed: &Placed,
    outcome: &Outcome<'_>,
) {
    let hash = *signed.tx_hash();
    let mut object = Object::open(out);
    object.data(out, "blockHash", placed.hash);
    object.quantity(out, "blockNumber", placed.number);
    object.data(out, "transactionHash", hash);
    object.quantity(out, "transactionIndex", placed.index);
    object.data(out, "from", sender);
    object.data_or_null(out, "to", signed.to());
    let created = signed.is_create().then(|| sender.create(signed.nonce()));
    object.data_or_null(out, "contractAddress", created);
    object.quantity(out, "cumulativeGasUsed", outcome.cumulative_gas_used);
    object.quantity(out, "gasUsed", outcome.gas_used);
    object.member(out, "effectiveGasPrice");
    quantity_u128(out, signed.effective_gas_price(placed.base_fee));
    if let Some(blob_gas) = signed.blob_gas_used() {
        object.quantity(out, "blobGasUsed", blob_gas);
        object.member(out, "blobGasPrice");
        quantity_u128(out, outcome.blob_gas_price.unwrap_or(0));
    }
    let bloom: Bloom = outcome.logs.iter().collect();
    object.data(out, "logsBloom", bloom);
    object.member(out, "logs");
    array(out, (outcome.first_log..).zip(outcome.logs), |out, (index, entry)| {
        log(out, entry, placed, hash, index, false);
    });
    object.quantity(out, "type", u64::from(u8::from(signed.tx_type())));
    match outcome.status {
        Eip658Value::Eip658(success) => object.quantity(out, "status", u64::from(*success)),
        Eip658Value::PostState(root) => object.data(out, "root", root),
    }
    object.close(out);
}

/// Writes a log of the transaction at a place; `index` counts the logs of the block.
pub fn log(out: &mut Vec<u8>, entry: &Log, placed: &Placed, transaction: B256, index: u64, removed: bool) {
    let mut object = Object::open(out);
    object.data(out, "address", entry.address);
    object.member(out, "topics");
    array(out, entry.topics(), |out, topic| data(out, topic.as_slice()));
    object.data(out, "data", &entry.data.data);
    object.data(out, "blockHash", placed.hash);
    object.quantity(out, "blockNumber", placed.number);
    object.quantity(out, "blockTimestamp", placed.timestamp);
    object.data(out, "transactionHash", transaction);
    object.quantity(out, "transactionIndex", placed.index);
    object.quantity(out, "logIndex", index);
    object.member(out, "removed");
    out.extend_from_slice(if removed { b"true" } else { b"false" });
    object.close(out);
}
