//! The Merkle tree of a batch: one signature over the root vouches for every item, and a short
//! path shows that an item belongs to it.
//!
//! The shape is RFC 9162 section 2.1.1 (split at the largest power of two below the size); the
//! hash is BLAKE3. A node is the keyed hash of its two children under a public derived key, a leaf is
//! whatever un-keyed hash the caller made, so neither can be taken for the other.
//!
//! Building bottom-up, pairing neighbours and promoting an odd last node unchanged, gives that
//! same shape: every subtree left of a largest-power-of-two split is complete, so its pairs never
//! cross the split. The tests hold the two against each other.

use crate::proof::climb;
use crate::{Hash, ProofError, hash, hash_many_keyed};

/// `BLAKE3-derive-key("tallystick 2026 merkle node v1", "")`.
const NODE_KEY: [u8; 32] = [
    0x15, 0x6c, 0x66, 0xe7, 0xf5, 0xc5, 0xff, 0x0e, 0x5a, 0x4e, 0x28, 0xe5, 0xc1, 0x0d, 0xcb, 0x1f, 0xbb,
    0xa6, 0x42, 0x6a, 0x8d, 0xd0, 0xf5, 0x31, 0xbf, 0x41, 0x46, 0x6b, 0x70, 0x08, 0x0f, 0xf1,
];

/// The hash of an inner node.
pub fn node(left: &Hash, right: &Hash) -> Hash {
    crate::keyed(&NODE_KEY, bytemuck::bytes_of(&[*left, *right]))
}

/// The root of the tree over `leaves`.
///
/// A single leaf is its own root; the empty tree has the hash of the empty string. The root does
/// not commit to the number of leaves: sign it together with the count.
pub fn root(leaves: &[Hash]) -> Hash {
    RootBuilder::new().root(leaves)
}

/// The path from leaf `index` to the root, nearest sibling first; `None` when there is no such
/// leaf. Builds the whole tree: for several paths keep a [`Tree`].
pub fn path(leaves: &[Hash], index: usize) -> Option<Vec<Hash>> {
    (index < leaves.len()).then(|| Tree::new(leaves).path(index))?
}

/// Checks that `leaf` is number `index` of the `count` leaves under `root`.
///
/// # Errors
/// [`ProofError`] says whether the position, the length of the path or the hashes are wrong.
pub fn verify_path(
    root: &Hash,
    count: u64,
    index: u64,
    leaf: &Hash,
    path: &[Hash],
) -> Result<(), ProofError> {
    let implied = climb(count, index, leaf, path, node)?;
    if implied == *root { Ok(()) } else { Err(ProofError::Root) }
}

/// Computes roots without allocating once it has seen its largest batch.
#[derive(Debug, Default, Clone)]
pub struct RootBuilder {
    current: Vec<Hash>,
    next: Vec<Hash>,
}

impl RootBuilder {
    /// A builder with no memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same as [`root`].
    pub fn root(&mut self, leaves: &[Hash]) -> Hash {
        match leaves {
            [] => return hash(b""),
            [leaf] => return *leaf,
            _ => {}
        }
        self.current.clear();
        reduce(leaves, &mut self.current);
        while self.current.len() > 1 {
            self.next.clear();
            reduce(&self.current, &mut self.next);
            std::mem::swap(&mut self.current, &mut self.next);
        }
        self.current[0]
    }
}

/// Appends the level above `nodes`: parents of neighbours, then an odd last node as it is.
fn reduce(nodes: &[Hash], out: &mut Vec<Hash>) {
    let (pairs, odd) = nodes.as_chunks::<2>();
    let pairs: &[[u8; 64]] = bytemuck::cast_slice(pairs);
    out.reserve(pairs.len() + odd.len());
    hash_many_keyed(&NODE_KEY, pairs, out);
    out.extend_from_slice(odd);
}

/// All nodes of a tree, for handing out the path of every leaf of a batch.
#[derive(Debug, Clone)]
pub struct Tree {
    /// `levels[0]` are the leaves, the last level is the root alone.
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// Hashes the whole tree over `leaves` once.
    pub fn new(leaves: &[Hash]) -> Self {
        let mut levels = vec![leaves.to_vec()];
        loop {
            let below = &levels[levels.len() - 1];
            if below.len() <= 1 {
                return Self { levels };
            }
            let mut level = Vec::new();
            reduce(below, &mut level);
            levels.push(level);
        }
    }

