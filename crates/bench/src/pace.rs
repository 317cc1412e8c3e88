//! When the next batch is due: pure arithmetic, the driver brings the clock.
//!
//! [`OpenLoop`] is the outside world: transactions arrive at a rate, whether or not the system keeps up, and each
//! batch knows when it was meant to be sent. [`ClosedLoop`] is a client that waits: at most a window of
//! transactions is under way. The first measures latency, the second the highest throughput.

use std::time::Duration;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A batch that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The number of its first transaction, from zero.
    pub first: u64,
    /// How many transactions it holds.
    pub count: u64,
    /// When it was meant to be sent, from the start of the run; its latency counts from here.
    pub intended: Duration,
}

/// Why a schedule cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PaceError {
    /// Nothing would ever be due.
    #[error("the rate is zero; give transactions per second")]
    Rate,
    /// A batch holds at least one transaction.
    #[error("the batch is empty; give at least one transaction")]
    Batch,
    /// Nothing could ever be sent.
    #[error("the window is zero; give at least one transaction under way")]
    Window,
}

/// Arrivals at a fixed rate, in batches of a fixed size, that do not wait for the system.
///
/// ```
/// use std::time::Duration;
/// use tally_bench::pace::OpenLoop;
///
/// let mut arrivals = OpenLoop::new(1_000, 100, None)?;
/// // A driver that comes back after a stall of 250 ms finds three batches due, each with its own time.
/// let at = Duration::from_millis(250);
/// let intended: Vec<_> = std::iter::from_fn(|| arrivals.take(at)).map(|due| due.intended.as_millis()).collect();
/// assert_eq!(intended, [0, 100, 200]);
/// assert_eq!(arrivals.next_at(), Some(Duration::from_millis(300)));
/// # Ok::<(), tally_bench::pace::PaceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenLoop {
    rate_tps: u64,
    batch: u64,
    total: Option<u64>,
    taken: u64,
}

impl OpenLoop {
    /// `rate_tps` transactions per second in batches of `batch`; ends after `total`, or never.
    ///
    /// The first batch is due at the start, the next `batch / rate_tps` seconds later.
    ///
    /// # Errors
    /// [`PaceError`] when the rate or the batch is zero.
    pub fn new(rate_tps: u64, batch: u64, total: Option<u64>) -> Result<Self, PaceError> {
        if rate_tps == 0 {
            return Err(PaceError::Rate);
        }
        if batch == 0 {
            return Err(PaceError::Batch);
        }
        Ok(Self { rate_tps, batch, total, taken: 0 })
    }

    /// How many transactions the schedule wants sent by `elapsed`, taken or not.
    #[must_use]
    pub fn due_by(&self, elapsed: Duration) -> u64 {
        // Batch k is due when k × batch / rate seconds have passed; counting begins with batch 0 at once.
        let batches = elapsed.as_nanos().saturating_mul(u128::from(self.rate_tps))
            / (u128::from(self.batch) * NANOS_PER_SECOND)
            + 1;
        let due = u64::try_from(batches.saturating_mul(u128::from(self.batch))).unwrap_or(u64::MAX);
        self.total.map_or(due, |total| due.min(total))
    }

    /// How many due transactions have not been taken: how far the driver lags.
    #[must_use]
    pub fn behind(&self, elapsed: Duration) -> u64 {
        self.due_by(elapsed).saturating_sub(self.taken)
    }

    /// The earliest batch that is due by `elapsed` and was not taken.
    pub fn take(&mut self, elapsed: Duration) -> Option<Due> {
        let intended = self.next_at().filter(|at| *at <= elapsed)?;
        let left = self.total.map_or(u64::MAX, |total| total - self.taken);
        let due = Due { first: self.taken, count: self.batch.min(left), intended };
        self.taken = self.taken.checked_add(due.count)?;
        Some(due)
    }

    /// When the next batch is due, or `None` after the last: how long a driver may sleep.
    #[must_use]
    pub fn next_at(&self) -> Option<Duration> {
        if self.total.is_some_and(|total| self.taken >= total) {
            return None;
        }
        // Rounded up: a batch is never due before its time.
        let nanos = (u128::from(self.taken) * NANOS_PER_SECOND).div_ceil(u128::from(self.rate_tps));
        let seconds = u64::try_from(nanos / NANOS_PER_SECOND).ok()?;
        let rest = u32::try_from(nanos % NANOS_PER_SECOND).ok()?;
        Some(Duration::new(seconds, rest))
    }

    /// How many transactions were taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

/// At most a window of transactions under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedLoop {
    window: u64,
    batch: u64,
    total: Option<u64>,
    taken: u64,
    completed: u64,
}

