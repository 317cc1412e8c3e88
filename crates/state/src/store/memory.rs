//! Batches that are not in a sorted file yet, sorted and indexed in memory.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Table;
use super::batch::{self, TOMBSTONE};
use super::hash::hash;
use super::value::{Found, Value};

/// Where an entry lies.
#[derive(Clone, Copy, Debug)]
struct Entry {
    chunk: u32,
    offset: u32,
    value_length: u32,
    key_length: u16,
    hash: u32,
}

/// Entries of one table in key order, without two for one key. Immutable: a newer batch becomes a run
/// of its own, and runs of like size are merged, by which a table has few of them.
#[derive(Debug)]
pub(super) struct MemoryRun {
    chunks: Vec<Arc<Vec<u8>>>,
    entries: Vec<Entry>,
    /// Open addressing over `entries`: zero for free, else a position plus one.
    index: Vec<u32>,
    /// Bytes of all entries that were ever put, the overwritten ones too.
    bytes: usize,
}

impl MemoryRun {
    /// One run for each table that the batch touches, in order of tables.
    pub(super) fn from_batch(bytes: Vec<u8>) -> Vec<(Table, Self)> {
        let bytes = Arc::new(bytes);
        let mut tables: Vec<(Table, Vec<Entry>)> = Vec::new();
        for operation in batch::operations(&bytes) {
            let operation = operation.expect("a batch parses as it was written");
            let key = &bytes[operation.key..operation.key + usize::from(operation.key_length)];
            let entry = Entry {
                chunk: 0,
                offset: operation.key as u32,
                value_length: operation.value_length,
                key_length: operation.key_length,
                hash: hash(key) as u32,
            };
            match tables.iter_mut().find(|(table, _)| *table == operation.table) {
                Some((_, entries)) => entries.push(entry),
                None => tables.push((operation.table, vec![entry])),
            }
        }
        tables.sort_unstable_by_key(|(table, _)| *table);
        let chunks = vec![bytes];
        tables
            .into_iter()
            .map(|(table, mut entries)| {
                let key = |entry: &Entry| {
                    let start = entry.offset as usize;
                    &chunks[0][start..start + usize::from(entry.key_length)]
                };
                // The newest of one key first, which is the one that stays.
                entries.sort_unstable_by(|a, b| key(a).cmp(key(b)).then(b.offset.cmp(&a.offset)));
                let size = entries.iter().map(Entry::size).sum();
                entries.dedup_by(|later, first| key(later) == key(first));
                (table, Self::new(chunks.clone(), entries, size))
            })
            .collect()
    }

    fn new(chunks: Vec<Arc<Vec<u8>>>, entries: Vec<Entry>, bytes: usize) -> Self {
        let slots = (entries.len() * 2).next_power_of_two().max(2);
        let mut index = vec![0; slots];
        for (position, entry) in entries.iter().enumerate() {
            let mut slot = entry.hash as usize & (slots - 1);
            while index[slot] != 0 {
                slot = (slot + 1) & (slots - 1);
            }
            index[slot] = position as u32 + 1;
        }
        Self { chunks, entries, index, bytes }
    }

    /// Both in one; `newer` counts where a key is in both. With `bottom`, deleted keys are dropped.
    pub(super) fn merge(older: &Self, newer: &Self, bottom: bool) -> Self {
        let mut chunks = older.chunks.clone();
        let shift = chunks.len() as u32;
        chunks.extend(newer.chunks.iter().cloned());
        let mut entries = Vec::with_capacity(older.entries.len() + newer.entries.len());
        let (mut a, mut b) = (0, 0);
        loop {
            let order = match (older.entries.get(a), newer.entries.get(b)) {
                (Some(_), Some(_)) => older.key(a).cmp(newer.key(b)),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let entry = if order == Ordering::Less {
                a += 1;
                older.entries[a - 1]
            } else {
                if order == Ordering::Equal {
                    a += 1;
                }
                b += 1;
                let entry = newer.entries[b - 1];
                Entry { chunk: entry.chunk + shift, ..entry }
            };
            if !(bottom && entry.value_length == TOMBSTONE) {
                entries.push(entry);
            }
        }
        let merged = Self::new(chunks, entries, older.bytes + newer.bytes);
        if bottom { merged.without_garbage() } else { merged }
    }

    /// Copies what is left once most of the bytes were overwritten.
    fn without_garbage(self) -> Self {
        let live: usize = self.entries.iter().map(Entry::size).sum();
        if live * 2 >= self.bytes || live >= u32::MAX as usize {
            return self;
        }
        let mut chunk = Vec::with_capacity(live);
        let mut entries = self.entries.clone();
        for entry in &mut entries {
            let from = &self.chunks[entry.chunk as usize][entry.offset as usize..];
            entry.chunk = 0;
            entry.offset = chunk.len() as u32;
            chunk.extend_from_slice(&from[..usize::from(entry.key_length) + entry.value_size()]);
        }
        Self { chunks: vec![Arc::new(chunk)], entries, index: self.index, bytes: live }
    }

    /// Entries, deleted keys among them.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of keys and values, overwritten ones too, and of the index over them.
    pub(super) fn size_bytes(&self) -> usize {
        self.bytes + self.entries.len() * size_of::<Entry>() + self.index.len() * 4
    }

    pub(super) fn key(&self, position: usize) -> &[u8] {
        let entry = &self.entries[position];
        let start = entry.offset as usize;
        &self.chunks[entry.chunk as usize][start..start + usize::from(entry.key_length)]
    }

    pub(super) fn found(&self, position: usize) -> Found {
        let entry = &self.entries[position];
        if entry.value_length == TOMBSTONE {
            return Found::Deleted;
        }
        let start = entry.offset + u32::from(entry.key_length);
        let chunk = Arc::clone(&self.chunks[entry.chunk as usize]);
        Found::Value(Value::new(chunk, start..start + entry.value_length))
    }

    /// What the run knows of `key`, whose hash is `hash`.
    pub(super) fn get(&self, key: &[u8], hash: u64) -> Option<Found> {
        let mask = self.index.len() - 1;
        let mut slot = hash as u32 as usize & mask;
        loop {
            let position = self.index[slot].checked_sub(1)? as usize;
            if self.entries[position].hash == hash as u32 && self.key(position) == key {
                return Some(self.found(position));
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Position of the first key not below `key`; the length when there is none.
    pub(super) fn lower_bound(&self, key: &[u8]) -> usize {
        let mut low = 0;
        let mut high = self.entries.len();
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl Entry {
    fn value_size(&self) -> usize {
        if self.value_length == TOMBSTONE { 0 } else { self.value_length as usize }
    }

    fn size(&self) -> usize {
        usize::from(self.key_length) + self.value_size()
    }
}
