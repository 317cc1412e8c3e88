//! The base fee (EIP-1559).

use alloy_consensus::Header;
use alloy_primitives::U256;

use crate::schedule::{Fork, Schedule};

const ELASTICITY: u64 = 2;
const MAX_CHANGE_DENOMINATOR: u64 = 8;

/// The base fee per gas, in wei, of the block after `parent` at `timestamp`; `None` before London.
pub fn next_base_fee(schedule: &Schedule, parent: &Header, timestamp: u64) -> Option<u64> {
    let number = parent.number.saturating_add(1);
    if !schedule.is_active(Fork::London, number, timestamp) {
        return None;
    }
    if schedule.zero_base_fee {
        return Some(0);
    }
    let Some(base_fee) = parent.base_fee_per_gas else { return Some(schedule.initial_base_fee()) };
    let target = parent.gas_limit / ELASTICITY;
    let delta = |gas: u64| {
        // A limit below the elasticity has no target; such a parent cannot be over it either.
        let denominator = U256::from(target.max(1)) * U256::from(MAX_CHANGE_DENOMINATOR);
        u64::try_from(U256::from(base_fee) * U256::from(gas) / denominator).unwrap_or(u64::MAX)
    };
    Some(match parent.gas_used.cmp(&target) {
        std::cmp::Ordering::Equal => base_fee,
        std::cmp::Ordering::Greater => base_fee.saturating_add(delta(parent.gas_used - target).max(1)),
        std::cmp::Ordering::Less => base_fee.saturating_sub(delta(target - parent.gas_used)),
    })
}
