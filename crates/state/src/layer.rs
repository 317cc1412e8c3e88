//! What one block does to a state, ready to be looked through or committed.

use std::sync::Arc;

use alloy_primitives::map::{B256Map, HashMap};
use alloy_primitives::{B256, Bytes, U256};

use crate::flat::StoredAccount;
use crate::trie::path::Path;
use crate::trie::update::UpdateCost;

/// The outcome of a block on top of the state it was made for: the new root, and each account, slot
/// and trie node that differs, with its value before.
#[derive(Debug, Default)]
pub struct Layer {
    pub(crate) parent_root: B256,
    pub(crate) root: B256,
    pub(crate) accounts: B256Map<Replaced<Option<StoredAccount>>>,
    pub(crate) storage: B256Map<StorageLayer>,
    pub(crate) nodes: HashMap<NodePlace, Option<Arc<[u8]>>>,
    pub(crate) codes: B256Map<Bytes>,
    pub(crate) cost: UpdateCost,
}

/// A value before and after a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced<T> {
    pub(crate) before: T,
    pub(crate) after: T,
}

/// What a block does to the storage of one account.
#[derive(Debug, Default)]
pub(crate) struct StorageLayer {
    /// All that is not in `slots` is zero now.
    pub(crate) cleared: bool,
    pub(crate) slots: B256Map<Replaced<U256>>,
}

/// A trie, zero for the accounts', and a path in it, `None` for its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodePlace {
    pub(crate) trie: B256,
    pub(crate) path: Option<Path>,
}

impl Layer {
    /// The state's root after the block.
    pub fn root(&self) -> B256 {
        self.root
    }

    /// The state's root before the block.
    pub fn parent_root(&self) -> B256 {
        self.parent_root
    }

    /// Accounts and slots that have another value than before.
    pub fn changed(&self) -> usize {
        self.accounts.len() + self.storage.values().map(|storage| storage.slots.len()).sum::<usize>()
    }

    /// What computing the root took.
    pub fn cost(&self) -> UpdateCost {
        self.cost
    }
}
