//! What the beneficiaries of blocks of work get.

use alloy_consensus::Header;
use alloy_primitives::{Address, U256};

use super::Env;
use crate::schedule::{Fork, Rules};

const ETHER: u64 = 1_000_000_000_000_000_000;

/// Who gets how many wei at the end of the block: the beneficiary, and those of the ommers.
pub(super) fn rewards(rules: &Rules, sealed: bool, env: &Env, ommers: &[Header]) -> Vec<(Address, U256)> {
    let full = match env.reward {
        Some(reward) => reward,
        None if sealed || rules.has(Fork::Paris) => U256::ZERO,
        None if rules.has(Fork::Constantinople) => U256::from(2 * ETHER),
        None if rules.has(Fork::Byzantium) => U256::from(3 * ETHER),
        None => U256::from(5 * ETHER),
    };
    if full.is_zero() {
        return Vec::new();
    }
    let mut rewards = Vec::with_capacity(ommers.len() + 1);
    let mut own = full;
    for ommer in ommers {
        let generations = env.number.saturating_sub(ommer.number);
        let share = U256::from(8_u64.saturating_sub(generations));
        rewards.push((ommer.beneficiary, full.saturating_mul(share) / U256::from(8)));
        own = own.saturating_add(full / U256::from(32));
    }
    rewards.push((env.beneficiary, own));
    rewards
}
