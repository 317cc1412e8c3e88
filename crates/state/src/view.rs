//! Reading one state: a committed one, with uncommitted blocks on top, or one of the past.

use std::ops::Bound;
use std::sync::Arc;

use alloy_primitives::map::DefaultHashBuilder;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::layer::NodePlace;
use crate::record::Record;
use crate::store::{Snapshot, Table};
use crate::tables::{Tables, dated, decode_account, decode_slot, slot_key};
use crate::trie::path::Path;
use crate::trie::update::Nodes;
use crate::{EMPTY_ROOT, Error, Found, Layer, Read, StoredAccount};

/// What all views of a state share: things whose name is their hash, so that they are right for any.
pub(crate) struct Shared {
    pub(crate) tables: Tables,
    pub(crate) branches: Cache<B256, Arc<[u8]>, Weight, DefaultHashBuilder>,
    pub(crate) codes: Cache<B256, Bytes, Weight, DefaultHashBuilder>,
}

#[derive(Clone)]
pub(crate) struct Weight;

/// Of an entry of a cache besides its bytes.
const OVERHEAD_BYTES: u64 = 96;

impl Weighter<B256, Arc<[u8]>> for Weight {
    fn weight(&self, _: &B256, record: &Arc<[u8]>) -> u64 {
        record.len() as u64 + OVERHEAD_BYTES
    }
}

impl Weighter<B256, Bytes> for Weight {
    fn weight(&self, _: &B256, code: &Bytes) -> u64 {
        code.len() as u64 + OVERHEAD_BYTES
    }
}

/// One state that holds still, whatever is committed meanwhile. Cheap to clone, shared between
/// threads. It keeps files that have been replaced since from being freed, so it should not be kept
/// for long.
#[derive(Clone)]
pub struct View {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshot: Snapshot,
    /// Oldest first.
    pub(crate) layers: Vec<Arc<Layer>>,
    /// The newest block in the snapshot.
    pub(crate) head: Option<u64>,
    /// Read as it was after this block.
    pub(crate) past: Option<u64>,
    pub(crate) root: B256,
}

impl View {
    /// The state's root.
    pub fn root(&self) -> B256 {
        self.root
    }

    /// The newest committed block that this view has; `None` before the genesis.
    pub fn number(&self) -> Option<u64> {
        self.past.or(self.head)
    }

    /// This state with blocks on top that are not committed, oldest first. Those that have been
    /// committed since are left out.
    ///
    /// # Errors
    /// [`Error::NotOnTop`] if they do not follow each other or this state.
    pub fn on(&self, layers: &[Arc<Layer>]) -> Result<Self, Error> {
        if self.past.is_some() {
            return Err(Error::NotCommitted { what: "putting blocks on top" });
        }
        let Some(last) = layers.last() else { return Ok(self.clone()) };
        let start = match layers.iter().position(|layer| layer.parent_root == self.root) {
            Some(start) => start,
            None if last.root == self.root => layers.len(),
            None => return Err(Error::NotOnTop { expected: layers[0].parent_root, found: self.root }),
        };
        let mut view = self.clone();
        for layer in &layers[start..] {
            if layer.parent_root != view.root {
                return Err(Error::NotOnTop { expected: layer.parent_root, found: view.root });
            }
            view.root = layer.root;
            view.layers.push(Arc::clone(layer));
        }
        Ok(view)
    }

