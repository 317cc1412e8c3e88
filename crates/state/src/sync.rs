//! A whole state in ranges, each with the nodes at its ends that prove it to be complete.

use std::ops::Bound;

use alloy_primitives::{B256, Bytes, KECCAK256_EMPTY, U256, keccak256};

use crate::store::{Batch, Durability, Table};
use crate::tables::{decode_account, decode_slot, slot_key, with_slot};
use crate::trie::node::Kind;
use crate::trie::proof::prove;
use crate::trie::range::verify_range;
use crate::trie::update::{Outcome, Update};
use crate::trie::{EMPTY_ROOT, ProofError, rlp};
use crate::{Error, State, StoredAccount, View};

/// Accounts in order of the hashes of their addresses: all there are from `start` to the last of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRange {
    /// Where the range begins.
    pub start: B256,
    /// Hashes of addresses with their accounts.
    pub accounts: Vec<(B256, StoredAccount)>,
    /// The nodes on the way to `start` and to the last account.
    pub proof: Vec<Bytes>,
}

/// Slots of one account in order of their hashes: all there are from `start` to the last of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageRange {
    /// The hash of the account's address.
    pub account: B256,
    /// Where the range begins.
    pub start: B256,
    /// Hashes of slots with their values, none of them zero.
    pub slots: Vec<(B256, U256)>,
    /// The nodes on the way to `start` and to the last slot.
    pub proof: Vec<Bytes>,
}

impl AccountRange {
    /// Checks the range against the state's root. Returns whether there are more accounts behind it.
    ///
    /// # Errors
    /// [`ProofError`]: the range is not what that state has.
    pub fn verify(&self, root: B256) -> Result<bool, ProofError> {
        let entries: Vec<(B256, Vec<u8>)> = self
            .accounts
            .iter()
            .map(|(key, account)| {
                let mut value = Vec::new();
                account.rlp(&mut value);
                (*key, value)
            })
            .collect();
        verify_range(root, self.start, &entries, &self.proof)
    }
}

impl StorageRange {
    /// Checks the range against the root of the account's storage. Returns whether there are more slots
    /// behind it.
    ///
    /// # Errors
    /// [`ProofError`]: the range is not what that storage has.
    pub fn verify(&self, storage_root: B256) -> Result<bool, ProofError> {
        let entries: Vec<(B256, Vec<u8>)> = self
            .slots
            .iter()
            .map(|(key, value)| {
                let mut encoded = Vec::new();
                if !value.is_zero() {
                    with_slot(*value, |value| rlp::string(value, &mut encoded));
                }
                (*key, encoded)
            })
            .collect();
        verify_range(storage_root, self.start, &entries, &self.proof)
    }
}

impl View {
    /// Accounts from `start` on, about `limit_bytes` of them and at least one if there is any.
    ///
    /// # Errors
    /// [`Error::NotCommitted`] unless this is a committed state; what the store says.
    pub fn account_range(&self, start: B256, limit_bytes: usize) -> Result<AccountRange, Error> {
        self.require_committed("a range of accounts")?;
        let tables = &self.shared.tables;
        let mut accounts = Vec::new();
        let mut size = 0;
        let entries =
            self.snapshot.range(tables.accounts, Bound::Included(start.as_slice()), Bound::Unbounded);
        for entry in entries {
            let (key, value) = entry?;
            let key = hash_of(&key, "state_accounts")?;
            accounts.push((key, decode_account(&key, &value)?));
            size += 32 + value.len();
            if size >= limit_bytes {
                break;
            }
        }
        let last = accounts.last().map(|(key, _)| *key);
        let proof = self.ends(Kind::Accounts, &B256::ZERO, start, last)?;
        Ok(AccountRange { start, accounts, proof })
    }

    /// Slots from `start` on of the account whose address has the hash `account`, about `limit_bytes`
    /// of them and at least one if there is any.
    ///
    /// # Errors
    /// [`Error::NotCommitted`] unless this is a committed state; what the store says.
    pub fn storage_range(
        &self,
        account: B256,
        start: B256,
        limit_bytes: usize,
    ) -> Result<StorageRange, Error> {
        self.require_committed("a range of slots")?;
        let mut slots = Vec::new();
        let mut size = 0;
        let (first, end) = (slot_key(&account, &start), slot_key(&account, &B256::repeat_byte(0xff)));
        let table = self.shared.tables.storage;
        let entries = self.snapshot.range(table, Bound::Included(&first), Bound::Included(&end));
        for entry in entries {
            let (key, value) = entry?;
            let slot = hash_of(key.get(32..).unwrap_or_default(), "state_storage")?;
            slots.push((slot, decode_slot(&key, &value)?));
            size += 32 + value.len();
            if size >= limit_bytes {
                break;
            }
        }
        let last = slots.last().map(|(key, _)| *key);
        let proof = self.ends(Kind::Storage, &account, start, last)?;
        Ok(StorageRange { account, start, slots, proof })
    }

