//! The append-only Merkle log of RFC 9162 section 2.1, with SHA-256.
//!
//! Whoever holds two signed tree heads and a consistency proof knows that nothing was removed or
//! reordered in between; whoever holds a head and an inclusion proof knows that an entry is in the
//! log. Any RFC 6962 or RFC 9162 verifier can check either.
//!
//! [`MerkleLog`] keeps all nodes and makes proofs; [`Frontier`] keeps O(log n) of them and makes
//! roots; the `verify_` functions need neither. [`Witness`]es cosign heads in the form of C2SP.

mod cosignature;
mod frontier;
mod head;
mod tree;
mod verify;

use sha2::{Digest, Sha256};

pub use cosignature::{
    Checkpoint, Cosignature, CosignatureError, Cosigned, MAX_TIME_S, Witness, WitnessError, key_id, origin,
};
pub use frontier::{Frontier, FrontierError};
pub use head::{SignedTreeHead, TreeHead};
pub use tree::MerkleLog;
pub use verify::{verify_consistency, verify_inclusion};

/// A SHA-256 hash in the tree: of a leaf, a node or the root.
pub type LogHash = [u8; 32];

/// The root of the empty log: the hash of the empty string (RFC 9162 section 2.1.1).
pub fn empty_root() -> LogHash {
    Sha256::digest([]).into()
}

/// The hash of a leaf: `SHA-256(0x00 || data)` (RFC 9162 section 2.1.1).
pub fn leaf_hash(data: &[u8]) -> LogHash {
    Sha256::new().chain_update([0x00]).chain_update(data).finalize().into()
}

/// The hash of an inner node: `SHA-256(0x01 || left || right)` (RFC 9162 section 2.1.1).
pub fn node_hash(left: &LogHash, right: &LogHash) -> LogHash {
    let mut input = [0x01; 65];
    input[1..33].copy_from_slice(left);
    input[33..].copy_from_slice(right);
    Sha256::digest(input).into()
}

#[cfg(test)]
mod tests;
