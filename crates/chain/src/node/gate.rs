//! Holds up whoever brings work faster than it is done, so that what waits stays bounded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Work under way, in bytes or counts, up to a bound.
#[derive(Debug)]
pub(super) struct Gate {
    waiting: AtomicUsize,
    bound: usize,
}

impl Gate {
    pub(super) fn new(bound: usize) -> Self {
        Self { waiting: AtomicUsize::new(0), bound }
    }

    /// Waits until there is room, then takes it; one piece larger than the bound is let in alone. Gives up when
    /// `stopping` says so.
    pub(super) fn enter(&self, size: usize, stopping: impl Fn() -> bool) {
        let has_room = || {
            let waiting = self.waiting.load(Ordering::Acquire);
            waiting == 0 || waiting.saturating_add(size) <= self.bound
        };
        while !has_room() && !stopping() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.waiting.fetch_add(size, Ordering::AcqRel);
    }

    /// The work is done.
    pub(super) fn leave(&self, size: usize) {
        self.waiting.fetch_sub(size, Ordering::AcqRel);
    }
}