    fn ends(&self, kind: Kind, trie: &B256, start: B256, last: Option<B256>) -> Result<Vec<Bytes>, Error> {
        let mut proof = prove(self, kind, trie, &start)?;
        if let Some(last) = last.filter(|last| *last != start) {
            let further = prove(self, kind, trie, &last)?;
            let known = proof.len();
            let shared = further.iter().zip(&proof[..known]).take_while(|(a, b)| a == b).count();
            proof.extend_from_slice(&further[shared..]);
        }
        Ok(proof)
    }
}

fn hash_of(key: &[u8], table: &'static str) -> Result<B256, Error> {
    B256::try_from(key).map_err(|_| Error::Damaged { table, key: key.to_vec() })
}

/// Takes a state in from ranges. Nothing of it can be read before [`finish`](Self::finish), and an
/// import that was interrupted begins anew.
#[derive(Debug)]
pub struct Import {
    state: State,
    root: B256,
}

/// Entries of one batch while an import clears or builds.
const STEP: usize = 20_000;

impl State {
    /// Begins to import the state with this root. What an import before left is removed.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if there is a state already; what the store says.
    pub fn import(&self, root: B256) -> Result<Import, Error> {
        if let Some((number, _)) = self.head()? {
            return Err(Error::NotEmpty { number });
        }
        let tables = self.tables();
        for table in [tables.accounts, tables.storage, tables.account_nodes, tables.storage_nodes] {
            self.clear(table)?;
        }
        Ok(Import { state: self.clone(), root })
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
        let table = self.state.tables().accounts;
        range.accounts.iter().for_each(|(key, account)| batch.put(table, key, account.encode()));
    }

    /// Puts a range that [`verify`](StorageRange::verify) found good into a batch.
    pub fn slots(&self, batch: &mut Batch, range: &StorageRange) {
        let table = self.state.tables().storage;
        for (slot, value) in &range.slots {
            with_slot(*value, |value| batch.put(table, slot_key(&range.account, slot), value));
        }
    }

    /// Puts a code into a batch.
    pub fn code(&self, batch: &mut Batch, code: &Bytes) {
        batch.put(self.state.tables().codes, keccak256(code), code);
    }

    /// Builds the tries, checks every root, and makes the state that of block `number`, durably.
    ///
    /// # Errors
    /// [`Error::WrongRoot`] and [`Error::UnknownCode`] if something is missing or was not what it
    /// should be; what the store says.
    pub fn finish(self, number: u64) -> Result<(), Error> {
        let tables = *self.state.tables();
        let snapshot = self.state.database().snapshot();
        let mut part: Vec<(B256, Vec<u8>)> = Vec::new();
        let mut root = EMPTY_ROOT;
        for entry in snapshot.range(tables.accounts, Bound::Unbounded, Bound::Unbounded) {
            let (key, value) = entry?;
            let key = hash_of(&key, "state_accounts")?;
            let stored = decode_account(&key, &value)?;
            if stored.storage_root != EMPTY_ROOT {
                let found = self.storage(&key)?;
                if found != stored.storage_root {
                    return Err(Error::WrongRoot { expected: stored.storage_root, found });
                }
            }
            let hash = stored.account.code_hash;
            if hash != KECCAK256_EMPTY && snapshot.get(tables.codes, hash)?.is_none() {
                return Err(Error::UnknownCode { hash });
            }
            part.push((key, value.to_vec()));
            if part.len() >= STEP {
                root = self.build(Kind::Accounts, B256::ZERO, &std::mem::take(&mut part))?;
            }
        }
        if !part.is_empty() {
            root = self.build(Kind::Accounts, B256::ZERO, &part)?;
        }
        if root != self.root {
            return Err(Error::WrongRoot { expected: self.root, found: root });
        }
        let mut batch = Batch::new();
        tables.put_head(&mut batch, number, root);
        Ok(self.state.database().commit(batch, Durability::Synced)?)
    }

    fn storage(&self, account: &B256) -> Result<B256, Error> {
        let snapshot = self.state.database().snapshot();
        let mut part = Vec::new();
        let mut root = EMPTY_ROOT;
        for entry in snapshot.prefix(self.state.tables().storage, account.as_slice()) {
            let (key, value) = entry?;
            part.push((hash_of(&key[32..], "state_storage")?, value.to_vec()));
            if part.len() >= STEP {
                root = self.build(Kind::Storage, *account, &std::mem::take(&mut part))?;
            }
        }
        if !part.is_empty() {
            root = self.build(Kind::Storage, *account, &part)?;
        }
        Ok(root)
    }

    /// Adds leaves to a trie and writes its nodes. Returns its root so far.
    fn build(&self, kind: Kind, trie: B256, leaves: &[(B256, Vec<u8>)]) -> Result<B256, Error> {
        let view = self.state.view()?;
        let mut update = Update::new(&view, kind);
        update.apply(trie, leaves.iter().map(|(key, value)| (*key, &value[..])))?;
        let Outcome { roots, nodes, .. } = update.finish()?;
        let mut batch = Batch::new();
        for node in nodes {
            let (table, key) = self.state.tables().node_key(&node.trie, node.path.as_ref());
            match node.record {
                Some(record) => batch.put(table, key, record),
                None => batch.delete(table, key),
            }
        }
        self.state.database().commit(batch, Durability::Buffered)?;
        Ok(roots[0])
    }
}
