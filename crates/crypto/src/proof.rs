//! Audit paths in trees of the shape of RFC 9162, whatever their hash function; shared by the
//! batch tree and the log.

/// A proof does not show what it claims, or cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The leaf's position lies outside the tree.
    #[error("leaf {index} is outside a tree of {count} leaves")]
    OutOfRange {
        /// Position claimed.
        index: u64,
        /// Leaves in the tree.
        count: u64,
    },
    /// The log is not that long yet.
    #[error("the log has {len} entries, a tree of {size} is not known yet")]
    Future {
        /// Tree size asked for.
        size: u64,
        /// Entries in the log.
        len: u64,
    },
    /// A later tree cannot be smaller than an earlier one.
    #[error("a tree of {second} leaves cannot extend one of {first}")]
    Shrunk {
        /// Leaves in the earlier tree.
        first: u64,
        /// Leaves in the tree said to extend it.
        second: u64,
    },
    /// The number of hashes in a proof follows from sizes and position; this one has another.
    #[error("the proof has {got} hashes where the tree's shape needs {expected}")]
    Length {
        /// Hashes the shape needs.
        expected: usize,
        /// Hashes given.
        got: usize,
    },
    /// The proof leads to another root: the leaf, the proof or the root is not the original.
    #[error("the proof does not lead to the given root")]
    Root,
}

/// Follows an audit path from leaf `index` of `count` up to the root it implies
/// (RFC 9162 section 2.1.3.2).
pub(crate) fn climb<H: Copy>(
    count: u64,
    index: u64,
    leaf: &H,
    path: &[H],
    node: impl Fn(&H, &H) -> H,
) -> Result<H, ProofError> {
    if index >= count {
        return Err(ProofError::OutOfRange { index, count });
    }
    let expected = siblings(count, index).count();
    if path.len() != expected {
        return Err(ProofError::Length { expected, got: path.len() });
    }
    Ok(siblings(count, index).zip(path).fold(*leaf, |current, (side, sibling)| match side {
        Side::Left => node(sibling, &current),
        Side::Right => node(&current, sibling),
    }))
}

/// Where a sibling stands, seen from the path.
enum Side {
    Left,
    Right,
}

/// The siblings of the ancestors of leaf `index`, bottom-up. A level where the ancestor is an odd
/// last node has none: the node moves up unchanged.
fn siblings(count: u64, index: u64) -> impl Iterator<Item = Side> {
    let mut next = (index, count - 1);
    std::iter::from_fn(move || {
        let (position, last) = next;
        next = (position / 2, last / 2);
        (last > 0).then_some((position, last))
    })
    .filter_map(|(position, last)| match position % 2 {
        1 => Some(Side::Left),
        _ => (position < last).then_some(Side::Right),
    })
}

/// The size of the left subtree: the largest power of two below `size`, which is at least 2.
pub(crate) fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}
