//! Accounts and storage of a chain under one Merkle Patricia root, in an embedded store.

mod changes;
mod read;
pub mod store;

pub use changes::{Account, AccountChange, Changes};
pub use read::Read;
pub use store::{Batch, Database, Durability, Snapshot, StoreError, StoreOptions, Table};
