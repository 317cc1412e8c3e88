//! The most recent records, kept in memory for the readers that keep up.

use bytes::{Bytes, BytesMut};
use std::collections::{HashMap, VecDeque};

/// Records are collected in buffers of this size, each written to the file in one piece.
const CHUNK_BYTES: usize = 8 << 20;
/// Used buffers that wait for their last reader.
const RETIRED_CHUNKS: usize = 64;

/// The last records of the journal, in order: all that are not yet durable, and some that are.
///
/// Records are copied once, into the open buffer. [`freeze`](Self::freeze) turns what has gathered there
/// into an immutable piece, which the writer writes and of which readers get slices.
pub(super) struct Tail {
    open: BytesMut,
    retired: VecDeque<BytesMut>,
    entries: VecDeque<Entry>,
    /// The ticket of the first entry.
    first_ticket: u64,
    /// How many of the last entries are still in the open buffer.
    unfrozen: usize,
    topics: HashMap<u16, TopicTail>,
    bytes: usize,
    max_bytes: usize,
}

struct Entry {
    topic: u16,
    start: usize,
    length: usize,
    /// Empty until frozen.
    payload: Bytes,
}

#[derive(Default)]
struct TopicTail {
    first_offset: u64,
    tickets: VecDeque<u64>,
}

/// What an entry costs besides its payload.
const ENTRY_BYTES: usize = size_of::<Entry>() + size_of::<u64>();

impl Tail {
    pub(super) fn new(next_ticket: u64, max_bytes: usize) -> Self {
        Self {
            open: BytesMut::with_capacity(CHUNK_BYTES),
            retired: VecDeque::new(),
            entries: VecDeque::new(),
            first_ticket: next_ticket,
            unfrozen: 0,
            topics: HashMap::new(),
            bytes: 0,
            max_bytes,
        }
    }

    /// Makes room for an item of `len` bytes; what had to make way is returned as a piece.
    pub(super) fn reserve(&mut self, len: usize) -> Option<Bytes> {
        if self.open.capacity() - self.open.len() >= len {
            return None;
        }
        let piece = self.freeze();
        let reclaimed = len <= CHUNK_BYTES
            && self.retired.front_mut().is_some_and(|oldest| oldest.try_reclaim(CHUNK_BYTES));
        let fresh = match self.retired.pop_front_if(|_| reclaimed) {
            Some(oldest) => oldest,
            None => BytesMut::with_capacity(len.max(CHUNK_BYTES)),
        };
        let used = std::mem::replace(&mut self.open, fresh);
        if self.retired.len() < RETIRED_CHUNKS {
            self.retired.push_back(used);
        }
        piece
    }

    /// Adds bytes of an item to the open buffer, which has room.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.open.extend_from_slice(bytes);
    }

    /// Notes that the last `length` bytes are the payload of the next record.
    pub(super) fn add(&mut self, topic: u16, offset: u64, length: usize) {
        let ticket = self.first_ticket + self.entries.len() as u64;
        let entry = self.topics.entry(topic).or_default();
        if entry.tickets.is_empty() {
            entry.first_offset = offset;
        }
        entry.tickets.push_back(ticket);
        self.entries.push_back(Entry {
            topic,
            start: self.open.len() - length,
            length,
            payload: Bytes::new(),
        });
        self.unfrozen += 1;
        self.bytes += length + ENTRY_BYTES;
    }

    /// What has gathered in the open buffer, if anything; it is immutable from now on.
    pub(super) fn freeze(&mut self) -> Option<Bytes> {
        if self.open.is_empty() {
            return None;
        }
        let piece = self.open.split().freeze();
        let from = self.entries.len() - self.unfrozen;
        for entry in self.entries.range_mut(from..) {
            entry.payload = piece.slice(entry.start..entry.start + entry.length);
        }
        self.unfrozen = 0;
        Some(piece)
    }

    /// The first offset of `topic` that is here, if any is.
    pub(super) fn first_offset(&self, topic: u16) -> Option<u64> {
        self.topics.get(&topic).filter(|tail| !tail.tickets.is_empty()).map(|tail| tail.first_offset)
    }

    /// The ticket of a record that is here.
    pub(super) fn ticket(&self, topic: u16, offset: u64) -> Option<u64> {
        let tail = self.topics.get(&topic)?;
        tail.tickets.get(usize::try_from(offset.checked_sub(tail.first_offset)?).ok()?).copied()
    }

    /// The payload of a record that is here and frozen.
    pub(super) fn payload(&self, ticket: u64) -> Option<Bytes> {
        Some(self.entry(ticket)?.payload.clone())
    }

    /// The length of the payload of a record that is here, in bytes.
    pub(super) fn length(&self, ticket: u64) -> usize {
        self.entry(ticket).map_or(0, |entry| entry.length)
    }

    fn entry(&self, ticket: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(ticket.checked_sub(self.first_ticket)?).ok()?)
    }

    /// The last ticket that is frozen.
    pub(super) fn frozen_ticket(&self) -> u64 {
        self.first_ticket + (self.entries.len() - self.unfrozen) as u64 - 1
    }

    /// Forgets the oldest records while there are too many and they are durable.
    pub(super) fn evict(&mut self, durable: u64) {
        while self.bytes > self.max_bytes && self.first_ticket <= durable {
            let Some(entry) = self.entries.pop_front() else { break };
            self.first_ticket += 1;
            self.bytes -= entry.length + ENTRY_BYTES;
            if let Some(tail) = self.topics.get_mut(&entry.topic) {
                tail.tickets.pop_front();
                tail.first_offset += 1;
            }
        }
    }
}
