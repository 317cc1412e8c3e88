//! Which topics a segment holds, and about where.

use std::collections::BTreeMap;

/// A topic's position is noted about once in so many bytes of the segment.
const SPARSE_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentIndex {
    /// The ticket of the first record, once there is one.
    pub(super) start_ticket: u64,
    /// The ticket after the last record.
    pub(super) end_ticket: u64,
    pub(super) topics: BTreeMap<u16, TopicIndex>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicIndex {
    pub(super) first: u64,
    pub(super) count: u64,
    /// (offset, position of its item), ascending, beginning with `first`.
    pub(super) sparse: Vec<(u64, u64)>,
}

impl TopicIndex {
    pub(super) fn next(&self) -> u64 {
        self.first + self.count
    }
}

impl SegmentIndex {
    pub(super) fn new(start_ticket: u64) -> Self {
        Self { start_ticket, end_ticket: start_ticket, topics: BTreeMap::new() }
    }

    /// Notes the next record, which is at `position`. True if it is the topic's first in this segment.
    pub(super) fn add(&mut self, topic: u16, offset: u64, position: u64) -> bool {
        self.end_ticket += 1;
        let entry = self.topics.entry(topic).or_insert_with(|| TopicIndex {
            first: offset,
            count: 0,
            sparse: Vec::new(),
        });
        entry.count += 1;
        if entry.sparse.last().is_none_or(|&(_, last)| position - last >= SPARSE_BYTES) {
            entry.sparse.push((offset, position));
        }
        entry.count == 1
    }

    /// Whether both tell of the same records; how densely positions are noted may differ.
    pub(super) fn same_records(&self, other: &Self) -> bool {
        let records = |index: &Self| -> Vec<(u16, u64, u64)> {
            index.topics.iter().map(|(&topic, entry)| (topic, entry.first, entry.count)).collect()
        };
        (self.start_ticket, self.end_ticket) == (other.start_ticket, other.end_ticket)
            && records(self) == records(other)
    }

    /// The last noted position of `topic` at or before `offset`.
    pub(super) fn seek(&self, topic: u16, offset: u64) -> Option<u64> {
        let sparse = &self.topics.get(&topic)?.sparse;
        let after = sparse.partition_point(|&(noted, _)| noted <= offset);
        sparse.get(after.checked_sub(1)?).map(|&(_, position)| position)
    }
}
