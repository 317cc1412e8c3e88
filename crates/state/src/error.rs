//! Why the state could not be read or changed.

use alloy_primitives::{B256, hex};

use crate::store::StoreError;

/// What went wrong with the state.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record does not parse, though the store says it is as it was written.
    #[error(
        "the record {} of the table {table} is damaged: sync again into an empty directory",
        hex::encode(key)
    )]
    Damaged {
        /// The table it is in.
        table: &'static str,
        /// Its key there.
        key: Vec<u8>,
    },
    /// A node that others refer to is not there.
    #[error("the trie of {trie} lacks the node at {path}: sync again into an empty directory")]
    MissingNode {
        /// The hash of the address whose storage it is, zero for the accounts'.
        trie: B256,
        /// Nibbles from the root.
        path: String,
    },
    /// No account's code has this hash.
    #[error("there is no code with the hash {hash}")]
    UnknownCode {
        /// The hash that was asked for.
        hash: B256,
    },
    /// The state after this block is not kept, or not there yet.
    #[error("the state after block {number} is not kept: ask for one from {oldest} to {newest}")]
    NotKept {
        /// The block that was asked for.
        number: u64,
        /// The first block whose state can be read.
        oldest: u64,
        /// The newest.
        newest: u64,
    },
    /// Nothing has been committed yet: load a genesis first.
    #[error("the state has no block yet: load a genesis or import one first")]
    NoState,
    /// There is a state already where a new one was to begin.
    #[error("the state is at block {number} already: begin in an empty directory")]
    NotEmpty {
        /// The newest block committed.
        number: u64,
    },
    /// A layer was made on top of another state.
    #[error("a layer on the state {expected} cannot follow the state {found}")]
    NotOnTop {
        /// The root below the layer.
        expected: B256,
        /// The root that is there.
        found: B256,
    },
    /// A block does not follow the newest one.
    #[error("block {number} cannot be committed: the next one is {next}")]
    NotNext {
        /// The number given.
        number: u64,
        /// The number that would follow.
        next: u64,
    },
    /// More changes lie between a past state and the newest one than are undone for a proof.
    #[error("block {number} is too long ago for a proof: the oldest with one is {oldest}")]
    TooLongAgo {
        /// The block that was asked for.
        number: u64,
        /// The first block that can be proved now.
        oldest: u64,
    },
    /// What is asked for only a committed state can give.
    #[error("{what} needs a committed state, not one with uncommitted blocks or of the past")]
    NotCommitted {
        /// What was asked for.
        what: &'static str,
    },
    /// What was computed is not what it must be.
    #[error("the state has the root {found}, not {expected}")]
    WrongRoot {
        /// The root that it should have.
        expected: B256,
        /// The root that it has.
        found: B256,
    },
}