    /// Number of leaves.
    pub fn len(&self) -> usize {
        self.levels[0].len()
    }

    /// Whether there is no leaf.
    pub fn is_empty(&self) -> bool {
        self.levels[0].is_empty()
    }

    /// The root, as [`root`] of the leaves.
    pub fn root(&self) -> Hash {
        self.levels[self.levels.len() - 1].first().copied().unwrap_or_else(|| hash(b""))
    }

    /// The path of leaf `index`, nearest sibling first; `None` when there is no such leaf.
    pub fn path(&self, index: usize) -> Option<Vec<Hash>> {
        if index >= self.len() {
            return None;
        }
        let mut path = Vec::with_capacity(self.levels.len() - 1);
        let mut position = index;
        for level in &self.levels {
            if let Some(sibling) = level.get(position ^ 1) {
                path.push(*sibling);
            }
            position /= 2;
        }
        Some(path)
    }

    /// The hashes that lead from several leaves to the root: what [`root_of_part`] needs beside the leaves at `positions`.
    /// `None` unless these ascend and there are such leaves.
    pub fn beside(&self, positions: &[u32]) -> Option<Vec<Hash>> {
        if !is_part(self.len() as u64, positions) {
            return None;
        }
        let mut beside = Vec::new();
        let mut known = positions.to_vec();
        for level in &self.levels {
            let mut above: Vec<u32> = Vec::with_capacity(known.len());
            for at in &known {
                if above.last() == Some(&(at / 2)) {
                    continue;
                }
                above.push(at / 2);
                let other = at ^ 1;
                if known.binary_search(&other).is_err()
                    && let Some(other) = level.get(other as usize)
                {
                    beside.push(*other);
                }
            }
            known = above;
        }
        Some(beside)
    }
}

/// Whether these are positions of a tree of `count` leaves, at least one and ascending.
fn is_part(count: u64, positions: &[u32]) -> bool {
    positions.windows(2).all(|pair| pair[0] < pair[1])
        && positions.last().is_some_and(|last| u64::from(*last) < count)
}

/// The root to which `leaves`, those at `positions` of a tree of `count`, lead with the hashes `beside` them
/// ([`Tree::beside`]): level by level, each node is paired with its neighbour if that is known, else with the next of these.
///
/// # Errors
/// [`ProofError`] where the positions are none of such a tree, or the number of hashes is another.
pub fn root_of_part(
    count: u32,
    positions: &[u32],
    leaves: &[Hash],
    beside: &[Hash],
) -> Result<Hash, ProofError> {
    if !is_part(u64::from(count), positions) || positions.len() != leaves.len() {
        let index = positions.last().copied().unwrap_or_default();
        return Err(ProofError::OutOfRange { index: u64::from(index), count: u64::from(count) });
    }
    let mut needed = 0;
    let mut next = || {
        let next = beside.get(needed).copied().unwrap_or(Hash::ZERO);
        needed += 1;
        next
    };
    let (mut size, mut known, mut hashes) = (count, positions.to_vec(), leaves.to_vec());
    let (mut pairs, mut above): (Vec<[Hash; 2]>, Vec<u32>) = (Vec::new(), Vec::new());
    while size > 1 {
        pairs.clear();
        above.clear();
        let mut odd = None;
        let mut nodes = known.iter().zip(&hashes).peekable();
        while let Some((at, hash)) = nodes.next() {
            above.push(at / 2);
            if at % 2 == 1 {
                pairs.push([next(), *hash]);
            } else if let Some((_, right)) = nodes.next_if(|(next, _)| **next == at + 1) {
                pairs.push([*hash, *right]);
            } else if at + 1 == size {
                odd = Some(*hash);
            } else {
                pairs.push([*hash, next()]);
            }
        }
        hashes.clear();
        let pairs: &[[u8; 64]] = bytemuck::cast_slice(&pairs);
        hash_many_keyed(&NODE_KEY, pairs, &mut hashes);
        hashes.extend(odd);
        std::mem::swap(&mut known, &mut above);
        size = size.div_ceil(2);
    }
    if needed != beside.len() {
        return Err(ProofError::Length { expected: needed, got: beside.len() });
    }
    Ok(hashes[0])
}

#[cfg(test)]
mod tests;
