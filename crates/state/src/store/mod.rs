//! The embedded store: named tables of sorted keys in one directory, or in memory.
//!
//! Built for what a node of the chain does: one writer that commits a batch per block, thousands of
//! random keys in each, while others read; few bytes written for each byte changed, little memory, and
//! a number of it that holds. A log-structured merge tree:
//!
//! | module | what it holds |
//! | --- | --- |
//! | `batch` | changes, in the form in which the journal and the memory keep them |
//! | `journal` | batches since the last flush, each with a checksum; fsync is the commit |
//! | `memory` | the same batches, sorted, with a hash index |
//! | `segment`, `block`, `filter` | sorted files, written once, and which keys they can have |
//! | `manifest` | which files count; replaced by a rename |
//! | `version` | all runs of all tables at one moment: a snapshot is a counted reference to one |
//! | `cursor` | all runs of a table as one sorted sequence |
//! | `background` | writing memory out, and merging files |
//! | `directory` | the files, as the operating system has them, or as a test lets them fail |
//!
//! Nothing outside of this module knows what the store is made of.

mod background;
mod batch;
mod block;
mod cache;
mod cursor;
mod database;
mod directory;
mod error;
mod filter;
mod hash;
mod journal;
mod manifest;
mod memory;
mod segment;
mod snapshot;
#[cfg(test)]
mod tests;
mod value;
mod version;

pub use batch::{BATCH_LIMIT, Batch, KEY_LIMIT, VALUE_LIMIT};
pub use database::{Database, Durability, StoreOptions};
pub use error::StoreError;
pub use snapshot::{Entries, Snapshot};
pub use value::Value;

/// A table of one [`Database`]: its number there, from [`Database::table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(u16);