    /// The account at the hash of an address.
    pub(crate) fn stored_account(&self, key: &B256) -> Result<Option<StoredAccount>, Error> {
        for layer in self.layers.iter().rev() {
            if let Some(account) = layer.accounts.get(key) {
                return Ok(account.after);
            }
        }
        let tables = &self.shared.tables;
        if let Some(value) = self.before(tables.account_history, key.as_slice())? {
            if value.is_empty() {
                return Ok(None);
            }
            return decode_account(key, &value).map(Some);
        }
        match self.snapshot.get(tables.accounts, key)? {
            Some(value) => decode_account(key, &value).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn stored_slot(&self, account: &B256, slot: &B256) -> Result<U256, Error> {
        for layer in self.layers.iter().rev() {
            if let Some(storage) = layer.storage.get(account) {
                if let Some(value) = storage.slots.get(slot) {
                    return Ok(value.after);
                }
                if storage.cleared {
                    return Ok(U256::ZERO);
                }
            }
        }
        let key = slot_key(account, slot);
        let tables = &self.shared.tables;
        if let Some(value) = self.before(tables.storage_history, &key)? {
            return decode_slot(&key, &value);
        }
        match self.snapshot.get(tables.storage, key)? {
            Some(value) => decode_slot(&key, &value),
            None => Ok(U256::ZERO),
        }
    }

    /// For a view of the past: the value that a later block replaced, if one did.
    fn before(&self, history: Table, key: &[u8]) -> Result<Option<crate::store::Value>, Error> {
        let Some(number) = self.past else { return Ok(None) };
        let Some(after) = number.checked_add(1) else { return Ok(None) };
        let (first, last) = (dated(key, after), dated(key, u64::MAX));
        let mut entries =
            self.snapshot.range(history, Bound::Included(&first[..]), Bound::Included(&last[..]));
        Ok(entries.next().transpose()?.map(|(_, value)| value))
    }
}

impl Read for View {
    type Error = Error;

    fn find(&self, address: Address) -> Result<Option<Found>, Error> {
        let stored = self.stored_account(&keccak256(address))?;
        Ok(stored.map(|StoredAccount { account, storage_root }| Found {
            account,
            has_storage: storage_root != EMPTY_ROOT,
        }))
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, Error> {
        self.stored_slot(&keccak256(address), &keccak256(slot.to_be_bytes::<32>()))
    }

    fn code(&self, hash: B256) -> Result<Bytes, Error> {
        if hash == KECCAK256_EMPTY {
            return Ok(Bytes::new());
        }
        if let Some(code) = self.layers.iter().rev().find_map(|layer| layer.codes.get(&hash)) {
            return Ok(code.clone());
        }
        if let Some(code) = self.shared.codes.get(&hash) {
            return Ok(code);
        }
        match self.snapshot.get(self.shared.tables.codes, hash)? {
            Some(code) => {
                let code = Bytes::copy_from_slice(&code);
                self.shared.codes.insert(hash, code.clone());
                Ok(code)
            }
            None => Err(Error::UnknownCode { hash }),
        }
    }
}

impl Nodes for View {
    type Error = Error;

    fn root_record(&self, trie: &B256) -> Result<Option<Record>, Error> {
        self.node(&NodePlace { trie: *trie, path: None })
    }

    fn branch(&self, trie: &B256, path: &Path, hash: Option<B256>) -> Result<Record, Error> {
        if let Some(record) = hash.and_then(|hash| self.shared.branches.get(&hash)) {
            return Ok(Record::Shared(record));
        }
        self.node(&NodePlace { trie: *trie, path: Some(*path) })?
            .ok_or_else(|| Error::MissingNode { trie: *trie, path: format!("{path:?}") })
    }

    fn damaged(&self, trie: &B256, path: Option<&Path>) -> Error {
        let (table, key) = self.shared.tables.node_key(trie, path);
        let table = if table == self.shared.tables.account_nodes {
            "state_account_nodes"
        } else {
            "state_storage_nodes"
        };
        Error::Damaged { table, key: key.as_ref().to_vec() }
    }
}

impl View {
    fn node(&self, place: &NodePlace) -> Result<Option<Record>, Error> {
        for layer in self.layers.iter().rev() {
            if let Some(record) = layer.nodes.get(place) {
                return Ok(record.clone().map(Record::Shared));
            }
        }
        let (table, key) = self.shared.tables.node_key(&place.trie, place.path.as_ref());
        Ok(self.snapshot.get(table, key)?.map(Record::Stored))
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("root", &self.root)
            .field("number", &self.number())
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}
