//! What a fork asks of a transaction, whatever the state: its type, signature, size and gas.

use alloy_consensus::Transaction as _;
use alloy_consensus::crypto::SECP256K1N_HALF;
use alloy_eips::eip4844::VERSIONED_HASH_VERSION_KZG;
use alloy_eips::eip7825::MAX_TX_GAS_LIMIT_OSAKA;
use alloy_primitives::Address;
use revm::context_interface::cfg::GasParams;
use revm::context_interface::cfg::gas_params::Eip2780TxInfo;
use revm::primitives::{eip3860, eip7954};

use super::{Recovered, Transaction, TransactionError};
use crate::schedule::{Fork, Rules};

/// Gas that a transaction uses before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntrinsicGas {
    /// For the transaction, its data, lists and creation.
    pub gas: u64,
    /// The least that its data makes it use in the end (EIP-7623); zero before Prague.
    pub floor: u64,
}

/// What `transaction`, sent by `sender`, costs before it runs.
pub fn intrinsic_gas(transaction: &Transaction, sender: Address, rules: &Rules) -> IntrinsicGas {
    let (accounts, slots) = transaction.access_list().map_or((0, 0), |list| {
        (list.len() as u64, list.iter().map(|item| item.storage_keys.len() as u64).sum())
    });
    let decomposed = rules.has(Fork::Amsterdam).then(|| Eip2780TxInfo {
        value: transaction.value(),
        is_self_transfer: transaction.kind().to() == Some(&sender),
    });
    let gas = GasParams::new_spec(rules.spec).initial_tx_gas(
        transaction.input(),
        transaction.kind().is_create(),
        accounts,
        slots,
        transaction.authorization_list().map_or(0, |list| list.len() as u64),
        decomposed,
    );
    IntrinsicGas {
        gas: gas.initial_total_gas(),
        floor: if rules.has(Fork::Prague) { gas.floor_gas() } else { 0 },
    }
}

impl Recovered {
    /// Whether the fork takes the transaction, before its sender's account is looked at.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self, rules: &Rules) -> Result<IntrinsicGas, TransactionError> {
        self.check_form(rules)?;
        let limit = self.gas_limit();
        if rules.has(Fork::Osaka) && !rules.has(Fork::Amsterdam) && limit > MAX_TX_GAS_LIMIT_OSAKA {
            return Err(TransactionError::GasLimitCap { gas_limit: limit });
        }
        if rules.has(Fork::Shanghai) && self.kind().is_create() {
            let allowed = rules.max_initcode_size();
            if self.input().len() > allowed {
                return Err(TransactionError::InitcodeSize { size: self.input().len(), limit: allowed });
            }
        }
        let gas = intrinsic_gas(self, self.sender(), rules);
        if gas.gas > limit {
            return Err(TransactionError::IntrinsicGas { gas_limit: limit, needed: gas.gas });
        }
        if gas.floor > limit {
            return Err(TransactionError::FloorGas { gas_limit: limit, needed: gas.floor });
        }
        Ok(gas)
    }

    /// The rules that execution does not check again by itself.
    pub(crate) fn check_form(&self, rules: &Rules) -> Result<(), TransactionError> {
        let since = match &**self {
            Transaction::Legacy(_) => Fork::Frontier,
            Transaction::Eip2930(_) => Fork::Berlin,
            Transaction::Eip1559(_) => Fork::London,
            Transaction::Eip4844(_) => Fork::Cancun,
            Transaction::Eip7702(_) => Fork::Prague,
        };
        if !rules.has(since) {
            return Err(TransactionError::TypeNotSupported(self.tx_type() as u8));
        }
        match self.chain_id() {
            Some(_) if self.is_legacy() && !rules.has(Fork::SpuriousDragon) => {
                return Err(TransactionError::ProtectedTooEarly);
            }
            Some(chain_id) if chain_id != rules.chain_id => return Err(TransactionError::InvalidChainId),
            _ => {}
        }
        if rules.has(Fork::Homestead) && self.signature().s() > SECP256K1N_HALF {
            return Err(TransactionError::InvalidSignature);
        }
        if self.nonce() == u64::MAX {
            return Err(TransactionError::NonceMax);
        }
        if self.max_priority_fee_per_gas().is_some_and(|tip| tip > self.max_fee_per_gas()) {
            return Err(TransactionError::TipAboveFeeCap);
        }
        if let Some(hashes) = self.blob_versioned_hashes() {
            if hashes.is_empty() {
                return Err(TransactionError::NoBlobs);
            }
            if hashes.iter().any(|hash| hash[0] != VERSIONED_HASH_VERSION_KZG) {
                return Err(TransactionError::BlobVersion);
            }
            let limit = rules.blobs.map_or(0, |blobs| blobs.max_blobs_per_tx.min(blobs.max_blob_count));
            if hashes.len() as u64 > limit {
                return Err(TransactionError::TooManyBlobs { count: hashes.len(), limit });
            }
        }
        if self.authorization_list().is_some_and(|list| list.is_empty()) {
            return Err(TransactionError::NoAuthorizations);
        }
        Ok(())
    }
}

impl Rules {
    /// Bytes of init code that a transaction or a creation may have, since Shanghai.
    pub fn max_initcode_size(&self) -> usize {
        match self.contract_size_limit {
            Some(limit) => limit.saturating_mul(2),
            None if self.has(Fork::Amsterdam) => eip7954::MAX_INITCODE_SIZE,
            None => eip3860::MAX_INITCODE_SIZE,
        }
    }
}
