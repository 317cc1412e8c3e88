//! What each block changed: for states of the past, for undoing blocks, and for forgetting them.

use alloy_primitives::{B256, U256};

use crate::apply::{HashedAccount, HashedChanges};
use crate::layer::Replaced;
use crate::store::{Batch, Snapshot};
use crate::tables::{Tables, dated, decode_slot, slot_key, with_slot};
use crate::{Error, Layer, StoredAccount};

/// The keys that one block changed, and the root before it.
///
/// ```text
/// root before 32 | accounts u32 | hashes of addresses
/// then for each account with changed slots: hash of the address | count u32 | hashes of slots
/// ```
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChangedKeys {
    pub(crate) root_before: B256,
    pub(crate) accounts: Vec<B256>,
    pub(crate) storage: Vec<(B256, Vec<B256>)>,
}

impl ChangedKeys {
    pub(crate) fn of(layer: &Layer) -> Self {
        let mut accounts: Vec<B256> = layer.accounts.keys().copied().collect();
        accounts.sort_unstable();
        let mut storage: Vec<(B256, Vec<B256>)> = layer
            .storage
            .iter()
            .map(|(account, storage)| {
                let differs = |(_, value): &(&B256, &Replaced<U256>)| value.before != value.after;
                let mut slots: Vec<B256> =
                    storage.slots.iter().filter(differs).map(|(slot, _)| *slot).collect();
                slots.sort_unstable();
                (*account, slots)
            })
            .filter(|(_, slots)| !slots.is_empty())
            .collect();
        storage.sort_unstable();
        Self { root_before: layer.parent_root, accounts, storage }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(self.root_before.as_slice());
        let count = |out: &mut Vec<u8>, count: usize| out.extend_from_slice(&(count as u32).to_be_bytes());
        count(&mut out, self.accounts.len());
        self.accounts.iter().for_each(|account| out.extend_from_slice(account.as_slice()));
        for (account, slots) in &self.storage {
            out.extend_from_slice(account.as_slice());
            count(&mut out, slots.len());
            slots.iter().for_each(|slot| out.extend_from_slice(slot.as_slice()));
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let root_before = take_hash(rest)?;
        let accounts = take_hashes(rest)?;
        let mut storage = Vec::new();
        while !rest.is_empty() {
            storage.push((take_hash(rest)?, take_hashes(rest)?));
        }
        Some(Self { root_before, accounts, storage })
    }

    pub(crate) fn len(&self) -> usize {
        self.accounts.len() + self.storage.iter().map(|(_, slots)| slots.len()).sum::<usize>()
    }
}

fn take_hash(rest: &mut &[u8]) -> Option<B256> {
    let (hash, after) = rest.split_at_checked(32)?;
    *rest = after;
    Some(B256::from_slice(hash))
}

fn take_hashes(rest: &mut &[u8]) -> Option<Vec<B256>> {
    let (count, after) = rest.split_at_checked(4)?;
    let count = u32::from_be_bytes(count.try_into().ok()?) as usize;
    let (hashes, after) = after.split_at_checked(count.checked_mul(32)?)?;
    *rest = after;
    Some(hashes.chunks_exact(32).map(B256::from_slice).collect())
}

impl Tables {
    /// Notes what `layer`, as block `number`, replaced.
    pub(crate) fn put_history(&self, batch: &mut Batch, number: u64, layer: &Layer) {
        let keys = ChangedKeys::of(layer);
        for key in &keys.accounts {
            let before = layer.accounts[key].before.map_or_else(Vec::new, |account| account.encode());
            batch.put(self.account_history, dated(key.as_slice(), number), before);
        }
        for (account, slots) in &keys.storage {
            let storage = &layer.storage[account].slots;
            for slot in slots {
                let key = dated(&slot_key(account, slot), number);
                with_slot(storage[slot].before, |value| batch.put(self.storage_history, key, value));
            }
        }
        batch.put(self.changed, number.to_be_bytes(), keys.encode());
    }

