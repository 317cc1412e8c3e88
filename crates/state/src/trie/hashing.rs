//! Many Keccak-256 hashes at once.

use alloy_primitives::{B256, keccak256};

#[cfg(target_arch = "x86_64")]
use super::keccak_wide;

/// Messages to be hashed together, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Bytes of one permutation.
const RATE: usize = 136;
/// Fewer messages than this are hashed one after the other: idle lanes are not free.
const WORTH_WHILE: usize = 3;

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
        (0..self.len()).map(|number| self.message(number).len() / RATE + 1).sum()
    }

    pub(crate) fn message(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    /// The hash of each message.
    pub(crate) fn hash(&self) -> Vec<B256> {
        let mut hashes = vec![B256::ZERO; self.len()];
        // Lanes go in step, so messages of the same number of permutations go together.
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_by_key(|number| self.message(*number as usize).len() / RATE);
        let alike = |a: &u32, b: &u32| {
            self.message(*a as usize).len() / RATE == self.message(*b as usize).len() / RATE
        };
        for group in order.chunk_by(alike) {
            self.hash_group(group, &mut hashes);
        }
        hashes
    }

    #[cfg(target_arch = "x86_64")]
    fn hash_group(&self, group: &[u32], hashes: &mut [B256]) {
        for part in group.chunks(keccak_wide::LANES) {
            if part.len() >= WORTH_WHILE {
                let lane = |lane: usize| self.message(part[lane.min(part.len() - 1)] as usize);
                let lanes: [&[u8]; keccak_wide::LANES] = std::array::from_fn(lane);
                if let Some(found) = keccak_wide::hash(&lanes) {
                    for (number, hash) in part.iter().zip(found) {
                        hashes[*number as usize] = hash;
                    }
                    continue;
                }
            }
            self.hash_singly(part, hashes);
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn hash_group(&self, group: &[u32], hashes: &mut [B256]) {
        self.hash_singly(group, hashes);
    }

    fn hash_singly(&self, numbers: &[u32], hashes: &mut [B256]) {
        for number in numbers {
            hashes[*number as usize] = keccak256(self.message(*number as usize));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
