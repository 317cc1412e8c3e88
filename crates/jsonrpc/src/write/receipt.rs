//! Receipts and logs (execution-apis, schemas/receipt).

use alloy_consensus::{Eip658Value, EthereumTxEnvelope, Transaction as _, TxEip4844};
use alloy_primitives::{Address, B256, Bloom, Log};

use super::{Object, Placed, array, data, quantity, quantity_u128};

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
    let mut shared = LogPlace::new(placed);
    shared.transaction(hash, placed.index);
    array(out, (outcome.first_log..).zip(outcome.logs), |out, (index, entry)| {
        shared.log(out, entry, index, false);
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
    let mut shared = LogPlace::new(placed);
    shared.transaction(transaction, placed.index);
    shared.log(out, entry, index, removed);
}

/// What the logs of a block and of a transaction have in common, written once.
#[derive(Debug, Clone)]
pub struct LogPlace {
    text: Vec<u8>,
    block: usize,
}

impl LogPlace {
    /// For the logs of a block; the index of the place is not used.
    #[must_use]
    pub fn new(placed: &Placed) -> Self {
        let mut text = Vec::with_capacity(320);
        text.extend_from_slice(b",\"blockHash\":");
        data(&mut text, placed.hash.as_slice());
        text.extend_from_slice(b",\"blockNumber\":");
        quantity(&mut text, placed.number);
        text.extend_from_slice(b",\"blockTimestamp\":");
        quantity(&mut text, placed.timestamp);
        Self { block: text.len(), text }
    }

    /// Goes on with the logs of the transaction of this hash at this index.
    pub fn transaction(&mut self, hash: B256, index: u64) {
        self.text.truncate(self.block);
        self.text.extend_from_slice(b",\"transactionHash\":");
        data(&mut self.text, hash.as_slice());
        self.text.extend_from_slice(b",\"transactionIndex\":");
        quantity(&mut self.text, index);
        self.text.extend_from_slice(b",\"logIndex\":");
    }

    /// Writes a log of the transaction; `index` counts the logs of the block.
    pub fn log(&self, out: &mut Vec<u8>, entry: &Log, index: u64, removed: bool) {
        out.reserve(2 * entry.data.data.len() + 70 * entry.topics().len() + self.text.len() + 160);
        out.extend_from_slice(b"{\"address\":");
        data(out, entry.address.as_slice());
        out.extend_from_slice(b",\"topics\":");
        array(out, entry.topics(), |out, topic| data(out, topic.as_slice()));
        out.extend_from_slice(b",\"data\":");
        data(out, &entry.data.data);
        out.extend_from_slice(&self.text);
        quantity(out, index);
        let end: &[u8] = if removed { b",\"removed\":true}" } else { b",\"removed\":false}" };
        out.extend_from_slice(end);
    }
}
