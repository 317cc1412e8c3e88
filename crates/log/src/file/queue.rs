//! What was appended: positions, the pieces that wait for the writer, and where every record is.

use super::format::{Binding, ITEM_HEADER_BYTES, Item, Kind, SegmentHeader, encode_footer};
use super::index::SegmentIndex;
use super::tail::Tail;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Work for the writer, in order.
pub(super) enum Work {
    /// Bytes at a position of the current segment; with them everything up to `ticket` is written.
    Write { position: u64, bytes: Bytes, ticket: u64 },
    /// The current segment ends at `end`; go on with the next.
    Roll { end: u64, next: u64, header: Vec<u8> },
}

/// A segment whose items are all known.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) number: u64,
    pub(super) index: Arc<SegmentIndex>,
    /// Where its items end and its footer starts.
    pub(super) end: u64,
}

#[derive(Default)]
pub(super) struct Topic {
    pub(super) first: u64,
    pub(super) next: u64,
    released: u64,
    /// (first offset in the segment, segment) for each segment that has records of the topic.
    homes: VecDeque<(u64, u64)>,
}

/// Where to read a record.
pub(super) enum Place {
    Memory(Bytes),
    Disk { segment: u64, position: u64, end: u64, until: u64 },
}

/// The state that appends change. Everything here is quick: no IO, one copy.
pub(super) struct Queue {
    pub(super) journal: [u8; 16],
    segment_bytes: u64,
    pub(super) last_ticket: u64,
    pub(super) topics: HashMap<u16, Topic>,
    sealed: VecDeque<Sealed>,
    active: u64,
    binding: Binding,
    index: SegmentIndex,
    first_position: u64,
    pub(super) position: u64,
    pub(super) tail: Tail,
    pub(super) work: VecDeque<Work>,
    pub(super) flusher: super::flusher::Signal,
    /// Appended and not yet durable.
    pub(super) pending_bytes: usize,
    /// The last ticket that is taken off the pending bytes.
    published: u64,
    /// Nothing in the active segment lacks a later item that tells that it is durable.
    marked: bool,
}

impl Queue {
    pub(super) fn new(
        sealed: VecDeque<Sealed>,
        start: &BTreeMap<u16, u64>,
        header: &SegmentHeader,
        index: SegmentIndex,
        first_position: u64,
        position: u64,
        options: &super::Options,
    ) -> Self {
        let mut topics: HashMap<u16, Topic> = HashMap::new();
        for (&topic, &next) in start {
            topics.insert(topic, Topic { first: next, next, ..Topic::default() });
        }
        let active = (header.number, &index);
        for (number, index) in sealed.iter().map(|sealed| (sealed.number, &*sealed.index)).chain([active]) {
            for (&topic, entry) in &index.topics {
                let known = topics.entry(topic).or_default();
                known.next = entry.next();
                known.homes.push_back((entry.first, number));
            }
        }
        let last_ticket = index.end_ticket - 1;
        Self {
            journal: header.journal,
            segment_bytes: options.segment_bytes,
            last_ticket,
            topics,
            sealed,
            active: header.number,
            binding: Binding::new(header.journal, header.number),
            index,
            first_position,
            position,
            tail: Tail::new(last_ticket + 1, options.tail_bytes),
            work: VecDeque::new(),
            flusher: super::flusher::Signal::default(),
            pending_bytes: 0,
            published: last_ticket,
            marked: true,
        }
    }

    /// Appends a record and returns its offset; its ticket is then the last.
    pub(super) fn append(
        &mut self,
        topic: u16,
        parts: &[&[u8]],
        length: usize,
        payload_crc: u32,
        durable: u64,
    ) -> u64 {
        let item_bytes = ITEM_HEADER_BYTES + length;
        if self.position > self.first_position && self.position + item_bytes as u64 > self.segment_bytes {
            self.roll(durable);
        }
        let offset = self.topics.get(&topic).map_or(0, |known| known.next);
        let item = Item {
            kind: Kind::Record,
            topic,
            length: u32::try_from(length).expect("records are limited to far less"),
            payload_crc,
            ticket: self.last_ticket + 1,
            offset,
            durable,
        };
        self.push(&item, parts);
        self.last_ticket += 1;
        self.tail.add(topic, offset, length);
        let first_here = self.index.add(topic, offset, self.position - item.len());
        let known = self.topics.entry(topic).or_default();
        known.next += 1;
        if first_here {
            known.homes.push_back((offset, self.active));
        }
        self.pending_bytes += item_bytes;
        self.marked = false;
        offset
    }

    /// Appends a mark if the last records have no later item to prove that they are durable, and all are.
    pub(super) fn mark(&mut self, durable: u64) -> bool {
        if self.marked || durable != self.last_ticket {
            return false;
        }
        let item = Item {
            kind: Kind::Mark,
            topic: 0,
            length: 0,
            payload_crc: 0,
            ticket: self.last_ticket,
            offset: 0,
            durable,
        };
        self.push(&item, &[]);
        self.marked = true;
        true
    }

