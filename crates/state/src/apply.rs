//! From what a block changed to the state after it.

use std::sync::Arc;

use alloy_primitives::map::{B256Map, B256Set};
use alloy_primitives::{B256, Bytes, U256};

use crate::flat::trim;
use crate::layer::{NodePlace, Replaced, StorageLayer};
use crate::record::Record;
use crate::tables::{Tables, decode_slot};
use crate::trie::EMPTY_ROOT;
use crate::trie::hashing::Messages;
use crate::trie::node::Kind;
use crate::trie::path::Path;
use crate::trie::update::{Nodes, Outcome, Update};
use crate::{Account, Changes, Error, Layer, StoredAccount, View};

/// [`Changes`] by the hashes of addresses and slots, in their order.
#[derive(Debug, Default)]
pub(crate) struct HashedChanges {
    pub(crate) accounts: Vec<HashedAccount>,
    pub(crate) codes: B256Map<Bytes>,
}

#[derive(Debug)]
pub(crate) struct HashedAccount {
    pub(crate) key: B256,
    pub(crate) account: Option<Account>,
    pub(crate) storage_cleared: bool,
    pub(crate) slots: Vec<(B256, U256)>,
}

impl HashedChanges {
    pub(crate) fn new(changes: &Changes) -> Self {
        let mut messages = Messages::default();
        for (address, change) in &changes.accounts {
            messages.bytes.extend_from_slice(address.as_slice());
            messages.end();
            for slot in change.storage.keys() {
                messages.bytes.extend_from_slice(&slot.to_be_bytes::<32>());
                messages.end();
            }
        }
        let mut hashes = messages.hash().into_iter();
        let mut accounts: Vec<HashedAccount> = Vec::with_capacity(changes.accounts.len());
        for change in changes.accounts.values() {
            let key = hashes.next().expect("one for each address");
            // An account that does not exist has no slots, whatever is listed.
            let hashed = hashes.by_ref().take(change.storage.len()).zip(change.storage.values().copied());
            let mut slots: Vec<(B256, U256)> = hashed.collect();
            if change.account.is_none() {
                slots.clear();
            }
            slots.sort_unstable_by_key(|(key, _)| *key);
            accounts.push(HashedAccount {
                key,
                account: change.account,
                storage_cleared: change.storage_cleared || change.account.is_none(),
                slots,
            });
        }
        accounts.sort_unstable_by_key(|account| account.key);
        Self { accounts, codes: changes.codes.clone() }
    }
}

impl View {
    /// The state after `changes`, without writing anything. On a state of the past, the blocks since are undone in memory
    /// first, at most [`PROOF_UNDO_LIMIT`](crate::PROOF_UNDO_LIMIT) changed accounts and slots: the root is right, but the layer cannot be committed.
    ///
    /// # Errors
    /// [`Error::TooLongAgo`] if there were more; what reading the state says.
    pub fn apply(&self, changes: &Changes) -> Result<Layer, Error> {
        if let Some(number) = self.past {
            return self.undone_to(number)?.apply(changes);
        }
        self.apply_hashed(HashedChanges::new(changes))
    }

    pub(crate) fn apply_hashed(&self, changes: HashedChanges) -> Result<Layer, Error> {
        let mut layer = Layer { parent_root: self.root, codes: changes.codes, ..Layer::default() };
        let mut befores = Vec::with_capacity(changes.accounts.len());
        let mut cleared = B256Set::default();
        for change in &changes.accounts {
            let before = self.stored_account(&change.key)?;
            if change.storage_cleared && before.is_some_and(|it| it.storage_root != EMPTY_ROOT) {
                self.clear_storage(change.key, &mut layer)?;
                cleared.insert(change.key);
            }
            befores.push(before);
        }
        let nodes = Cleared { view: self, tries: cleared };
        let mut roots = self.update_storage(&changes.accounts, &nodes, &mut layer)?;

        let mut values: Vec<Vec<u8>> = Vec::with_capacity(changes.accounts.len());
        for (change, before) in changes.accounts.iter().zip(&befores) {
            let Some(account) = change.account else {
                values.push(Vec::new());
                continue;
            };
            let unchanged = match before {
                Some(before) if !change.storage_cleared => before.storage_root,
                _ => EMPTY_ROOT,
            };
            let storage_root = roots.remove(&change.key).unwrap_or(unchanged);
            values.push(StoredAccount { account, storage_root }.encode());
        }
        let mut update = Update::new(&nodes, Kind::Accounts);
        let keyed = changes.accounts.iter().zip(&values).map(|(change, value)| (change.key, &value[..]));
        update.apply(B256::ZERO, keyed)?;
        for ((change, value), before) in changes.accounts.iter().zip(&values).zip(befores) {
            let after = StoredAccount::decode(value);
            if before != after {
                layer.accounts.insert(change.key, Replaced { before, after });
            }
        }
        let outcome = update.finish()?;
        layer.root = outcome.roots[0];
        self.take_nodes(outcome, &mut layer);
        Ok(layer)
    }