impl ClosedLoop {
    /// At most `window` transactions under way, sent in batches of `batch`; ends after `total`, or never.
    ///
    /// # Errors
    /// [`PaceError`] when the window or the batch is zero.
    pub fn new(window: u64, batch: u64, total: Option<u64>) -> Result<Self, PaceError> {
        if window == 0 {
            return Err(PaceError::Window);
        }
        if batch == 0 {
            return Err(PaceError::Batch);
        }
        // A batch larger than the window could never be sent.
        Ok(Self { window, batch: batch.min(window), total, taken: 0, completed: 0 })
    }

    /// The next batch, if a whole one (or the rest of the run) fits into the window.
    ///
    /// A closed loop has no schedule: the batch is intended to start now.
    pub fn take(&mut self, elapsed: Duration) -> Option<Due> {
        let left = self.total.map_or(u64::MAX, |total| total - self.taken);
        let count = self.batch.min(left);
        if count == 0 || self.window - self.outstanding() < count {
            return None;
        }
        let due = Due { first: self.taken, count, intended: elapsed };
        self.taken = self.taken.checked_add(count)?;
        Some(due)
    }

    /// `n` transactions have ended.
    ///
    /// # Panics
    /// When more end than are under way, which is a fault of the driver.
    pub fn complete(&mut self, n: u64) {
        assert!(n <= self.outstanding(), "{n} transactions ended of {} under way", self.outstanding());
        self.completed += n;
    }

    /// How many transactions are under way.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.taken - self.completed
    }

    /// Whether every transaction of the run has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.total.is_some_and(|total| self.completed >= total)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn zeroes_are_refused() {
        assert_eq!(OpenLoop::new(0, 1, None), Err(PaceError::Rate));
        assert_eq!(OpenLoop::new(1, 0, None), Err(PaceError::Batch));
        assert_eq!(ClosedLoop::new(0, 1, None), Err(PaceError::Window));
        assert_eq!(ClosedLoop::new(1, 0, None), Err(PaceError::Batch));
    }

    #[test]
    fn the_last_batch_holds_the_rest() {
        let mut arrivals = OpenLoop::new(10, 4, Some(10)).unwrap();
        let late = Duration::from_secs(60);
        assert_eq!(arrivals.behind(Duration::ZERO), 4);
        let counts: Vec<_> = std::iter::from_fn(|| arrivals.take(late)).map(|due| due.count).collect();
        assert_eq!(counts, [4, 4, 2]);
        assert_eq!((arrivals.next_at(), arrivals.behind(late)), (None, 0));
    }

    #[test]
    fn a_closed_loop_keeps_to_its_window() {
        let mut client = ClosedLoop::new(10, 4, Some(13)).unwrap();
        let now = Duration::from_secs(1);
        assert_eq!(client.take(now), Some(Due { first: 0, count: 4, intended: now }));
        assert_eq!(client.take(now).map(|due| due.first), Some(4));
        assert_eq!(client.take(now), None);
        client.complete(4);
        assert_eq!(client.take(now).map(|due| due.count), Some(4));
        client.complete(8);
        assert_eq!(client.take(now), Some(Due { first: 12, count: 1, intended: now }));
        assert_eq!((client.take(now), client.is_done()), (None, false));
        client.complete(1);
        assert!(client.is_done());
    }

    proptest! {
        #[test]
        fn polling_neither_loses_nor_shifts_a_batch(
            rate in 1_u64..5_000_000, batch in 1_u64..5_000, polls in prop::collection::vec(0_u64..50_000_000, 1..50)
        ) {
            let mut polled = OpenLoop::new(rate, batch, None).unwrap();
            let mut elapsed = Duration::ZERO;
            let mut seen = 0_u64;
            for step in polls {
                elapsed += Duration::from_nanos(step);
                for _ in 0..2_000 {
                    let Some(due) = polled.take(elapsed) else { break };
                    prop_assert_eq!(due.first, seen);
                    prop_assert_eq!(due.count, batch);
                    prop_assert!(due.intended <= elapsed);
                    // Within a nanosecond of first / rate seconds.
                    let exact = u128::from(due.first) * NANOS_PER_SECOND / u128::from(rate);
                    prop_assert!(due.intended.as_nanos() - exact <= 1);
                    seen += due.count;
                }
                prop_assert_eq!(polled.behind(elapsed), polled.due_by(elapsed) - seen);
                prop_assert_eq!(polled.next_at().unwrap() > elapsed, polled.behind(elapsed) == 0);
            }
        }
    }
}