    /// Whether every durable record has a later item that proves it.
    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }

    /// Tells that the active segment was read from disk and ends with records.
    pub(super) fn needs_mark(&mut self) {
        self.marked = false;
    }

    fn roll(&mut self, durable: u64) {
        let end = self.position;
        let payload = encode_footer(&self.index, end);
        let item = Item {
            kind: Kind::Footer,
            topic: 0,
            length: u32::try_from(payload.len()).expect("an index is smaller than its segment"),
            payload_crc: crc32c::crc32c(&payload),
            ticket: self.last_ticket,
            offset: 0,
            durable,
        };
        self.push(&item, &[&payload]);
        self.freeze();
        let next_offsets = self.topics.iter().map(|(&topic, known)| (topic, known.next)).collect();
        let header = SegmentHeader {
            journal: self.journal,
            number: self.active + 1,
            start_ticket: self.last_ticket + 1,
            next_offsets,
        };
        let index = std::mem::replace(&mut self.index, SegmentIndex::new(header.start_ticket));
        self.sealed.push_back(Sealed { number: self.active, index: Arc::new(index), end });
        self.active = header.number;
        self.binding = Binding::new(self.journal, self.active);
        let encoded = header.encode();
        let end = std::mem::replace(&mut self.position, encoded.len() as u64);
        self.first_position = self.position;
        self.work.push_back(Work::Roll { end, next: self.active, header: encoded });
        self.marked = true;
    }

    fn push(&mut self, item: &Item, parts: &[&[u8]]) {
        let len = usize::try_from(item.len()).expect("an item fits into memory");
        if let Some(piece) = self.tail.reserve(len) {
            self.wait_for_write(piece);
        }
        self.tail.extend(&item.encode(self.binding, self.position));
        for part in parts {
            self.tail.extend(part);
        }
        self.position += item.len();
    }

    /// Hands what has gathered to the readers and to the writer.
    pub(super) fn freeze(&mut self) {
        if let Some(piece) = self.tail.freeze() {
            self.wait_for_write(piece);
        }
    }

    /// `piece` is everything that was pushed and not handed over.
    fn wait_for_write(&mut self, piece: Bytes) {
        let position = self.position - piece.len() as u64;
        self.work.push_back(Work::Write { position, bytes: piece, ticket: self.tail.frozen_ticket() });
    }

    /// Everything up to ticket `durable` is on disk.
    pub(super) fn publish(&mut self, durable: u64) {
        while self.published < durable {
            self.published += 1;
            self.pending_bytes -= ITEM_HEADER_BYTES + self.tail.length(self.published);
        }
        self.tail.evict(durable);
    }

    /// Where the record is; none if there is no such record, or its ticket is after `last_visible`.
    pub(super) fn locate(&mut self, topic: u16, offset: u64, last_visible: u64) -> Option<Place> {
        let known = self.topics.get(&topic).filter(|known| (known.first..known.next).contains(&offset))?;
        let until = self.tail.first_offset(topic).unwrap_or(known.next);
        if offset >= until {
            let ticket = self.tail.ticket(topic, offset)?;
            if ticket > last_visible {
                return None;
            }
            if ticket > self.tail.frozen_ticket() {
                self.freeze();
            }
            return self.tail.payload(ticket).map(Place::Memory);
        }
        let after = known.homes.partition_point(|&(first, _)| first <= offset);
        let &(_, segment) = known.homes.get(after.checked_sub(1)?)?;
        let (index, end) = if segment == self.active {
            (&self.index, self.position)
        } else {
            let front = self.sealed.front()?.number;
            let sealed = self.sealed.get(usize::try_from(segment.checked_sub(front)?).ok()?)?;
            (&*sealed.index, sealed.end)
        };
        Some(Place::Disk { segment, position: index.seek(topic, offset)?, end, until })
    }

    /// Nobody needs the topic's records before `before`.
    pub(super) fn release(&mut self, topic: u16, before: u64) {
        if let Some(known) = self.topics.get_mut(&topic) {
            known.released = known.released.max(before);
        }
    }

    /// The oldest segment, if it is written and all its records are released.
    pub(super) fn releasable(&self, written_segment: u64) -> Option<u64> {
        let oldest = self.sealed.front()?;
        let done =
            oldest.index.topics.iter().all(|(topic, entry)| {
                self.topics.get(topic).is_some_and(|known| known.released >= entry.next())
            });
        (oldest.number < written_segment && done).then_some(oldest.number)
    }

    /// The oldest segment is going away.
    pub(super) fn drop_oldest(&mut self) {
        let Some(oldest) = self.sealed.pop_front() else { return };
        for (topic, entry) in &oldest.index.topics {
            if let Some(known) = self.topics.get_mut(topic) {
                known.first = entry.next();
                known.homes.pop_front();
            }
        }
    }

    /// (segment, first ticket) of every segment that has tickets from `from` on.
    pub(super) fn segments_from(&self, from: u64) -> VecDeque<(u64, u64)> {
        self.sealed
            .iter()
            .map(|sealed| (sealed.number, &*sealed.index))
            .chain([(self.active, &self.index)])
            .filter(|(_, index)| index.end_ticket > from)
            .map(|(number, index)| (number, index.start_ticket))
            .collect()
    }

    /// How many segments there are, the active one included.
    pub(super) fn segments(&self) -> usize {
        self.sealed.len() + 1
    }
}
