//! What a simulation lets go wrong in a cluster in memory.

use super::MemoryCluster;
use crate::cluster::Partition;
use crate::{Offset, Record};
use bytes::Bytes;
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Faults {
    /// What draws how late things come; none while everything comes at once.
    pub(super) lag: Option<u64>,
    pub(super) stalled: bool,
    /// Writers whose next sync fails for good, and whether it takes place all the same.
    pub(super) lost: HashMap<String, bool>,
}

/// How what others append to a partition comes to one log: some of it with every so many reads.
pub(super) struct Late {
    draws: u64,
    /// One read of so many brings anything.
    slow: u64,
    seen: u64,
}

/// The next of a sequence of numbers below `below` (splitmix64).
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % below
}

impl Faults {
    pub(super) fn late(&mut self) -> Option<Late> {
        let lag = self.lag.as_mut()?;
        let slow = [1, 1, 2, 5, 20, 60][usize::try_from(draw(lag, 6)).unwrap_or(0)];
        Some(Late { draws: draw(lag, u64::MAX), slow, seen: 0 })
    }
}

impl Late {
    /// Up to where it has come, to somebody who reads from `from` on and knows what is before.
    pub(super) fn come(&mut self, from: u64, next: u64) -> u64 {
        self.seen = self.seen.max(from);
        if draw(&mut self.draws, self.slow) == 0 {
            let more = [1, 4, u64::MAX][usize::try_from(draw(&mut self.draws, 3)).unwrap_or(0)];
            self.seen = self.seen.saturating_add(more).min(next);
        }
        self.seen
    }
}

impl MemoryCluster {
    /// From now on, logs that are opened see what others append late: on each partition another prefix of it, which
    /// grows as they read. How, follows from `seed`. Waiting takes no time then.
    pub fn lag(&self, seed: u64) {
        self.state().faults.lag = Some(seed);
    }

    /// Whether every sync stalls from now on.
    pub fn stall(&self, stalls: bool) {
        self.state().faults.stalled = stalls;
    }

    /// Loses the answer to the next sync of whoever writes as `writer` now, which fails for ever; `takes_place` says
    /// whether what it appended becomes visible all the same. False if nobody ever did.
    pub fn lose(&self, writer: &str, takes_place: bool) -> bool {
        let mut state = self.state();
        let known = state.writers.contains_key(writer);
        if known {
            state.faults.lost.insert(writer.to_owned(), takes_place);
        }
        known
    }

    /// Whether the loss of an answer to `writer` is still to come.
    pub fn loses(&self, writer: &str) -> bool {
        self.state().faults.lost.contains_key(writer)
    }

    /// The records of a partition from `from` on, as they are; none if it is not there.
    pub fn peek(&self, partition: &Partition, from: Offset) -> Vec<Record> {
        let state = self.state();
        let Some(queue) = state.partitions.get(partition) else { return Vec::new() };
        let skipped = usize::try_from(from.0.saturating_sub(queue.first)).unwrap_or(usize::MAX);
        let numbered = (queue.first..).map(Offset).zip(&queue.records).skip(skipped);
        numbered.map(|(offset, payload)| Record { offset, payload: payload.clone() }).collect()
    }

    /// Puts another payload in the place of a record; whether there is such a record.
    pub fn alter(&self, partition: &Partition, offset: Offset, payload: Bytes) -> bool {
        let mut state = self.state();
        let Some(queue) = state.partitions.get_mut(partition) else { return false };
        let at = offset.0.checked_sub(queue.first).and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| queue.records.get_mut(at)) {
            Some(record) => *record = payload,
            None => return false,
        }
        true
    }
}
