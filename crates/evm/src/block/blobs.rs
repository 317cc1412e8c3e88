//! The price of blobs and the excess that sets it (EIP-4844, EIP-7918).

use alloy_consensus::Header;
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_eips::eip7840::BlobParams;
use alloy_primitives::U256;

/// Wei per unit of blob gas at this excess: `min_blob_fee * e^(excess / update_fraction)`, at most
/// `u128::MAX`.
pub fn blob_price(blobs: &BlobParams, excess_blob_gas: u64) -> u128 {
    // e^88 is above 2^126; beyond it the series of EIP-4844 only grows.
    const LARGEST_EXPONENT: u128 = 88;
    let numerator = u128::from(excess_blob_gas);
    let denominator = blobs.update_fraction.max(1);
    if numerator / denominator > LARGEST_EXPONENT {
        return u128::MAX;
    }
    let mut sum = U256::ZERO;
    let mut term = U256::from(blobs.min_blob_fee) * U256::from(denominator);
    let mut index = U256::ONE;
    while !term.is_zero() {
        sum += term;
        term = term * U256::from(numerator) / (U256::from(denominator) * index);
        index += U256::ONE;
    }
    u128::try_from(sum / U256::from(denominator)).unwrap_or(u128::MAX)
}

/// The excess blob gas of the block after `parent`, when `blobs` holds for that block.
pub fn next_excess_blob_gas(blobs: &BlobParams, parent: &Header) -> u64 {
    let excess = parent.excess_blob_gas.unwrap_or(0);
    let used = parent.blob_gas_used.unwrap_or(0);
    let target = blobs.target_blob_count.saturating_mul(DATA_GAS_PER_BLOB);
    let total = u128::from(excess) + u128::from(used);
    if total < u128::from(target) {
        return 0;
    }
    // EIP-7918: when blobs cost less than execution, the excess does not fall.
    let base_fee = U256::from(parent.base_fee_per_gas.unwrap_or(0));
    let reserve = U256::from(blobs.blob_base_cost) * base_fee;
    let next = if reserve > U256::from(DATA_GAS_PER_BLOB) * U256::from(blob_price(blobs, excess)) {
        let spared = blobs.max_blob_count.saturating_sub(blobs.target_blob_count);
        u128::from(excess) + u128::from(used) * u128::from(spared) / u128::from(blobs.max_blob_count.max(1))
    } else {
        total - u128::from(target)
    };
    u64::try_from(next).unwrap_or(u64::MAX)
}
