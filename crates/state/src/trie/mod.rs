//! The Merkle Patricia trie (yellow paper, appendix D).
//!
//! | module | what it does |
//! | --- | --- |
//! | `path`, `rlp` | nibbles; the encoding of nodes |
//! | `node` | branches as they are stored, with the leaves below them inside |
//! | `update`, `rehash` | many changes in one pass, each touched branch read, hashed and written once |
//! | `hashing`, `keccak_wide` | many Keccak-256 hashes at once |
//! | `proof` | the nodes on the way to a key |
//! | `memory` | a plain trie of any keys: the model for tests, proofs and lists |
//! | `range` | whether a range of keys, with the nodes at its ends, is what a root says |
//! | `ordered` | roots of lists: transactions, receipts, withdrawals |

pub(crate) mod hashing;
#[cfg(target_arch = "x86_64")]
mod keccak_wide;
pub mod memory;
pub(crate) mod node;
mod ordered;
pub(crate) mod path;
pub(crate) mod proof;
pub(crate) mod range;
mod rehash;
pub(crate) mod rlp;
#[cfg(test)]
mod tests;
pub(crate) mod update;

pub use memory::{MemoryTrie, ProofError};
pub use ordered::ordered_root;

use alloy_primitives::{B256, b256};

/// The root of a trie without keys: keccak-256 of the RLP of an empty string.
pub const EMPTY_ROOT: B256 = b256!("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");
