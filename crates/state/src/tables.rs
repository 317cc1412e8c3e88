//! The state's tables, and how keys and values stand in them.

use alloy_primitives::{B256, U256};

use crate::Error;
use crate::flat::{StoredAccount, trim};
use crate::store::{Database, Snapshot, StoreError, Table, Value};
use crate::trie::path::Path;

/// The tables of a state, and what each maps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    /// Which of the two sets these are: 0 or 1. Codes lie under their hash and are of both.
    generation: u8,
    /// Hash of the address to [`StoredAccount::encode`].
    pub(crate) accounts: Table,
    /// Hashes of address and slot to the value without leading zeros.
    pub(crate) storage: Table,
    /// Hash of the code to the code.
    pub(crate) codes: Table,
    /// Path to a branch of the account trie, or the root.
    pub(crate) account_nodes: Table,
    /// Hash of the address and path to a branch of its storage trie, or the root.
    pub(crate) storage_nodes: Table,
    /// Key of `accounts` and block to the value before it, empty for none.
    pub(crate) account_history: Table,
    /// Key of `storage` and block to the value before it, empty for zero.
    pub(crate) storage_history: Table,
    /// Block to the keys that it changed.
    pub(crate) changed: Table,
    /// `head` to the newest block and its root.
    pub(crate) meta: Table,
}

const HEAD: &[u8] = b"head";
/// Which of the two sets of tables is the state; the other takes in the next one that is imported.
const GENERATION: &[u8] = b"generation";
/// The root of the state that is being imported.
const IMPORT: &[u8] = b"import";
/// In place of a path's length: the root.
const ROOT: u8 = 0xff;

impl Tables {
    /// The tables that are the state.
    pub(crate) fn open(database: &Database) -> Result<Self, Error> {
        let meta = database.table("state_meta")?;
        let damaged = || Error::Damaged { table: "state_meta", key: GENERATION.to_vec() };
        let generation = match database.snapshot().get(meta, GENERATION)?.as_deref() {
            None => 0,
            Some(&[generation @ (0 | 1)]) => generation,
            Some(_) => return Err(damaged()),
        };
        Ok(Self::of(database, generation)?)
    }

    /// The tables of the other set.
    pub(crate) fn other(&self, database: &Database) -> Result<Self, StoreError> {
        Self::of(database, 1 - self.generation)
    }

    fn of(database: &Database, generation: u8) -> Result<Self, StoreError> {
        let table = |name: &str| match generation {
            0 => database.table(name),
            _ => database.table(&format!("{name}_1")),
        };
        Ok(Self {
            generation,
            accounts: table("state_accounts")?,
            storage: table("state_storage")?,
            codes: database.table("state_codes")?,
            account_nodes: table("state_account_nodes")?,
            storage_nodes: table("state_storage_nodes")?,
            account_history: table("state_account_history")?,
            storage_history: table("state_storage_history")?,
            changed: table("state_changed")?,
            meta: database.table("state_meta")?,
        })
    }

    /// All tables that belong to this set alone.
    pub(crate) fn own(&self) -> [Table; 7] {
        [
            self.accounts,
            self.storage,
            self.account_nodes,
            self.storage_nodes,
            self.account_history,
            self.storage_history,
            self.changed,
        ]
    }

    /// Makes this set the state.
    pub(crate) fn put_generation(&self, batch: &mut crate::Batch) {
        batch.put(self.meta, GENERATION, [self.generation]);
    }

    /// The root of the state that is being imported, if one is.
    pub(crate) fn import(&self, snapshot: &Snapshot) -> Result<Option<B256>, Error> {
        let Some(root) = snapshot.get(self.meta, IMPORT)? else { return Ok(None) };
        let damaged = |_| Error::Damaged { table: "state_meta", key: IMPORT.to_vec() };
        B256::try_from(&root[..]).map(Some).map_err(damaged)
    }

    pub(crate) fn put_import(&self, batch: &mut crate::Batch, root: Option<B256>) {
        match root {
            Some(root) => batch.put(self.meta, IMPORT, root),
            None => batch.delete(self.meta, IMPORT),
        }
    }

    pub(crate) fn head(&self, snapshot: &Snapshot) -> Result<Option<(u64, B256)>, Error> {
        let Some(value) = snapshot.get(self.meta, HEAD)? else { return Ok(None) };
        let damaged = || Error::Damaged { table: "state_meta", key: HEAD.to_vec() };
        let (number, root) = value.split_first_chunk::<8>().ok_or_else(damaged)?;
        let root = B256::try_from(root).map_err(|_| damaged())?;
        Ok(Some((u64::from_be_bytes(*number), root)))
    }

    pub(crate) fn put_head(&self, batch: &mut crate::Batch, number: u64, root: B256) {
        batch.put(self.meta, HEAD, [&number.to_be_bytes()[..], root.as_slice()].concat());
    }

    /// Table and key of a node; `trie` is zero for the accounts'.
    pub(crate) fn node_key(&self, trie: &B256, path: Option<&Path>) -> (Table, NodeKey) {
        let mut key = NodeKey { bytes: [0; 65], length: 0 };
        let table = if trie.is_zero() {
            self.account_nodes
        } else {
            key.extend(trie.as_slice());
            self.storage_nodes
        };
        match path {
            None => key.extend(&[ROOT]),
            Some(path) => {
                key.extend(&[path.len() as u8]);
                key.extend(path.packed());
            }
        }
        (table, key)
    }

    /// The path in a key that [`node_key`](Self::node_key) made, after the trie's name.
    pub(crate) fn path_of(key: &[u8]) -> Option<Option<Path>> {
        match key.split_first()? {
            (&ROOT, []) => Some(None),
            (&ROOT, _) => None,
            (&length, packed) => Path::unpack(packed, usize::from(length)).map(Some),
        }
    }
}

/// A key of a table of nodes.
pub(crate) struct NodeKey {
    bytes: [u8; 65],
    length: usize,
}

impl NodeKey {
    fn extend(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}

impl AsRef<[u8]> for NodeKey {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

pub(crate) fn slot_key(account: &B256, slot: &B256) -> [u8; 64] {
    let mut key = [0; 64];
    key[..32].copy_from_slice(account.as_slice());
    key[32..].copy_from_slice(slot.as_slice());
    key
}

/// `key` with a block behind it.
pub(crate) fn dated(key: &[u8], number: u64) -> Vec<u8> {
    [key, &number.to_be_bytes()].concat()
}

pub(crate) fn decode_account(key: &B256, value: &Value) -> Result<StoredAccount, Error> {
    StoredAccount::decode(value).ok_or_else(|| Error::Damaged { table: "state_accounts", key: key.to_vec() })
}

pub(crate) fn decode_slot(key: &[u8], value: &[u8]) -> Result<U256, Error> {
    U256::try_from_be_slice(value).ok_or_else(|| Error::Damaged { table: "state_storage", key: key.to_vec() })
}

pub(crate) fn with_slot<R>(value: U256, take: impl FnOnce(&[u8]) -> R) -> R {
    take(trim(&value.to_be_bytes::<32>()))
}
