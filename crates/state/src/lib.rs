//! Accounts and storage of a chain under one Merkle Patricia root, in an embedded store.
//!
//! ```
//! use tally_state::{Account, AccountChange, Batch, Changes, Database, Durability, Options, Read, State};
//! use alloy_primitives::{Address, U256};
//!
//! let state = State::open(Database::in_memory(), Options::default())?;
//! let rich = Account { balance: U256::from(1_000), ..Account::default() };
//! let mut genesis = Changes::default();
//! genesis.accounts.insert(Address::ZERO, AccountChange { account: Some(rich), ..Default::default() });
//! let mut batch = Batch::new();
//! state.begin(&mut batch, 0, &genesis)?;
//! state.database().commit(batch, Durability::Synced)?;
//!
//! // Execute a block on the newest state, then commit it.
//! let view = state.view()?;
//! let account = view.account(Address::ZERO)?.unwrap();
//! let mut changes = Changes::default();
//! let after = Account { nonce: account.nonce + 1, ..account };
//! changes.accounts.insert(Address::ZERO, AccountChange { account: Some(after), ..Default::default() });
//! let layer = view.apply(&changes)?;
//! let mut batch = Batch::new();
//! state.commit(&mut batch, 1, &layer)?;
//! state.database().commit(batch, Durability::Synced)?;
//! assert_eq!(state.view()?.root(), layer.root());
//! assert_eq!(state.at(0)?.account(Address::ZERO)?, Some(rich));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`store`] | the embedded store: tables, batches, snapshots |
//! | [`trie`] | the Merkle Patricia trie |
//! | `changes`, `read` | what a block changes, and how a state is read: all that the EVM needs |
//! | `view`, `layer`, `apply` | one state, and what a block makes of it |
//! | `state`, `history` | committing, states of the past, undoing blocks |
//! | `proof` | EIP-1186 |
//! | `ranges`, `import` | a whole state in ranges, each proved; taking one in beside the one there is |

mod apply;
mod changes;
mod error;
mod flat;
mod history;
mod import;
mod layer;
mod proof;
mod ranges;
mod read;
mod record;
mod state;
pub mod store;
mod tables;
#[cfg(test)]
mod tests;
pub mod trie;
mod view;

pub use changes::{Account, AccountChange, Changes};
pub use error::Error;
pub use flat::StoredAccount;
pub use import::Import;
pub use layer::Layer;
pub use proof::{AccountProof, PROOF_UNDO_LIMIT, StorageProof};
pub use ranges::{AccountRange, Ranges, StorageRange};
pub use read::{Found, Read};
pub use state::{History, Options, State};
pub use store::{Batch, Database, Durability, Snapshot, StoreError, StoreOptions, Table};
pub use trie::update::UpdateCost;
pub use trie::{EMPTY_ROOT, MemoryTrie, ProofError, ordered_root};
pub use view::View;
