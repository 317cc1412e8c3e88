//! The difficulty of blocks of work, with the bombs and their delays.

use alloy_consensus::Header;
use alloy_consensus::constants::EMPTY_OMMER_ROOT_HASH;
use alloy_primitives::U256;

use crate::schedule::Fork;

const MINIMUM: U256 = U256::from_limbs([131_072, 0, 0, 0]);
const BOUND_DIVISOR: u64 = 2048;
const BOMB_PERIOD: u64 = 100_000;
/// By how many blocks each fork put the bomb off, the latest first.
const BOMB_DELAYS: [(Fork, u64); 6] = [
    (Fork::GrayGlacier, 11_400_000),
    (Fork::ArrowGlacier, 10_700_000),
    (Fork::London, 9_700_000),
    (Fork::MuirGlacier, 9_000_000),
    (Fork::Constantinople, 5_000_000),
    (Fork::Byzantium, 3_000_000),
];

/// The difficulty of the block after `parent` at `timestamp`, under the rules of `fork`.
///
/// Frontier's formula, EIP-2, EIP-100 and the delays of the bomb: EIP-649, EIP-1234, EIP-2384, EIP-3554,
/// EIP-4345, EIP-5133.
pub fn next_difficulty(fork: Fork, parent: &Header, timestamp: u64) -> U256 {
    let number = parent.number.saturating_add(1);
    let elapsed = timestamp.saturating_sub(parent.timestamp);
    let step = parent.difficulty / U256::from(BOUND_DIVISOR);
    // How many steps up, or down when the second is not zero.
    let (up, down) = if fork < Fork::Homestead {
        if elapsed < 13 { (1, 0) } else { (0, 1) }
    } else {
        let (most, period) = if fork < Fork::Byzantium {
            (1, 10)
        } else {
            (if parent.ommers_hash == EMPTY_OMMER_ROOT_HASH { 1 } else { 2 }, 9)
        };
        let periods = elapsed / period;
        if periods <= most { (most - periods, 0) } else { (0, (periods - most).min(99)) }
    };
    let difficulty = parent
        .difficulty
        .saturating_add(step.saturating_mul(U256::from(up)))
        .saturating_sub(step.saturating_mul(U256::from(down)))
        .max(MINIMUM);
    let delay = BOMB_DELAYS.iter().find(|(since, _)| fork >= *since).map_or(0, |(_, blocks)| *blocks);
    let period = number.saturating_sub(delay) / BOMB_PERIOD;
    match period.checked_sub(2).and_then(|exponent| usize::try_from(exponent).ok()) {
        None => difficulty,
        Some(exponent) if exponent >= 256 => U256::MAX,
        Some(exponent) => difficulty.saturating_add(U256::ONE << exponent),
    }
}
