//! What came of a transaction, and of a block.

use alloy_consensus::ReceiptEnvelope;
use alloy_consensus::proofs::calculate_receipt_root;
use alloy_eips::eip7685::Requests;
use alloy_primitives::{Address, B256, Bloom, Bytes};
use tally_state::Changes;

/// What came of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it went through rather than being reverted.
    pub success: bool,
    /// Gas that its sender paid for.
    pub gas_used: u64,
    /// Returned data: the result, the code of a created contract, or the reason of a revert.
    pub output: Bytes,
    /// The contract that it created.
    pub created: Option<Address>,
}

/// What came of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Of the state after the parent.
    pub changes: Changes,
    /// One for each transaction.
    pub receipts: Vec<ReceiptEnvelope>,
    /// Of all transactions.
    pub gas_used: u64,
    /// Of all transactions.
    pub blob_gas_used: u64,
    /// Since Prague: what the block asks of the beacon chain (EIP-7685).
    pub requests: Requests,
    /// Of all logs.
    pub bloom: Bloom,
}

impl Executed {
    /// The root that the header must have as `receipts_root`.
    pub fn receipts_root(&self) -> B256 {
        calculate_receipt_root(&self.receipts)
    }

    /// How much gas each transaction used, from the cumulative sums of the receipts.
    pub fn gas_by_transaction(&self) -> impl Iterator<Item = u64> {
        let mut before = 0;
        self.receipts.iter().map(move |receipt| {
            let until = receipt.cumulative_gas_used();
            let used = until.saturating_sub(before);
            before = until;
            used
        })
    }
}
