//! What all answers that wait for their readers, and all traces, take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tally_ops::metrics::{Counter, Gauge};

/// Bytes that every request may take without being counted, and by which counted ones grow.
pub(super) const STEP: usize = 64 << 10;

/// Bytes that may be taken.
#[derive(Debug)]
pub(super) struct Share {
    most: usize,
    taken: AtomicUsize,
    gauge: Gauge,
}

impl Share {
    pub(super) fn new(most: usize, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { most, taken: AtomicUsize::new(0), gauge })
    }

    fn take(&self, bytes: usize) -> bool {
        let taken = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.most);
        let done = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok();
        if done {
            self.gauge.add(i64::try_from(bytes).unwrap_or(0));
        }
        done
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.gauge.add(-i64::try_from(bytes).unwrap_or(0));
    }
}

/// What one request has taken; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    share: Arc<Share>,
    bytes: AtomicUsize,
}

impl Taken {
    pub(super) fn of(share: &Arc<Share>) -> Self {
        Self { share: share.clone(), bytes: AtomicUsize::new(0) }
    }

    /// Takes as much as there must be for `bytes` in all, and says whether there was as much. One request
    /// grows on one thread at a time.
    pub(super) fn raise_to(&self, bytes: usize) -> bool {
        let has = self.bytes.load(Ordering::Relaxed);
        if bytes <= has + STEP {
            return true;
        }
        let wanted = bytes.div_ceil(STEP).saturating_mul(STEP);
        let done = self.share.take(wanted - has);
        if done {
            self.bytes.store(wanted, Ordering::Relaxed);
        }
        done
    }

    /// Gives back what is above `bytes`.
    pub(super) fn lower_to(&self, bytes: usize) {
        let has = self.bytes.load(Ordering::Relaxed);
        let wanted = bytes.div_ceil(STEP).saturating_mul(STEP);
        if wanted < has {
            self.bytes.store(wanted, Ordering::Relaxed);
            self.share.give_back(has - wanted);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.lower_to(0);
    }
}

/// An answer in memory, with what it takes of the share.
pub(super) struct Counted {
    pub(super) text: Vec<u8>,
    pub(super) _taken: Arc<Taken>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Lets so many traces run at a time.
#[derive(Debug)]
pub(super) struct Gate {
    most: usize,
    inside: AtomicUsize,
    gauge: Gauge,
    refused: Counter,
}

impl Gate {
    pub(super) fn new(most: usize, gauge: Gauge, refused: Counter) -> Arc<Self> {
        Arc::new(Self { most, inside: AtomicUsize::new(0), gauge, refused })
    }

    /// A place, if there is one.
    pub(super) fn enter(&self) -> Option<Inside<'_>> {
        let more = |inside: usize| (inside < self.most).then_some(inside + 1);
        if self.inside.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            self.refused.increment();
            return None;
        }
        self.gauge.add(1);
        Some(Inside { gate: self })
    }

    /// How many there are places for.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}

/// A place of a [`Gate`]; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Inside<'a> {
    gate: &'a Gate,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.gate.inside.fetch_sub(1, Ordering::Relaxed);
        self.gate.gauge.add(-1);
    }
}
