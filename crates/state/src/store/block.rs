//! A few kilobytes of sorted entries: the unit that is read from disk and kept in the cache.
//!
//! ```text
//! count u32 | prefix length u16 | prefix | offset u32 × count | entries | crc32 u32
//! entry: tail length u16 | value length u32 (MAX: deleted) | tail | value
//! ```
//! Little endian. The prefix is what all keys of the block have in common, by which the 32 bytes of a
//! contract's hash before each of its slots are written once.

use std::sync::Arc;

use super::batch::TOMBSTONE;
use super::value::{Found, Value};

const HEADER: usize = 4 + 2;
const ENTRY_HEADER: usize = 2 + 4;

/// Collects the entries of one block.
#[derive(Default)]
pub(super) struct BlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    /// End of the key, end of the value, whether it was deleted.
    ends: Vec<(usize, usize, bool)>,
}

impl BlockBuilder {
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value.unwrap_or_default());
        self.ends.push((self.keys.len(), self.values.len(), value.is_none()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// About as many bytes as the block will have, were nothing common to its keys.
    pub(super) fn size_bytes(&self) -> usize {
        self.keys.len() + self.values.len() + self.ends.len() * (ENTRY_HEADER + 4)
    }

    fn key(&self, position: usize) -> &[u8] {
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before].0);
        &self.keys[start..self.ends[position].0]
    }

    pub(super) fn last_key(&self) -> &[u8] {
        self.key(self.ends.len() - 1)
    }

    /// Appends the block with its checksum to `out` and starts the next one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        // Keys are sorted: what first and last have in common, all have.
        let prefix = common_prefix(self.key(0), self.last_key());
        out.extend_from_slice(&(self.ends.len() as u32).to_le_bytes());
        out.extend_from_slice(&(prefix as u16).to_le_bytes());
        out.extend_from_slice(&self.key(0)[..prefix]);
        let mut offset = HEADER + prefix + 4 * self.ends.len();
        let mut key_start = 0;
        let mut value_start = 0;
        for &(key_end, value_end, _) in &self.ends {
            out.extend_from_slice(&(offset as u32).to_le_bytes());
            offset += ENTRY_HEADER + (key_end - key_start - prefix) + (value_end - value_start);
            (key_start, value_start) = (key_end, value_end);
        }
        (key_start, value_start) = (0, 0);
        for &(key_end, value_end, deleted) in &self.ends {
            let tail = &self.keys[key_start + prefix..key_end];
            let value = &self.values[value_start..value_end];
            let length = if deleted { TOMBSTONE } else { value.len() as u32 };
            out.extend_from_slice(&(tail.len() as u16).to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(tail);
            out.extend_from_slice(value);
            (key_start, value_start) = (key_end, value_end);
        }
        let checksum = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        self.keys.clear();
        self.values.clear();
        self.ends.clear();
    }
}

/// Bytes that both begin with.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A block whose checksum and shape were verified.
#[derive(Clone, Debug)]
pub(super) struct Block {
    bytes: Arc<Vec<u8>>,
    count: usize,
    prefix: usize,
}

impl Block {
    /// Verifies the bytes as [`BlockBuilder::finish`] wrote them. `None` when they are not a block.
    pub(super) fn parse(bytes: Vec<u8>) -> Option<Self> {
        let end = bytes.len().checked_sub(4)?;
        let checksum = u32::from_le_bytes(bytes[end..].try_into().ok()?);
        if crc32fast::hash(&bytes[..end]) != checksum {
            return None;
        }
        let count = u32::from_le_bytes(bytes.get(0..4)?.try_into().ok()?) as usize;
        let prefix = usize::from(u16::from_le_bytes(bytes.get(4..HEADER)?.try_into().ok()?));
        let mut expected = count.checked_mul(4)?.checked_add(HEADER + prefix)?;
        if count == 0 || expected > end {
            return None;
        }
        let block = Self { bytes: Arc::new(bytes), count, prefix };
        for position in 0..count {
            if block.offset(position) != expected || expected + ENTRY_HEADER > end {
                return None;
            }
            let (tail, value) = block.lengths(position);
            let value = if value == TOMBSTONE { 0 } else { value as usize };
            expected += ENTRY_HEADER + tail + value;
        }
        (expected == end).then_some(block)
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn offset(&self, position: usize) -> usize {
        let at = HEADER + self.prefix + 4 * position;
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes")) as usize
    }

    /// Of the key's tail and of the value, the latter possibly [`TOMBSTONE`].
    fn lengths(&self, position: usize) -> (usize, u32) {
        let at = self.offset(position);
        let tail = u16::from_le_bytes(self.bytes[at..at + 2].try_into().expect("two bytes"));
        let value = u32::from_le_bytes(self.bytes[at + 2..at + 6].try_into().expect("four bytes"));
        (usize::from(tail), value)
    }

    fn tail(&self, position: usize) -> &[u8] {
        let start = self.offset(position) + ENTRY_HEADER;
        &self.bytes[start..start + self.lengths(position).0]
    }

    /// Replaces `key` by the entry's.
    pub(super) fn key_into(&self, position: usize, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.bytes[HEADER..HEADER + self.prefix]);
        key.extend_from_slice(self.tail(position));
    }

    pub(super) fn found(&self, position: usize) -> Found {
        let (tail, value) = self.lengths(position);
        if value == TOMBSTONE {
            return Found::Deleted;
        }
        let start = (self.offset(position) + ENTRY_HEADER + tail) as u32;
        Found::Value(Value::new(Arc::clone(&self.bytes), start..start + value))
    }

    /// Position of the first key not below `key`, and whether it is `key`.
    pub(super) fn lower_bound(&self, key: &[u8]) -> (usize, bool) {
        let prefix = &self.bytes[HEADER..HEADER + self.prefix];
        let head = &key[..key.len().min(prefix.len())];
        let tail = match head.cmp(prefix) {
            std::cmp::Ordering::Less => return (0, false),
            std::cmp::Ordering::Greater => return (self.count, false),
            std::cmp::Ordering::Equal => &key[prefix.len()..],
        };
        let mut low = 0;
        let mut high = self.count;
        while low < high {
            let middle = low.midpoint(high);
            match self.tail(middle).cmp(tail) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return (middle, true),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }
}
