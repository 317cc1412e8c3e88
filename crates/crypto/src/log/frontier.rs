//! The right edge of a log: what it takes to append and to tell the root.

use super::{LogHash, empty_root, leaf_hash, node_hash};

/// First byte of the encoding; another layout takes another number.
const VERSION: u8 = 1;
/// Longest log the decoder believes in, so that counting on from it cannot overflow.
const MAX_SIZE: u64 = 1 << 62;

/// A log reduced to the roots of its complete subtrees: O(log n) memory, append and root only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// One root for every one bit of `size`, largest subtree first.
    peaks: Vec<LogHash>,
}

/// Bytes that are not the encoding of a [`Frontier`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrontierError {
    /// Shorter than version and size, or not as long as the size asks for.
    #[error("a frontier of this size takes {expected} bytes, got {got}")]
    Length {
        /// Bytes the encoding should have.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// Written by a program that uses another layout.
    #[error("frontier version {0} is not known to this program (it knows 1)")]
    Version(u8),
    /// No log has that many entries.
    #[error("a log of {0} entries is not plausible")]
    Size(u64),
}

impl Frontier {
    /// The frontier of the empty log.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn from_peaks(size: u64, peaks: Vec<LogHash>) -> Self {
        debug_assert_eq!(peaks.len(), size.count_ones() as usize);
        Self { size, peaks }
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Appends an entry and returns its position.
    pub fn append(&mut self, leaf_data: &[u8]) -> u64 {
        self.append_leaf_hash(leaf_hash(leaf_data))
    }

    /// Appends an entry whose [`leaf_hash`] is known and returns its position.
    pub fn append_leaf_hash(&mut self, hash: LogHash) -> u64 {
        let index = self.size;
        let mut hash = hash;
        for _ in 0..index.trailing_ones() {
            let left = self.peaks.pop().expect("one peak for every one bit of the size");
            hash = node_hash(&left, &hash);
        }
        self.peaks.push(hash);
        self.size += 1;
        index
    }

    /// The root over all entries.
    pub fn root(&self) -> LogHash {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return empty_root() };
        peaks.fold(*last, |right, left| node_hash(left, &right))
    }

    /// The canonical encoding: version (1 byte), size (8, big-endian), the peaks, largest subtree
    /// first (32 each).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(9 + 32 * self.peaks.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.size.to_be_bytes());
        bytes.extend_from_slice(self.peaks.as_flattened());
        bytes
    }

    /// Decodes what [`Self::to_bytes`] wrote, and nothing else: no shorter, longer or other form.
    ///
    /// The hashes are taken as they are; compare [`Self::root`] with a signed tree head.
    ///
    /// # Errors
    /// [`FrontierError`] says what is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FrontierError> {
        let Some((header, hashes)) = bytes.split_first_chunk::<9>() else {
            return Err(FrontierError::Length { expected: 9, got: bytes.len() });
        };
        let [version, size @ ..] = *header;
        if version != VERSION {
            return Err(FrontierError::Version(version));
        }
        let size = u64::from_be_bytes(size);
        if size > MAX_SIZE {
            return Err(FrontierError::Size(size));
        }
        let expected = 9 + 32 * size.count_ones() as usize;
        if bytes.len() != expected {
            return Err(FrontierError::Length { expected, got: bytes.len() });
        }
        Ok(Self { size, peaks: hashes.as_chunks::<32>().0.to_vec() })
    }
}
