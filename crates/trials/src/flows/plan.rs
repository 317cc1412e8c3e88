//! How bad a run is.

use tally_sim::Rng;

/// How bad a run is.
pub(crate) struct Plan {
    pub(crate) steps: u64,
    /// Weights of: crash, connection, message, partition, disk, clock, a person's hands.
    pub(crate) faults: [u64; 7],
    /// A fault in so many steps; none if zero.
    pub(crate) fault_every: u64,
    /// An order in so many steps.
    pub(crate) order_every: u64,
    pub(crate) kills: bool,
    pub(crate) skew_ms: u64,
    /// Messages mostly arrive in order.
    pub(crate) orderly: bool,
    pub(crate) asks_again: bool,
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let steps = match rng.below(20) {
            0 => rng.between(5_000, 12_000),
            1..5 => rng.between(2_000, 5_000),
            _ => rng.between(200, 2_000),
        };
        let mut faults = [0; 7].map(|_: u64| rng.below(10));
        // Some runs have one fault only, over and over.
        if rng.chance(1, 3) {
            faults = [0; 7];
            faults[rng.index(7)] = 1;
        }
        if faults.iter().sum::<u64>() == 0 {
            faults[0] = 1;
        }
        Self {
            steps,
            faults,
            fault_every: [0, 200, 60, 20][rng.index(4)],
            order_every: rng.between(15, 80),
            kills: rng.chance(1, 4),
            skew_ms: [0, 0, 2_000, 20_000_000][rng.index(4)],
            orderly: rng.chance(2, 3),
            asks_again: rng.chance(3, 4),
        }
    }
}
