//! Transactions (execution-apis, schemas/transaction).

use alloy_consensus::{EthereumTxEnvelope, Transaction as _, TxEip4844};
use alloy_eips::eip2930::AccessList;
use alloy_primitives::{Address, B256, TxKind, U256};

use super::{Object, array, data, quantity_u128};

/// Where in the chain a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its block's hash.
    pub hash: B256,
    /// Its block's number.
    pub number: u64,
    /// Its block's time, in seconds.
    pub timestamp: u64,
    /// Its place in the block.
    pub index: u64,
    /// Its block's base fee, in wei for a unit of gas.
    pub base_fee: Option<u64>,
}

/// Writes a signed transaction; one that is in no block waits.
pub fn transaction(
    out: &mut Vec<u8>,
    signed: &EthereumTxEnvelope<TxEip4844>,
    sender: Address,
    placed: Option<&Placed>,
) {
    written(out, *signed.tx_hash(), signed, sender, placed, true);
}

/// As [`transaction`] for one of a simulated block: nothing where the signature belongs, and a hash of its own.
pub fn unsigned_transaction(
    out: &mut Vec<u8>,
    hash: B256,
    unsigned: &EthereumTxEnvelope<TxEip4844>,
    sender: Address,
    placed: &Placed,
) {
    written(out, hash, unsigned, sender, Some(placed), false);
}

fn written(
    out: &mut Vec<u8>,
    hash: B256,
    signed: &EthereumTxEnvelope<TxEip4844>,
    sender: Address,
    placed: Option<&Placed>,
    is_signed: bool,
) {
    let mut object = Object::open(out);
    match placed {
        Some(placed) => {
            object.data(out, "blockHash", placed.hash);
            object.quantity(out, "blockNumber", placed.number);
            object.quantity(out, "blockTimestamp", placed.timestamp);
            object.quantity(out, "transactionIndex", placed.index);
        }
        None => {
            for name in ["blockHash", "blockNumber", "transactionIndex"] {
                object.member(out, name);
                out.extend_from_slice(b"null");
            }
        }
    }
    object.data(out, "hash", hash);
    object.data(out, "from", sender);
    members(out, &mut object, signed, placed.and_then(|placed| placed.base_fee));
    let signature = signed.signature();
    let parity = u64::from(signature.v());
    if let EthereumTxEnvelope::Legacy(_) = signed {
        // EIP-155 puts the chain's identifier into `v`.
        let v = match signed.chain_id() {
            Some(chain) => u128::from(chain) * 2 + 35 + u128::from(parity),
            None if is_signed => u128::from(27 + parity),
            None => 0,
        };
        object.member(out, "v");
        quantity_u128(out, v);
    } else {
        object.quantity(out, "v", parity);
        object.quantity(out, "yParity", parity);
    }
    object.quantity_u256(out, "r", signature.r());
    object.quantity_u256(out, "s", signature.s());
    object.close(out);
}

/// Writes the members that are signed.
fn members(
    out: &mut Vec<u8>,
    object: &mut Object,
    tx: &EthereumTxEnvelope<TxEip4844>,
    base_fee: Option<u64>,
) {
    object.quantity(out, "type", u64::from(u8::from(tx.tx_type())));
    if let Some(chain) = tx.chain_id() {
        object.quantity(out, "chainId", chain);
    }
    object.quantity(out, "nonce", tx.nonce());
    object.quantity(out, "gas", tx.gas_limit());
    // What it pays, where it only says what it pays at most.
    object.member(out, "gasPrice");
    quantity_u128(
        out,
        if base_fee.is_some() { tx.effective_gas_price(base_fee) } else { tx.max_fee_per_gas() },
    );
    if let Some(tip) = tx.max_priority_fee_per_gas() {
        object.member(out, "maxFeePerGas");
        quantity_u128(out, tx.max_fee_per_gas());
        object.member(out, "maxPriorityFeePerGas");
        quantity_u128(out, tip);
    }
    if let Some(fee) = tx.max_fee_per_blob_gas() {
        object.member(out, "maxFeePerBlobGas");
        quantity_u128(out, fee);
    }
    object.data_or_null(
        out,
        "to",
        match tx.kind() {
            TxKind::Call(to) => Some(to),
            TxKind::Create => None,
        },
    );
    object.quantity_u256(out, "value", tx.value());
    object.data(out, "input", tx.input());
    if let Some(list) = tx.access_list() {
        object.member(out, "accessList");
        access_list(out, list);
    }
    if let Some(hashes) = tx.blob_versioned_hashes() {
        object.member(out, "blobVersionedHashes");
        array(out, hashes, |out, hash| data(out, hash.as_slice()));
    }
    if let Some(list) = tx.authorization_list() {
        object.member(out, "authorizationList");
        array(out, list, |out, authorization| {
            let mut object = Object::open(out);
            object.quantity_u256(out, "chainId", *authorization.chain_id());
            object.data(out, "address", authorization.address());
            object.quantity(out, "nonce", authorization.nonce());
            object.quantity_u256(out, "yParity", U256::from(authorization.y_parity()));
            object.quantity_u256(out, "r", authorization.r());
            object.quantity_u256(out, "s", authorization.s());
            object.close(out);
        });
    }
}

/// Writes an access list (EIP-2930).
pub fn access_list(out: &mut Vec<u8>, list: &AccessList) {
    array(out, &list.0, |out, item| {
        let mut object = Object::open(out);
        object.data(out, "address", item.address);
        object.member(out, "storageKeys");
        array(out, &item.storage_keys, |out, key| data(out, key.as_slice()));
        object.close(out);
    });
}
