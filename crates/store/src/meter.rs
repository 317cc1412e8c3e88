//! Counts and times of what a store does.

use crate::{Result, Usage};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Meter {
    batches: AtomicU64,
    failed_batches: AtomicU64,
    writes: AtomicU64,
    apply_ns: AtomicU64,
    reads: AtomicU64,
    read_ns: AtomicU64,
    wait_ns: AtomicU64,
    busy: AtomicU32,
}

fn ns_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Meter {
    pub(crate) fn apply(&self, writes: usize, apply: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        let result = apply();
        self.apply_ns.fetch_add(ns_since(start), Relaxed);
        if result.is_ok() {
            self.batches.fetch_add(1, Relaxed);
            self.writes.fetch_add(writes as u64, Relaxed);
        } else {
            self.failed_batches.fetch_add(1, Relaxed);
        }
        result
    }

    /// Counts a read that began at `start` and got its connection now.
    pub(crate) fn read<T>(&self, start: Instant, read: impl FnOnce() -> Result<T>) -> Result<T> {
        self.wait_ns.fetch_add(ns_since(start), Relaxed);
        self.busy.fetch_add(1, Relaxed);
        let result = read();
        self.busy.fetch_sub(1, Relaxed);
        self.reads.fetch_add(1, Relaxed);
        self.read_ns.fetch_add(ns_since(start), Relaxed);
        result
    }

    pub(crate) fn usage(&self, readers: u32) -> Usage {
        Usage {
            batches: self.batches.load(Relaxed),
            failed_batches: self.failed_batches.load(Relaxed),
            writes: self.writes.load(Relaxed),
            apply_ns: self.apply_ns.load(Relaxed),
            reads: self.reads.load(Relaxed),
            read_ns: self.read_ns.load(Relaxed),
            wait_ns: self.wait_ns.load(Relaxed),
            readers,
            readers_busy: self.busy.load(Relaxed),
        }
    }
}
