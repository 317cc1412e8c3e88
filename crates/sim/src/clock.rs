//! Time that moves only when the simulation says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock set by hand. Clones show the same time; [`SimClock::skewed`] ones are wrong by a constant.
///
/// ```
/// let clock = tally_sim::SimClock::new(1_000_000);
/// let late = clock.skewed(-250_000);
/// clock.advance_ns(5);
/// assert_eq!((clock.now_ns(), late.now_ns()), (1_000_005, 750_005));
/// ```
#[derive(Clone, Debug)]
pub struct SimClock {
    true_ns: Arc<AtomicU64>,
    skew_ns: i64,
}

impl SimClock {
    /// A clock that shows `start_ns` nanoseconds since its epoch.
    #[must_use]
    pub fn new(start_ns: u64) -> Self {
        Self { true_ns: Arc::new(AtomicU64::new(start_ns)), skew_ns: 0 }
    }

    /// A clock on the same time that is ahead by `skew_ns` nanoseconds (behind, if negative) of this one.
    #[must_use]
    pub fn skewed(&self, skew_ns: i64) -> Self {
        Self { true_ns: Arc::clone(&self.true_ns), skew_ns: self.skew_ns.saturating_add(skew_ns) }
    }

    /// Nanoseconds since the epoch, as this clock shows them.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.true_ns.load(Ordering::SeqCst).saturating_add_signed(self.skew_ns)
    }

    /// Whole milliseconds since the epoch, as this clock shows them.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    /// Lets `ns` nanoseconds pass, for every clock on the same time.
    ///
    /// # Panics
    /// If time runs past `u64::MAX` nanoseconds.
    pub fn advance_ns(&self, ns: u64) {
        self.true_ns
            .try_update(Ordering::SeqCst, Ordering::SeqCst, |now| now.checked_add(ns))
            .expect("a simulation runs for less than 584 years");
    }

    /// Lets `ms` milliseconds pass.
    ///
    /// # Panics
    /// If time runs past `u64::MAX` nanoseconds.
    pub fn advance_ms(&self, ms: u64) {
        self.advance_ns(ms.saturating_mul(1_000_000));
    }
}