    /// Updates the storage tries; the new root of each that was looked at.
    fn update_storage(
        &self,
        accounts: &[HashedAccount],
        nodes: &Cleared<'_>,
        layer: &mut Layer,
    ) -> Result<B256Map<B256>, Error> {
        let mut update = Update::new(nodes, Kind::Storage);
        let mut keys = Vec::new();
        let mut values = Vec::new();
        for change in accounts.iter().filter(|change| !change.slots.is_empty()) {
            values.clear();
            values.extend(change.slots.iter().map(|(_, value)| value.to_be_bytes::<32>()));
            let slots = change.slots.iter().zip(&values).map(|((slot, _), value)| (*slot, trim(value)));
            let numbers = update.apply(change.key, slots)?;
            keys.push(change.key);
            let storage = layer.storage.entry(change.key).or_default();
            for ((slot, after), number) in change.slots.iter().zip(numbers) {
                let before = match storage.slots.get(slot) {
                    // The trie begins anew, but this was there before it was cleared.
                    Some(cleared) => cleared.before,
                    None => update
                        .before(number)
                        .map_or(Ok(U256::ZERO), |value| decode_slot(slot.as_slice(), value))?,
                };
                // A slot that was cleared and got its value back stays listed, or `cleared` would hide it.
                if before == *after && !storage.cleared {
                    storage.slots.remove(slot);
                } else {
                    storage.slots.insert(*slot, Replaced { before, after: *after });
                }
            }
        }
        let outcome = update.finish()?;
        let roots = keys.into_iter().zip(outcome.roots.iter().copied()).collect();
        self.take_nodes(outcome, layer);
        Ok(roots)
    }

    fn take_nodes(&self, outcome: Outcome, layer: &mut Layer) {
        layer.nodes.reserve(outcome.nodes.len());
        for node in outcome.nodes {
            if let (Some(hash), Some(record)) = (node.upper, &node.record) {
                self.shared.branches.insert(hash, Arc::clone(record));
            }
            layer.nodes.insert(NodePlace { trie: node.trie, path: node.path }, node.record);
        }
        layer.cost += outcome.cost;
    }

    /// Notes every slot and node of an account's storage as gone.
    fn clear_storage(&self, account: B256, layer: &mut Layer) -> Result<(), Error> {
        let mut slots: B256Map<Replaced<U256>> = B256Map::default();
        let gone = |before| Replaced { before, after: U256::ZERO };
        let tables = &self.shared.tables;
        for entry in self.snapshot.prefix(tables.storage, account.as_slice()) {
            let (key, value) = entry?;
            slots.insert(B256::from_slice(&key[32..]), gone(decode_slot(&key, &value)?));
        }
        for entry in self.snapshot.prefix(tables.storage_nodes, account.as_slice()) {
            let (key, _) = entry?;
            let path = Tables::path_of(&key[32..])
                .ok_or_else(|| Error::Damaged { table: "state_storage_nodes", key: key.clone() })?;
            layer.nodes.insert(NodePlace { trie: account, path }, None);
        }
        for earlier in &self.layers {
            if let Some(storage) = earlier.storage.get(&account) {
                if storage.cleared {
                    slots.clear();
                }
                slots.extend(storage.slots.iter().map(|(slot, value)| (*slot, gone(value.after))));
            }
            let of_account = earlier.nodes.keys().filter(|place| place.trie == account);
            layer.nodes.extend(of_account.map(|place| (*place, None)));
        }
        slots.retain(|_, value| !value.before.is_zero());
        layer.storage.insert(account, StorageLayer { cleared: true, slots });
        Ok(())
    }
}

/// A view in which the storage of some accounts is gone.
struct Cleared<'a> {
    view: &'a View,
    tries: B256Set,
}

impl Nodes for Cleared<'_> {
    type Error = Error;

    fn root_record(&self, trie: &B256) -> Result<Option<Record>, Error> {
        if self.tries.contains(trie) { Ok(None) } else { self.view.root_record(trie) }
    }

    fn branch(&self, trie: &B256, path: &Path, hash: Option<B256>) -> Result<Record, Error> {
        self.view.branch(trie, path, hash)
    }

    fn damaged(&self, trie: &B256, path: Option<&Path>) -> Error {
        self.view.damaged(trie, path)
    }
}
