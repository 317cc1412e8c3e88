//! Why a Merkle proof was refused; shared by the batch tree and the log.

/// A proof does not show what it claims.
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
    /// A later tree cannot be smaller than an earlier one.
    #[error("a tree of {second} leaves cannot extend one of {first}")]
    Shrunk {
        /// Leaves in the earlier tree.
        first: u64,
        /// Leaves in the tree said to extend it.
        second: u64,
    },
    /// The number of hashes in a proof follows from the tree's size and the position; this one
    /// has another.
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
