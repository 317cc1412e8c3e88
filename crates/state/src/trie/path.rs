//! Positions in a trie: sequences of nibbles, high one of each byte first.

use alloy_primitives::B256;

/// Nibbles of a key of 32 bytes.
pub(crate) const KEY_NIBBLES: usize = 64;

/// Up to 64 nibbles: the way from the root to a node, or a part of it. Unused nibbles are zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    bytes: [u8; 32],
    length: u8,
}

impl Path {
    pub(crate) const EMPTY: Self = Self { bytes: [0; 32], length: 0 };

    /// The nibbles of `key` from `start` to `end`.
    pub(crate) fn of(key: &B256, start: usize, end: usize) -> Self {
        let mut path = Self::EMPTY;
        for position in start..end {
            path.push(nibble(key, position));
        }
        path
    }

    /// The first nibbles of `key`.
    pub(crate) fn prefix(key: &B256, length: usize) -> Self {
        let mut bytes = [0; 32];
        let whole = length / 2;
        bytes[..whole].copy_from_slice(&key[..whole]);
        if length % 2 == 1 {
            bytes[whole] = key[whole] & 0xf0;
        }
        Self { bytes, length: length as u8 }
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.length)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn nibble(&self, position: usize) -> u8 {
        debug_assert!(position < self.len());
        let byte = self.bytes[position / 2];
        if position.is_multiple_of(2) { byte >> 4 } else { byte & 0xf }
    }

    pub(crate) fn push(&mut self, nibble: u8) {
        let position = self.len();
        self.bytes[position / 2] |= if position.is_multiple_of(2) { nibble << 4 } else { nibble };
        self.length += 1;
    }

    pub(crate) fn join(mut self, other: &Self) -> Self {
        for position in 0..other.len() {
            self.push(other.nibble(position));
        }
        self
    }

    /// From `start` to the end.
    pub(crate) fn from(&self, start: usize) -> Self {
        let mut path = Self::EMPTY;
        for position in start..self.len() {
            path.push(self.nibble(position));
        }
        path
    }

    pub(crate) fn truncated(&self, length: usize) -> Self {
        Self::prefix(&B256::from(self.bytes), length)
    }

    /// The path as the beginning of a key, the rest zeros.
    pub(crate) fn low_key(&self) -> B256 {
        B256::from(self.bytes)
    }

    /// Two nibbles a byte; the last byte of an odd path has a zero low nibble.
    pub(crate) fn packed(&self) -> &[u8] {
        &self.bytes[..self.len().div_ceil(2)]
    }

    /// From [`packed`](Self::packed) bytes. `None` for more nibbles than there are.
    pub(crate) fn unpack(bytes: &[u8], length: usize) -> Option<Self> {
        let packed = bytes.get(..length.div_ceil(2))?;
        if length > KEY_NIBBLES {
            return None;
        }
        let mut key = B256::ZERO;
        key[..packed.len()].copy_from_slice(packed);
        Some(Self::prefix(&key, length))
    }
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (0..self.len()).try_for_each(|position| write!(f, "{:x}", self.nibble(position)))
    }
}

pub(crate) fn nibble(key: &B256, position: usize) -> u8 {
    let byte = key[position / 2];
    if position.is_multiple_of(2) { byte >> 4 } else { byte & 0xf }
}

/// Nibbles that both keys begin with, given that the first `from` agree.
pub(crate) fn common(a: &B256, b: &B256, from: usize) -> usize {
    let start = from / 2;
    match (start..32).find(|position| a[*position] != b[*position]) {
        None => KEY_NIBBLES,
        Some(byte) if a[byte] >> 4 == b[byte] >> 4 => byte * 2 + 1,
        Some(byte) => byte * 2,
    }
}

/// The hex-prefix encoding of the nibbles of `key` from `start` to `end` (yellow paper, appendix C).
pub(crate) fn hex_prefix(key: &B256, start: usize, end: usize, leaf: bool, out: &mut Vec<u8>) {
    let flag = if leaf { 0x20 } else { 0 };
    let mut position = start;
    if (end - start) % 2 == 1 {
        out.push(flag | 0x10 | nibble(key, position));
        position += 1;
    } else {
        out.push(flag);
    }
    if position.is_multiple_of(2) && end.is_multiple_of(2) {
        out.extend_from_slice(&key[position / 2..end / 2]);
    } else {
        while position < end {
            out.push(nibble(key, position) << 4 | nibble(key, position + 1));
            position += 2;
        }
    }
}
