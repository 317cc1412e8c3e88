//! How often one connection may call: a bucket that fills with time.

use std::time::Instant;

/// A token bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: u32,
    capacity: f64,
    level: f64,
    filled: Instant,
}

impl Bucket {
    /// A full bucket of `burst` calls that gains `per_second`; 0 never empties.
    pub(super) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let capacity = f64::from(burst.max(1));
        Self { per_second, capacity, level: capacity, filled: now }
    }

    /// Takes `calls` out, if there are as many. A full bucket lets any number through and is in debt after it,
    /// so that a batch larger than the burst is slow rather than impossible.
    pub(super) fn take(&mut self, calls: usize, now: Instant) -> bool {
        if self.per_second == 0 {
            return true;
        }
        let gained = now.saturating_duration_since(self.filled).as_secs_f64() * f64::from(self.per_second);
        self.level = (self.level + gained).min(self.capacity);
        self.filled = now;
        let calls = u32::try_from(calls).map_or(f64::MAX, f64::from);
        if self.level >= calls || self.level >= self.capacity {
            self.level -= calls;
            return true;
        }
        false
    }

    /// Whether calls are counted at all.
    pub(super) fn counts(&self) -> bool {
        self.per_second != 0
    }
}
