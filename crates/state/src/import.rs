//! Takes a state in from ranges, beside the one that there is.

use std::ops::Bound;
use std::sync::Arc;

use alloy_primitives::{B256, Bytes, KECCAK256_EMPTY, keccak256};

use crate::ranges::hash_of;
use crate::store::{Batch, Durability, Table};
use crate::tables::{Tables, decode_account, slot_key, with_slot};
use crate::trie::EMPTY_ROOT;
use crate::trie::node::Kind;
use crate::trie::update::{Outcome, Update};
use crate::view::Shared;
use crate::{AccountRange, Error, Options, State, StorageRange, StoredAccount, View};

/// A state that is taken in, in tables of its own. Nothing of it can be read before [`finish`](Self::finish) puts it in
/// the place of the state that there is, in one commit; until then that one is as it was.
#[derive(Debug)]
pub struct Import {
    state: State,
    root: B256,
    tables: Tables,
}

/// Entries of one batch while an import clears or builds.
const STEP: usize = 20_000;
/// For the branches of the tries while they are built.
const BRANCH_CACHE_BYTES: usize = 4 << 20;

impl State {
    /// Begins to import the state with this root. What an import before left is removed.
    ///
    /// # Errors
    /// What the store says.
    pub fn import(&self, root: B256) -> Result<Import, Error> {
        self.abandon_import()?;
        let tables = self.tables().other(self.database())?;
        for table in tables.own() {
            self.clear(table)?;
        }
        let mut batch = Batch::new();
        tables.put_import(&mut batch, Some(root));
        self.database().commit(batch, Durability::Buffered)?;
        Ok(Import { state: self.clone(), root, tables })
    }

    /// Goes on with the import that was interrupted, with all that was committed of it.
    ///
    /// # Errors
    /// What the store says.
    pub fn resume_import(&self) -> Result<Option<Import>, Error> {
        let Some(root) = self.tables().import(&self.database().snapshot())? else { return Ok(None) };
        let tables = self.tables().other(self.database())?;
        Ok(Some(Import { state: self.clone(), root, tables }))
    }

    /// Removes what an import that was interrupted has left.
    ///
    /// # Errors
    /// What the store says.
    pub fn abandon_import(&self) -> Result<(), Error> {
        if self.tables().import(&self.database().snapshot())?.is_none() {
            return Ok(());
        }
        let tables = self.tables().other(self.database())?;
        // The mark goes first: without it nobody goes on with what is half cleared.
        let mut batch = Batch::new();
        tables.put_import(&mut batch, None);
        self.database().commit(batch, Durability::Buffered)?;
        tables.own().into_iter().try_for_each(|table| self.clear(table))
    }

    fn clear(&self, table: Table) -> Result<(), Error> {
        let snapshot = self.database().snapshot();
        let mut batch = Batch::new();
        for entry in snapshot.range(table, Bound::Unbounded, Bound::Unbounded) {
            batch.delete(table, entry?.0);
            if batch.len() >= STEP {
                self.database().commit(std::mem::take(&mut batch), Durability::Buffered)?;
            }
        }
        Ok(self.database().commit(batch, Durability::Buffered)?)
    }
}

impl Import {
    /// The root of the state that is imported.
    pub fn root(&self) -> B256 {
        self.root
    }

    /// Puts a range that [`verify`](AccountRange::verify) found good into a batch.
    pub fn accounts(&self, batch: &mut Batch, range: &AccountRange) {
        let table = self.tables.accounts;
        range.accounts.iter().for_each(|(key, account)| batch.put(table, key, account.encode()));
    }

    /// Puts a range that [`verify`](StorageRange::verify) found good into a batch.
    pub fn slots(&self, batch: &mut Batch, range: &StorageRange) {
        let table = self.tables.storage;
        for (slot, value) in &range.slots {
            with_slot(*value, |value| batch.put(table, slot_key(&range.account, slot), value));
        }
    }

    /// Puts a code into a batch.
    pub fn code(&self, batch: &mut Batch, code: &Bytes) {
        batch.put(self.tables.codes, keccak256(code), code);
    }

    /// Whether the code with this hash is there.
    ///
    /// # Errors
    /// What the store says.
    pub fn has_code(&self, hash: B256) -> Result<bool, Error> {
        Ok(hash == KECCAK256_EMPTY
            || self.state.database().snapshot().get(self.tables.codes, hash)?.is_some())
    }

    /// The accounts with code or storage that were taken in, in order of the hashes of their addresses: the first `most`
    /// from `start` on.
    ///
    /// # Errors
    /// What the store says.
    pub fn contracts(&self, start: B256, most: usize) -> Result<Vec<(B256, StoredAccount)>, Error> {
        let snapshot = self.state.database().snapshot();
        let mut found = Vec::new();
        let entries =
            snapshot.range(self.tables.accounts, Bound::Included(start.as_slice()), Bound::Unbounded);
        for entry in entries {
            if found.len() >= most {
                break;
            }
            let (key, value) = entry?;
            let key = hash_of(&key, "state_accounts")?;
            let stored = decode_account(&key, &value)?;
            if stored.account.has_code() || stored.storage_root != EMPTY_ROOT {
                found.push((key, stored));
            }
        }
        Ok(found)
    }

