//! The base fee (EIP-1559).

use alloy_consensus::Header;
use alloy_primitives::U256;

use crate::schedule::{Fork, INITIAL_BASE_FEE, Schedule};

const ELASTICITY: u64 = 2;
const MAX_CHANGE_DENOMINATOR: u64 = 8;

/// The base fee per gas, in wei, of the block to build after `parent` at `timestamp`: none before London, zero in a network
/// that is free, else the market's.
pub fn next_base_fee(schedule: &Schedule, parent: &Header, timestamp: u64) -> Option<u64> {
    let number = parent.number.saturating_add(1);
    if !schedule.is_active(Fork::London, number, timestamp) {
        return None;
    }
    Some(if schedule.zero_base_fee { 0 } else { market_price(parent) })
}

/// Whether a block after `parent` at `timestamp` may have the base fee `found`.
///
/// In a network that is free these are two: zero, and what the market says, since `zeroBaseFee` may have been added to the
/// file of a network with a past. Besu takes any there (`BaseFeeMarketBlockHeaderGasPriceValidationRule`), which would leave
/// the price to the proposer.
pub(super) fn may_have_base_fee(
    schedule: &Schedule,
    parent: &Header,
    timestamp: u64,
    found: Option<u64>,
) -> bool {
    let expected = next_base_fee(schedule, parent, timestamp);
    found == expected || (schedule.zero_base_fee && expected.is_some() && found == Some(market_price(parent)))
}

/// The base fee that EIP-1559 computes from `parent`, in wei.
fn market_price(parent: &Header) -> u64 {
    let Some(base_fee) = parent.base_fee_per_gas else { return INITIAL_BASE_FEE };
    let target = parent.gas_limit / ELASTICITY;
    let delta = |gas: u64| {
        // A limit below the elasticity has no target; such a parent cannot be over it either.
        let denominator = U256::from(target.max(1)) * U256::from(MAX_CHANGE_DENOMINATOR);
        u64::try_from(U256::from(base_fee) * U256::from(gas) / denominator).unwrap_or(u64::MAX)
    };
    match parent.gas_used.cmp(&target) {
        std::cmp::Ordering::Equal => base_fee,
        std::cmp::Ordering::Greater => base_fee.saturating_add(delta(parent.gas_used - target).max(1)),
        std::cmp::Ordering::Less => base_fee.saturating_sub(delta(target - parent.gas_used)),
    }
}
