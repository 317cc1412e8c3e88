//! Blocks and headers (execution-apis, schemas/block).

use alloy_consensus::{EthereumTxEnvelope, Header, TxEip4844};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256};

use super::{Object, Placed, array, data, transaction, unsigned_transaction};

/// The transactions of a block, as its JSON has them.
#[derive(Debug, Clone, Copy)]
pub enum Transactions<'a> {
    /// Their hashes, 32 bytes each, one after the other.
    Hashes(&'a [u8]),
    /// All of each, with its sender.
    Full(&'a [(Address, &'a EthereumTxEnvelope<TxEip4844>)]),
    /// All of each, with its hash and sender, without signatures: those of a simulated block.
    Unsigned(&'a [(B256, Address, &'a EthereumTxEnvelope<TxEip4844>)]),
}

/// Writes the members of a header.
fn members(out: &mut Vec<u8>, object: &mut Object, hash: B256, header: &Header) {
    object.data(out, "hash", hash);
    object.data(out, "parentHash", header.parent_hash);
    object.data(out, "sha3Uncles", header.ommers_hash);
    object.data(out, "miner", header.beneficiary);
    object.data(out, "stateRoot", header.state_root);
    object.data(out, "transactionsRoot", header.transactions_root);
    object.data(out, "receiptsRoot", header.receipts_root);
    object.data(out, "logsBloom", header.logs_bloom);
    object.quantity_u256(out, "difficulty", header.difficulty);
    object.quantity(out, "number", header.number);
    object.quantity(out, "gasLimit", header.gas_limit);
    object.quantity(out, "gasUsed", header.gas_used);
    object.quantity(out, "timestamp", header.timestamp);
    object.data(out, "extraData", &header.extra_data);
    object.data(out, "mixHash", header.mix_hash);
    object.data(out, "nonce", header.nonce);
    for (name, value) in [
        ("baseFeePerGas", header.base_fee_per_gas),
        ("blobGasUsed", header.blob_gas_used),
        ("excessBlobGas", header.excess_blob_gas),
        ("slotNumber", header.slot_number),
    ] {
        if let Some(value) = value {
            object.quantity(out, name, value);
        }
    }
    for (name, value) in [
        ("withdrawalsRoot", header.withdrawals_root),
        ("parentBeaconBlockRoot", header.parent_beacon_block_root),
        ("requestsHash", header.requests_hash),
        ("blockAccessListHash", header.block_access_list_hash),
    ] {
        if let Some(value) = value {
            object.data(out, name, value);
        }
    }
}

/// Writes a header alone, as `newHeads` sends it.
pub fn header(out: &mut Vec<u8>, hash: B256, header: &Header) {
    let mut object = Object::open(out);
    members(out, &mut object, hash, header);
    object.close(out);
}

/// Writes a block; `size` is that of its RLP in bytes, `ommers` are hashes, and there are withdrawals since
/// Shanghai.
pub fn block(
    out: &mut Vec<u8>,
    hash: B256,
    header: &Header,
    size: u64,
    transactions: Transactions<'_>,
    ommers: &[B256],
    withdrawals: Option<&[Withdrawal]>,
) {
    out.reserve(
        2048 + if let Transactions::Hashes(hashes) = transactions { hashes.len() / 32 * 69 } else { 0 },
    );
    let mut object = Object::open(out);
    open_block(out, &mut object, hash, header, size, transactions, ommers, withdrawals);
    object.close(out);
}

/// Writes the members of a block into an object that may have others.
#[expect(
    clippy::too_many_arguments,
    reason = "a block has as many parts, and this is `block` without its braces"
)]
pub(crate) fn open_block(
    out: &mut Vec<u8>,
    object: &mut Object,
    hash: B256,
    header: &Header,
    size: u64,
    transactions: Transactions<'_>,
    ommers: &[B256],
    withdrawals: Option<&[Withdrawal]>,
) {
    members(out, object, hash, header);
    object.quantity(out, "size", size);
    object.member(out, "transactions");
    let placed = |index| Placed {
        hash,
        number: header.number,
        timestamp: header.timestamp,
        index,
        base_fee: header.base_fee_per_gas,
    };
    match transactions {
        Transactions::Hashes(hashes) => array(out, hashes.chunks_exact(32), data),
        Transactions::Full(list) => array(out, (0..).zip(list), |out, (index, (sender, signed))| {
            transaction(out, signed, *sender, Some(&placed(index)));
        }),
        Transactions::Unsigned(list) => {
            array(out, (0..).zip(list), |out, (index, (hash, sender, unsigned))| {
                unsigned_transaction(out, *hash, unsigned, *sender, &placed(index));
            })
        }
    }
    object.member(out, "uncles");
    array(out, ommers, |out, hash| data(out, hash.as_slice()));
    if let Some(withdrawals) = withdrawals {
        object.member(out, "withdrawals");
        self::withdrawals(out, withdrawals);
    }
}

/// Writes withdrawals (EIP-4895).
pub fn withdrawals(out: &mut Vec<u8>, list: &[Withdrawal]) {
    array(out, list, |out, withdrawal| {
        let mut object = Object::open(out);
        object.quantity(out, "index", withdrawal.index);
        object.quantity(out, "validatorIndex", withdrawal.validator_index);
        object.data(out, "address", withdrawal.address);
        object.quantity(out, "amount", withdrawal.amount);
        object.close(out);
    });
}
