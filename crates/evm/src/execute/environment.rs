//! What a block tells the code that runs in it.

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, U256};
use revm::context::{BlockEnv, CfgEnv};
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::context_interface::cfg::GasId;

use crate::block::blob_price;
use crate::schedule::{Fork, Rules};

/// A block's header as far as execution depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env {
    /// Number of the block.
    pub number: u64,
    /// Seconds since 1970.
    pub timestamp: u64,
    /// Who gets fees and rewards.
    pub beneficiary: Address,
    /// Gas that the transactions may use together.
    pub gas_limit: u64,
    /// Wei per gas that are burnt; zero before London.
    pub base_fee: u64,
    /// Difficulty of a block of work, one of a sealed block, zero after the merge.
    pub difficulty: U256,
    /// `mixHash`: what PREVRANDAO gives after the merge.
    pub prev_randao: B256,
    /// Since Cancun.
    pub excess_blob_gas: Option<u64>,
    /// Hash of the parent.
    pub parent_hash: B256,
    /// Since Cancun, on chains with a beacon chain.
    pub parent_beacon_block_root: Option<B256>,
    /// Since Amsterdam.
    pub slot_number: u64,
    /// Wei for the beneficiary in place of the rewards of Ethereum's forks.
    pub reward: Option<U256>,
}

impl Env {
    /// The environment of the block with this header. Sealed chains set `beneficiary` and `reward` as
    /// their configuration says.
    pub fn of(header: &Header) -> Self {
        Self {
            number: header.number,
            timestamp: header.timestamp,
            beneficiary: header.beneficiary,
            gas_limit: header.gas_limit,
            base_fee: header.base_fee_per_gas.unwrap_or(0),
            difficulty: header.difficulty,
            prev_randao: header.mix_hash,
            excess_blob_gas: header.excess_blob_gas,
            parent_hash: header.parent_hash,
            parent_beacon_block_root: header.parent_beacon_block_root,
            slot_number: header.slot_number.unwrap_or(0),
            reward: None,
        }
    }

    pub(crate) fn block(&self, rules: &Rules) -> BlockEnv {
        let excess_blob_gas = self.excess_blob_gas.unwrap_or(0);
        BlockEnv {
            number: U256::from(self.number),
            beneficiary: self.beneficiary,
            timestamp: U256::from(self.timestamp),
            gas_limit: self.gas_limit,
            basefee: self.base_fee,
            difficulty: self.difficulty,
            prevrandao: rules.has(Fork::Paris).then_some(self.prev_randao),
            blob_excess_gas_and_price: rules.blobs.map(|blobs| BlobExcessGasAndPrice {
                excess_blob_gas,
                blob_gasprice: blob_price(&blobs, excess_blob_gas),
            }),
            slot_num: self.slot_number,
        }
    }
}

impl Rules {
    pub(crate) fn configuration(&self) -> CfgEnv {
        let mut configuration = CfgEnv::new_with_spec(self.spec).with_chain_id(self.chain_id);
        configuration.limit_contract_code_size = self.contract_size_limit;
        if self.fork == Fork::Constantinople {
            // EIP-1283 has the whole cost of SSTORE depend on what it does.
            configuration.gas_params.override_gas([(GasId::sstore_static(), 0)]);
        }
        if let Some(blobs) = self.blobs {
            configuration.max_blobs_per_tx = Some(blobs.max_blobs_per_tx.min(blobs.max_blob_count));
            configuration.blob_base_fee_update_fraction =
                Some(u64::try_from(blobs.update_fraction).unwrap_or(u64::MAX));
        }
        configuration
    }
}
