//! An EVM chain: blocks, pool, production, synchronisation.

pub mod blocks;
mod branch;
pub mod chain;
mod error;
pub mod files;
pub mod node;
pub mod pool;
pub mod protocol;
mod recent;
pub mod sealed;
pub mod setup;
mod validator_contract;

pub use branch::{Branch, Candidate};
pub use chain::{BlockId, Chain, Event, Head, Options, Reader, created_by};
pub use error::{ChainError, ImportError};
pub use node::{Node, WeakNode};
pub use pool::Pool;