    /// What block `number` changed, if it is kept.
    pub(crate) fn changed_keys(
        &self,
        snapshot: &Snapshot,
        number: u64,
    ) -> Result<Option<ChangedKeys>, Error> {
        let key = number.to_be_bytes();
        match snapshot.get(self.changed, key)? {
            Some(value) => ChangedKeys::decode(&value)
                .map(Some)
                .ok_or_else(|| Error::Damaged { table: "state_changed", key: key.to_vec() }),
            None => Ok(None),
        }
    }

    /// The first block whose changes are kept.
    pub(crate) fn first_changed(&self, snapshot: &Snapshot) -> Result<Option<u64>, Error> {
        let Some((key, _)) = snapshot.first(self.changed)? else { return Ok(None) };
        let number =
            <[u8; 8]>::try_from(&key[..]).map_err(|_| Error::Damaged { table: "state_changed", key })?;
        Ok(Some(u64::from_be_bytes(number)))
    }

    /// Forgets what block `number` changed.
    pub(crate) fn forget(&self, batch: &mut Batch, number: u64, keys: &ChangedKeys) {
        for key in &keys.accounts {
            batch.delete(self.account_history, dated(key.as_slice(), number));
        }
        for (account, slots) in &keys.storage {
            for slot in slots {
                batch.delete(self.storage_history, dated(&slot_key(account, slot), number));
            }
        }
        batch.delete(self.changed, number.to_be_bytes());
    }

    /// The changes that lead from the newest state, after `head`, back to the one after `number`; at
    /// most `limit` keys, else the number of the first block that is not undone.
    pub(crate) fn reversed(
        &self,
        snapshot: &Snapshot,
        head: u64,
        number: u64,
        limit: usize,
    ) -> Result<Result<HashedChanges, u64>, Error> {
        use alloy_primitives::map::B256Map;
        let mut accounts: B256Map<Option<StoredAccount>> = B256Map::default();
        let mut storage: B256Map<B256Map<U256>> = B256Map::default();
        let mut taken = 0;
        // From the newest block back: what the oldest of them replaced is written last and stays.
        for block in (number + 1..=head).rev() {
            let Some(keys) = self.changed_keys(snapshot, block)? else {
                return Err(self.not_kept(snapshot, number, head)?);
            };
            taken += keys.len();
            if taken > limit {
                return Ok(Err(block));
            }
            for key in keys.accounts {
                let place = dated(key.as_slice(), block);
                let value = snapshot.get(self.account_history, &place)?;
                let damaged = || Error::Damaged { table: "state_account_history", key: place.clone() };
                let value = value.ok_or_else(damaged)?;
                let before = match value.is_empty() {
                    true => None,
                    false => Some(StoredAccount::decode(&value).ok_or_else(damaged)?),
                };
                accounts.insert(key, before);
            }
            for (account, slots) in keys.storage {
                let values = storage.entry(account).or_default();
                for slot in slots {
                    let place = dated(&slot_key(&account, &slot), block);
                    let value = snapshot.get(self.storage_history, &place)?;
                    let damaged = || Error::Damaged { table: "state_storage_history", key: place.clone() };
                    values.insert(slot, decode_slot(&place, &value.ok_or_else(damaged)?)?);
                }
            }
        }
        let mut changes = HashedChanges::default();
        for (key, before) in accounts {
            let mut slots: Vec<(B256, U256)> = storage.remove(&key).unwrap_or_default().into_iter().collect();
            slots.sort_unstable_by_key(|(slot, _)| *slot);
            changes.accounts.push(HashedAccount {
                key,
                account: before.map(|stored| stored.account),
                storage_cleared: before.is_none(),
                slots: if before.is_some() { slots } else { Vec::new() },
            });
        }
        // A slot changes its account's storage root, so its account has changed as well.
        debug_assert!(storage.is_empty());
        changes.accounts.sort_unstable_by_key(|account| account.key);
        Ok(Ok(changes))
    }

    pub(crate) fn not_kept(&self, snapshot: &Snapshot, number: u64, head: u64) -> Result<Error, Error> {
        let oldest = self.first_changed(snapshot)?.map_or(head, |first| first.saturating_sub(1));
        Ok(Error::NotKept { number, oldest, newest: head })
    }
}
