//! Blocks: their encoding, and the rules that hold before they are executed.

mod base_fee;
mod blobs;
mod codec;
mod dao;
mod difficulty;
mod error;
mod ommers;
mod test_names;
#[cfg(test)]
mod tests;
mod validate;

use alloy_consensus::proofs::{
    calculate_ommers_root, calculate_transaction_root, calculate_withdrawals_root,
};
use alloy_consensus::{Header, Transaction as _};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, b256};

pub use base_fee::next_base_fee;
pub use blobs::{blob_price, next_excess_blob_gas};
pub(crate) use dao::{DAO_ACCOUNTS, DAO_EXTRA_DATA, DAO_REFUND};
pub use difficulty::next_difficulty;
pub use error::BlockError;
pub use ommers::{Ancestor, validate_ommers};
pub use validate::{
    SealCheck, Sealing, validate_body, validate_execution, validate_header, validate_state_root,
};

use crate::transaction::Transaction;

/// keccak-256 of an empty block access list (EIP-7928).
pub(crate) const EMPTY_BLOCK_ACCESS_LIST_HASH: B256 =
    b256!("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347");

/// A block that may be anything: nothing in it is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its header.
    pub header: Header,
    /// What the header's roots stand for.
    pub body: Body,
}

/// The parts of a block that its header has only roots of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// In the order in which they are executed.
    pub transactions: Vec<Transaction>,
    /// Headers of blocks that another block overtook; none since Paris.
    pub ommers: Vec<Header>,
    /// Since Shanghai.
    pub withdrawals: Option<Vec<Withdrawal>>,
}

impl Body {
    /// The root that the header must have as `transactions_root`.
    pub fn transactions_root(&self) -> B256 {
        calculate_transaction_root(&self.transactions)
    }

    /// The hash that the header must have as `ommers_hash`.
    pub fn ommers_hash(&self) -> B256 {
        calculate_ommers_root(&self.ommers)
    }

    /// The gas that the header must have as `blob_gas_used`, since Cancun.
    pub fn blob_gas_used(&self) -> u64 {
        self.transactions.iter().filter_map(|transaction| transaction.blob_gas_used()).sum()
    }

    /// The root that the header must have as `withdrawals_root`.
    pub fn withdrawals_root(&self) -> Option<B256> {
        self.withdrawals.as_deref().map(calculate_withdrawals_root)
    }
}
