//! What can go wrong with a chain.

use alloy_primitives::B256;
use tally_evm::{BlockError, GenesisError};
use tally_state::{Error as StateError, StoreError};

use crate::blocks::ReadError;
use crate::sealed::ValidatorsError;

/// A chain could not be opened, read or extended.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The store could not be read or written.
    #[error("the chain's store failed")]
    Store(#[from] StoreError),
    /// The state could not be read or written.
    #[error("the chain's state failed")]
    State(#[from] StateError),
    /// A block could not be read.
    #[error("a block of the chain cannot be read")]
    Read(#[from] ReadError),
    /// The genesis file is wrong.
    #[error("the genesis file is wrong")]
    Genesis(#[from] GenesisError),
    /// The genesis file asks for a consensus that this program does not have.
    #[error("the genesis file asks for {0}, which is not supported; use qbft or ibft2")]
    Consensus(&'static str),
    /// The directory holds another chain.
    #[error(
        "the data directory holds a chain with genesis {found}, the genesis file makes {expected}; use another directory or the right file"
    )]
    OtherGenesis {
        /// Of the genesis file.
        expected: B256,
        /// In the directory.
        found: B256,
    },
    /// The validators cannot be told.
    #[error("the validators cannot be told")]
    Validators(#[from] ValidatorsError),
    /// A block could not be executed because the state failed.
    #[error("the state cannot be read")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What this validator has signed cannot be read.
    #[error(
        "the record of what this validator has signed cannot be read; restore it, or wait until the chain has passed the height that it was at and remove it"
    )]
    Record(#[source] tally_consensus::RestoreError),
    /// State and blocks are not of the same commit: the store was damaged.
    #[error(
        "the state's root is {found}, but block {number} says {expected}; the data directory is damaged, restore it or synchronise anew"
    )]
    Torn {
        /// The newest block.
        number: u64,
        /// In its header.
        expected: B256,
        /// Of the state.
        found: B256,
    },
    /// A block is missing in the tables.
    #[error("block {number} is missing; the data directory is damaged, restore it or synchronise anew")]
    Missing {
        /// Which.
        number: u64,
    },
    /// The state of an old block is no longer kept.
    #[error("the state of block {number} is not kept: {reason}")]
    Pruned {
        /// The block.
        number: u64,
        /// What is kept.
        reason: String,
    },
}

/// A block was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It breaks a rule.
    #[error("block {number} ({hash}) is invalid")]
    Invalid {
        /// Its number.
        number: u64,
        /// Its hash.
        hash: B256,
        /// The rule.
        source: Box<BlockError>,
    },
    /// Its parent is not known.
    #[error("the parent {parent} of block {number} is not known")]
    UnknownParent {
        /// Its number.
        number: u64,
        /// Its parent.
        parent: B256,
    },
    /// It does not extend the head of a chain whose blocks are final.
    #[error("block {number} follows {parent}, but the chain is final up to block {head}")]
    Final {
        /// Its number.
        number: u64,
        /// Its parent.
        parent: B256,
        /// The chain's newest block.
        head: u64,
    },
    /// Something failed here; the block may be right.
    #[error(transparent)]
    Chain(#[from] ChainError),
}

macro_rules! through_chain {
    ($($error:ty),*) => {$(
        impl From<$error> for ImportError {
            fn from(error: $error) -> Self {
                Self::Chain(error.into())
            }
        }
    )*};
}
through_chain!(StoreError, StateError, ReadError, ValidatorsError);
