//! The log with all its nodes in memory.

use super::{Frontier, LogHash, empty_root, leaf_hash, node_hash};
use crate::ProofError;
use crate::proof::split;

/// A Merkle log that can prove inclusion and consistency for any of its past sizes.
///
/// Keeps every complete subtree's hash: 64 bytes of memory an entry. An append hashes the leaf and,
/// on average, one node; a proof hashes O(log n) nodes.
#[derive(Debug, Clone, Default)]
pub struct MerkleLog {
    /// `levels[h][i]` is the hash of leaves `i * 2^h .. (i + 1) * 2^h`.
    levels: Vec<Vec<LogHash>>,
}

impl MerkleLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// The log whose entries have these leaf hashes, in order; for rebuilding it from storage.
    pub fn from_leaf_hashes(hashes: impl IntoIterator<Item = LogHash>) -> Self {
        let mut log = Self::new();
        for hash in hashes {
            log.append_leaf_hash(hash);
        }
        log
    }

    /// Appends an entry and returns its position.
    pub fn append(&mut self, leaf_data: &[u8]) -> u64 {
        self.append_leaf_hash(leaf_hash(leaf_data))
    }

    /// Appends an entry whose [`leaf_hash`] is known and returns its position.
    pub fn append_leaf_hash(&mut self, hash: LogHash) -> u64 {
        let index = self.len();
        let mut hash = hash;
        for height in 0.. {
            if height == self.levels.len() {
                self.levels.push(Vec::new());
            }
            let level = &mut self.levels[height];
            level.push(hash);
            let (pairs, []) = level.as_chunks::<2>() else { break };
            let [left, right] = &pairs[pairs.len() - 1];
            hash = node_hash(left, right);
        }
        index
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.levels.first().map_or(0, |leaves| leaves.len() as u64)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The leaf hash of entry `index`, if there is one.
    pub fn leaf(&self, index: u64) -> Option<LogHash> {
        self.levels.first()?.get(usize::try_from(index).ok()?).copied()
    }

    /// The root over all entries.
    pub fn root(&self) -> LogHash {
        self.subroot(0, self.len())
    }

    /// The root when the log had `size` entries; `None` when it never had as many.
    pub fn root_at(&self, size: u64) -> Option<LogHash> {
        (size <= self.len()).then(|| self.subroot(0, size))
    }

    /// The part of the log that appending needs.
    pub fn frontier(&self) -> Frontier {
        let len = self.len();
        let peaks = (0..self.levels.len())
            .rev()
            .filter(|height| len >> height & 1 == 1)
            .filter_map(|height| self.levels[height].last().copied());
        Frontier::from_peaks(len, peaks.collect())
    }

    /// Proof that entry `index` is in the tree of the first `size` entries
    /// (RFC 9162 section 2.1.3.1).
    ///
    /// # Errors
    /// When the log has no such size, or that tree no such entry.
    pub fn inclusion_proof(&self, index: u64, size: u64) -> Result<Vec<LogHash>, ProofError> {
        self.known(size)?;
        if index >= size {
            return Err(ProofError::OutOfRange { index, count: size });
        }
        let mut path = Vec::new();
        let (mut start, mut end) = (0, size);
        while end - start > 1 {
            let middle = start + split(end - start);
            if index < middle {
                path.push(self.subroot(middle, end));
                end = middle;
            } else {
                path.push(self.subroot(start, middle));
                start = middle;
            }
        }
        path.reverse();
        Ok(path)
    }

    /// Proof that the tree of the first `second` entries extends that of the first `first`
    /// (RFC 9162 section 2.1.4.1). Empty when the two are the same, and when `first` is 0, for
    /// everything extends nothing.
    ///
    /// # Errors
    /// When the log has no such size, or `first` is the larger one.
    pub fn consistency_proof(&self, first: u64, second: u64) -> Result<Vec<LogHash>, ProofError> {
        self.known(second)?;
        if first > second {
            return Err(ProofError::Shrunk { first, second });
        }
        let mut path = Vec::new();
        if first == 0 {
            return Ok(path);
        }
        let (mut start, mut end) = (0, second);
        while end != first {
            let middle = start + split(end - start);
            if first <= middle {
                path.push(self.subroot(middle, end));
                end = middle;
            } else {
                path.push(self.subroot(start, middle));
                start = middle;
            }
        }
        // The first tree itself need not be sent: the verifier has its root.
        if start > 0 {
            path.push(self.subroot(start, end));
        }
        path.reverse();
        Ok(path)
    }

    fn known(&self, size: u64) -> Result<(), ProofError> {
        let len = self.len();
        if size <= len { Ok(()) } else { Err(ProofError::Future { size, len }) }
    }

    /// The root over leaves `start..end`, where `start` is a multiple of the smallest power of two
    /// not below their number and `end` is within the log.
    fn subroot(&self, start: u64, end: u64) -> LogHash {
        let size = end - start;
        if size == 0 {
            return empty_root();
        }
        if size.is_power_of_two() {
            let height = size.ilog2();
            return self.levels[height as usize][(start >> height) as usize];
        }
        let middle = start + split(size);
        node_hash(&self.subroot(start, middle), &self.subroot(middle, end))
    }
}
