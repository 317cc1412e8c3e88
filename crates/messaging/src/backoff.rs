//! How long to wait before the next attempt to reach a peer.

use std::time::Duration;

/// Exponential waiting times with a floor, a ceiling and jitter.
///
/// The n-th wait is drawn evenly from the upper half of `min(ceiling, floor · 2ⁿ)`, so that many nodes that lost
/// one peer at the same moment do not come back at the same moment.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    floor: Duration,
    ceiling: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(floor: Duration, ceiling: Duration) -> Self {
        Self { floor, ceiling: ceiling.max(floor), failures: 0 }
    }

    /// The wait after one more failure, from a random number.
    pub(crate) fn next(&mut self, random: u64) -> Duration {
        let factor = 1_u32.checked_shl(self.failures.min(31)).unwrap_or(u32::MAX);
        let whole = self.floor.saturating_mul(factor).min(self.ceiling);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        // 2^32 steps are finer than any timer.
        half + half.mul_f64(f64::from((random >> 32) as u32) / f64::from(u32::MAX))
    }

    /// The peer was reached.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_ceiling_and_start_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let longest: Vec<_> = (0..6).map(|_| backoff.next(u64::MAX).as_millis()).collect();
        assert_eq!(longest, [100, 200, 400, 800, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.next(0).as_millis(), 50);
        for _ in 0..100 {
            let wait = backoff.next(1 << 63);
            assert!(wait >= Duration::from_millis(50) && wait <= Duration::from_secs(1));
        }
    }
}
