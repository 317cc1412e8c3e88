//! Transactions of made-up blocks: like signed ones, with nothing where the signature belongs.

use alloy_consensus::transaction::{TxEip1559, TxEip7702, TxLegacy};
use alloy_consensus::{Signed, TxEip4844, TxType};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use alloy_rlp::Encodable;
use alloy_rpc_types_eth::TransactionRequest;
use revm::context::TxEnv;

use super::kind;
use crate::schedule::Rules;
use crate::transaction::Transaction;

/// A transaction of a made-up block.
#[derive(Clone, Debug)]
pub struct SimulatedTransaction {
    /// With `r` and `s` zero.
    pub transaction: Transaction,
    /// Who seems to have sent it.
    pub sender: Address,
    /// keccak-256 of `encoded`.
    pub hash: B256,
    /// As it stands in the block; the `v` of a legacy transaction is zero.
    pub encoded: Bytes,
}

impl SimulatedTransaction {
    pub(super) fn new(request: &TransactionRequest, executed: &TxEnv, rules: &Rules) -> Self {
        let chain_id = rules.chain_id;
        let unsigned = Signature::new(U256::ZERO, U256::ZERO, false);
        let max_priority_fee_per_gas = request.max_priority_fee_per_gas.unwrap_or(0);
        let max_fee_per_gas = request.max_fee_per_gas.unwrap_or(0);
        let to = executed.kind.to().copied().unwrap_or_default();
        let (nonce, gas_limit, value) = (executed.nonce, executed.gas_limit, executed.value);
        let (input, access_list) = (executed.data.clone(), executed.access_list.clone());
        let transaction = match kind(request, rules) {
            TxType::Legacy => {
                let gas_price = executed.gas_price;
                let to = executed.kind;
                let transaction = TxLegacy { chain_id: None, nonce, gas_price, gas_limit, to, value, input };
                let encoded = Bytes::from(legacy(&transaction));
                let hash = keccak256(&encoded);
                let transaction = Signed::new_unchecked(transaction, unsigned, hash).into();
                return Self { transaction, sender: executed.caller, hash, encoded };
            }
            TxType::Eip4844 => Transaction::Eip4844(Signed::new_unhashed(
                TxEip4844 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    to,
                    value,
                    access_list,
                    blob_versioned_hashes: executed.blob_hashes.clone(),
                    max_fee_per_blob_gas: executed.max_fee_per_blob_gas,
                    input,
                },
                unsigned,
            )),
            TxType::Eip7702 => Transaction::Eip7702(Signed::new_unhashed(
                TxEip7702 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    to,
                    value,
                    access_list,
                    authorization_list: request.authorization_list.clone().unwrap_or_default(),
                    input,
                },
                unsigned,
            )),
            TxType::Eip2930 | TxType::Eip1559 => Transaction::Eip1559(Signed::new_unhashed(
                TxEip1559 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    to: executed.kind,
                    value,
                    access_list,
                    input,
                },
                unsigned,
            )),
        };
        let encoded = Bytes::from(transaction.encoded_2718());
        Self { sender: executed.caller, hash: keccak256(&encoded), transaction, encoded }
    }
}

fn legacy(transaction: &TxLegacy) -> Vec<u8> {
    let mut fields = Vec::new();
    transaction.nonce.encode(&mut fields);
    transaction.gas_price.encode(&mut fields);
    transaction.gas_limit.encode(&mut fields);
    match transaction.to {
        TxKind::Call(to) => to.encode(&mut fields),
        TxKind::Create => fields.push(0x80),
    }
    transaction.value.encode(&mut fields);
    transaction.input.encode(&mut fields);
    // No v, r and s.
    fields.extend([0x80; 3]);
    let mut out = Vec::with_capacity(fields.len() + 9);
    alloy_rlp::Header { list: true, payload_length: fields.len() }.encode(&mut out);
    out.extend_from_slice(&fields);
    out
}
