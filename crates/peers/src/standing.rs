//! How well peers behave: points that are lost by misbehaving and come back with time.
//!
//! A node whose points are used up is dropped and refused for a time. A familiar one, a known peer or
//! one that is permitted by name, comes back soon: a chain of 3f+1 validators stands f failures, and
//! a validator that were shut out for good over a fault that has been repaired, or over a fault of
//! ours, would be one of the f for ever. What it can do meanwhile is bounded by the consensus, which
//! believes nothing that is not signed and justified. Strangers are many and cost nothing to make, so
//! they stay away for longer.

use alloy_primitives::Address;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A peer that has done nothing wrong.
pub const FULL_SCORE: u32 = 100;

/// Peers that are remembered at most: strangers can make as many keys as they like.
const MOST_REMEMBERED: usize = 4096;

/// How misbehaviour is dealt with.
#[derive(Debug, Clone)]
pub struct ScorePolicy {
    /// One point comes back in this time.
    pub recovery: Duration,
    /// How long a familiar node is refused at first; twice as long each further time.
    pub first_exile: Duration,
    /// How long a familiar node is refused at most.
    pub longest_exile: Duration,
    /// How long a stranger is refused.
    pub stranger_exile: Duration,
}

impl Default for ScorePolicy {
    fn default() -> Self {
        Self {
            recovery: Duration::from_secs(6),
            first_exile: Duration::from_secs(30),
            longest_exile: Duration::from_secs(600),
            stranger_exile: Duration::from_secs(3600),
        }
    }
}

/// What is remembered of nodes that have misbehaved.
#[derive(Debug)]
pub(crate) struct Standing {
    policy: ScorePolicy,
    nodes: HashMap<Address, Record>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    lost: u32,
    /// When `lost` was true.
    at: Instant,
    exiled_until: Option<Instant>,
    exiles: u32,
}

impl Standing {
    pub(crate) fn new(policy: ScorePolicy) -> Self {
        Self { policy, nodes: HashMap::new() }
    }

    /// Points that a node has, from 0 to [`FULL_SCORE`].
    pub(crate) fn score(&self, node: &Address, now: Instant) -> u32 {
        self.nodes.get(node).map_or(FULL_SCORE, |record| FULL_SCORE - self.lost(record, now))
    }

    /// How long a node is still refused.
    pub(crate) fn exile(&self, node: &Address, now: Instant) -> Option<Duration> {
        let until = self.nodes.get(node)?.exiled_until?;
        until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// A node has misbehaved by so many points; whether it is to be dropped now.
    pub(crate) fn report(&mut self, node: Address, weight: u32, familiar: bool, now: Instant) -> bool {
        if weight == 0 {
            return false;
        }
        let fresh = Record { lost: 0, at: now, exiled_until: None, exiles: 0 };
        let mut record = self.nodes.get(&node).copied().unwrap_or(fresh);
        record.lost = self.lost(&record, now).saturating_add(weight);
        record.at = now;
        let dropped = record.lost >= FULL_SCORE;
        if dropped {
            let exile = if familiar {
                let doubled = 1_u32.checked_shl(record.exiles).unwrap_or(u32::MAX);
                self.policy.first_exile.saturating_mul(doubled).min(self.policy.longest_exile)
            } else {
                self.policy.stranger_exile
            };
            record.exiled_until = now.checked_add(exile);
            record.exiles = record.exiles.saturating_add(1).min(31);
            // Whoever comes back is watched: half of the points.
            record.lost = FULL_SCORE / 2;
        }
        if !self.nodes.contains_key(&node) {
            self.make_room(now);
        }
        self.nodes.insert(node, record);
        dropped
    }

    /// Forgives a node what it has done: an operator has added it by hand.
    pub(crate) fn forgive(&mut self, node: &Address) {
        self.nodes.remove(node);
    }

    /// Points lost by now. Exile is no time of good behaviour.
    fn lost(&self, record: &Record, now: Instant) -> u32 {
        let since = record.exiled_until.map_or(record.at, |until| until.max(record.at));
        let calm = now.saturating_duration_since(since);
        let recovery = self.policy.recovery.as_millis().max(1);
        let back = u32::try_from(calm.as_millis() / recovery).unwrap_or(u32::MAX);
        record.lost.saturating_sub(back).min(FULL_SCORE)
    }

    fn make_room(&mut self, now: Instant) {
        if self.nodes.len() < MOST_REMEMBERED {
            return;
        }
        // A node that has its points again has behaved for long enough to be forgotten.
        let recovered: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, record)| self.lost(record, now) == 0)
            .map(|(node, _)| *node)
            .collect();
        for node in &recovered {
            self.nodes.remove(node);
        }
        if recovered.is_empty() {
            let soonest = self.nodes.iter().min_by_key(|(_, record)| (record.exiled_until, record.lost));
            if let Some(node) = soonest.map(|(node, _)| *node) {
                self.nodes.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests;
