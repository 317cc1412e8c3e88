//! Many Keccak-256 hashes at once.

use alloy_primitives::{B256, keccak256};

/// Messages to be hashed together, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Bytes of one permutation.
const RATE: usize = 136;

impl Messages {
    /// Ends a message: what was appended to `bytes` since the last one. Returns its number.
    pub(crate) fn end(&mut self) -> usize {
        self.ends.push(self.bytes.len());
        self.ends.len() - 1
    }

    /// Where the bytes of the next message begin.
    pub(crate) fn start(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Keccak permutations that hashing takes.
    pub(crate) fn permutations(&self) -> usize {
        self.messages().map(|message| message.len() / RATE + 1).sum()
    }

    fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let message = &self.bytes[start..*end];
            start = *end;
            message
        })
    }

    /// The hash of each message.
    pub(crate) fn hash(&self) -> Vec<B256> {
        self.messages().map(keccak256).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