    /// Builds the tries, checks every root, and puts the state in the place of the one that there is, as that of block
    /// `number`; what `also` puts into the batch becomes durable in the same moment. States of before are no longer kept.
    ///
    /// # Errors
    /// [`Error::WrongRoot`] and [`Error::UnknownCode`] if something is missing or was not what it
    /// should be; what the store says. The state is then the one from before.
    pub fn finish(self, number: u64, also: impl FnOnce(&mut Batch)) -> Result<(), Error> {
        // An attempt that was interrupted may have left some.
        for table in [self.tables.account_nodes, self.tables.storage_nodes] {
            self.state.clear(table)?;
        }
        let root = Build::new(&self).all()?;
        if root != self.root {
            return Err(Error::WrongRoot { expected: self.root, found: root });
        }
        let before = self.state.tables();
        let mut batch = Batch::new();
        self.tables.put_head(&mut batch, number, root);
        self.tables.put_generation(&mut batch);
        self.tables.put_import(&mut batch, None);
        also(&mut batch);
        let shared = Arc::new(Shared::new(self.tables, self.state.options()));
        self.state.replace(batch, shared, number, root)?;
        // What cannot be cleared now is cleared when an import begins, and read by nobody.
        let _ = before.own().into_iter().try_for_each(|table| self.state.clear(table));
        Ok(())
    }
}

/// Builds tries from their leaves, many storages in one pass.
struct Build<'a> {
    import: &'a Import,
    shared: Arc<Shared>,
    /// Leaves of storages in order, with the root of those that end here.
    waiting: Vec<Storage>,
    leaves: usize,
}

struct Storage {
    account: B256,
    leaves: Vec<(B256, Vec<u8>)>,
    root: Option<B256>,
}

impl<'a> Build<'a> {
    fn new(import: &'a Import) -> Self {
        let options = Options { branch_cache_bytes: BRANCH_CACHE_BYTES, ..import.state.options() };
        let shared = Arc::new(Shared::new(import.tables, options));
        Self { import, shared, waiting: Vec::new(), leaves: 0 }
    }

    /// The root of the accounts, when all roots of storages are as they should be.
    fn all(mut self) -> Result<B256, Error> {
        let tables = self.import.tables;
        let snapshot = self.import.state.database().snapshot();
        let mut part: Vec<(B256, Vec<u8>)> = Vec::new();
        let mut root = EMPTY_ROOT;
        for entry in snapshot.range(tables.accounts, Bound::Unbounded, Bound::Unbounded) {
            let (key, value) = entry?;
            let key = hash_of(&key, "state_accounts")?;
            let stored = decode_account(&key, &value)?;
            let hash = stored.account.code_hash;
            if hash != KECCAK256_EMPTY && snapshot.get(tables.codes, hash)?.is_none() {
                return Err(Error::UnknownCode { hash });
            }
            if stored.storage_root != EMPTY_ROOT {
                self.storage(key, stored.storage_root)?;
            }
            part.push((key, value.to_vec()));
            if part.len() >= STEP {
                root = self.accounts(&std::mem::take(&mut part))?;
            }
        }
        self.storages()?;
        if !part.is_empty() {
            root = self.accounts(&part)?;
        }
        Ok(root)
    }

    fn storage(&mut self, account: B256, root: B256) -> Result<(), Error> {
        let snapshot = self.import.state.database().snapshot();
        let mut leaves = Vec::new();
        for entry in snapshot.prefix(self.import.tables.storage, account.as_slice()) {
            if self.leaves >= STEP {
                self.waiting.push(Storage { account, leaves: std::mem::take(&mut leaves), root: None });
                self.storages()?;
            }
            let (key, value) = entry?;
            leaves.push((hash_of(key.get(32..).unwrap_or_default(), "state_storage")?, value.to_vec()));
            self.leaves += 1;
        }
        if leaves.is_empty() {
            return Err(Error::WrongRoot { expected: root, found: EMPTY_ROOT });
        }
        self.waiting.push(Storage { account, leaves, root: Some(root) });
        Ok(())
    }

    fn storages(&mut self) -> Result<(), Error> {
        self.leaves = 0;
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let view = self.view();
        let mut update = Update::new(&view, Kind::Storage);
        for storage in &waiting {
            update.apply(storage.account, storage.leaves.iter().map(|(key, value)| (*key, &value[..])))?;
        }
        let outcome = update.finish()?;
        for (storage, found) in waiting.iter().zip(&outcome.roots) {
            if let Some(expected) = storage.root.filter(|expected| expected != found) {
                return Err(Error::WrongRoot { expected, found: *found });
            }
        }
        self.write(outcome)
    }

    /// Adds accounts to their trie. Returns its root so far.
    fn accounts(&self, leaves: &[(B256, Vec<u8>)]) -> Result<B256, Error> {
        let view = self.view();
        let mut update = Update::new(&view, Kind::Accounts);
        update.apply(B256::ZERO, leaves.iter().map(|(key, value)| (*key, &value[..])))?;
        let outcome = update.finish()?;
        let root = outcome.roots[0];
        self.write(outcome)?;
        Ok(root)
    }

    fn view(&self) -> View {
        View {
            shared: Arc::clone(&self.shared),
            snapshot: self.import.state.database().snapshot(),
            layers: Vec::new(),
            head: None,
            past: None,
            root: EMPTY_ROOT,
        }
    }

    fn write(&self, outcome: Outcome) -> Result<(), Error> {
        let tables = &self.import.tables;
        let mut batch = Batch::new();
        for node in outcome.nodes {
            let (table, key) = tables.node_key(&node.trie, node.path.as_ref());
            match node.record {
                Some(record) => batch.put(table, key, record),
                None => batch.delete(table, key),
            }
        }
        Ok(self.import.state.database().commit(batch, Durability::Buffered)?)
    }
}
