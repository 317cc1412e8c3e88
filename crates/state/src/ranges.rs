//! A whole state in ranges, each with the nodes at its ends that prove it to be complete.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

use alloy_primitives::map::B256Map;
use alloy_primitives::{B256, Bytes, U256};

use crate::layer::Layer;
use crate::store::Entries;
use crate::tables::{decode_account, decode_slot, slot_key, with_slot};
use crate::trie::node::Kind;
use crate::trie::proof::prove;
use crate::trie::range::verify_range;
use crate::trie::{ProofError, rlp};
use crate::{Error, StoredAccount, View};

/// The highest key there can be.
const LAST: B256 = B256::repeat_byte(0xff);

/// Accounts in order of the hashes of their addresses: all there are from `start` to the last of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRange {
    /// Where the range begins.
    pub start: B256,
    /// Hashes of addresses with their accounts.
    pub accounts: Vec<(B256, StoredAccount)>,
    /// The nodes on the way to `start` and to the last account; none where these are all accounts there are.
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
    /// The nodes on the way to `start` and to the last slot; none where these are all slots there are.
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

/// A state from which ranges are taken: any that is kept, held still for as long as this lives. Making it may
/// take undoing blocks, so it is made once and kept for whoever asks again.
#[derive(Debug)]
pub struct Ranges {
    view: View,
    /// What differs from the tables of the view's snapshot.
    accounts: BTreeMap<B256, Option<StoredAccount>>,
    storage: B256Map<SlotChanges>,
}

#[derive(Debug, Default)]
struct SlotChanges {
    /// Nothing of the snapshot counts.
    cleared: bool,
    /// Zero for what is not there.
    slots: BTreeMap<B256, U256>,
}

impl View {
    /// This state in ranges. Of a state of the past the blocks since are undone in memory first, at most
    /// [`PROOF_UNDO_LIMIT`](crate::PROOF_UNDO_LIMIT) changed accounts and slots.
    ///
    /// # Errors
    /// [`Error::TooLongAgo`] if there were more; what reading the state says.
    pub fn ranges(&self) -> Result<Ranges, Error> {
        let view = match self.past {
            Some(number) => self.undone_to(number)?,
            None => self.clone(),
        };
        let mut ranges = Ranges { accounts: BTreeMap::new(), storage: B256Map::default(), view };
        for layer in ranges.view.layers.clone() {
            ranges.add(&layer);
        }
        Ok(ranges)
    }
}

impl Ranges {
    fn add(&mut self, layer: &Layer) {
        self.accounts.extend(layer.accounts.iter().map(|(key, account)| (*key, account.after)));
        for (account, storage) in &layer.storage {
            let changes = self.storage.entry(*account).or_default();
            if storage.cleared {
                *changes = SlotChanges { cleared: true, slots: BTreeMap::new() };
            }
            changes.slots.extend(storage.slots.iter().map(|(slot, value)| (*slot, value.after)));
        }
    }

    /// The state's root.
    pub fn root(&self) -> B256 {
        self.view.root()
    }

    /// The account at the hash of an address.
    ///
    /// # Errors
    /// What the store says.
    pub fn account(&self, key: &B256) -> Result<Option<StoredAccount>, Error> {
        self.view.stored_account(key)
    }

    /// Accounts from `start` on: up to the first at or behind `end`, at least one if there is any, and no more after
    /// `limit_bytes` of them.
    ///
    /// # Errors
    /// What the store says.
    pub fn account_range(&self, start: B256, end: B256, limit_bytes: usize) -> Result<AccountRange, Error> {
        let table = self.view.shared.tables.accounts;
        let entries = self.view.snapshot.range(table, Bound::Included(start.as_slice()), Bound::Unbounded);
        let stored = entries.map(|entry| {
            let (key, value) = entry?;
            let key = hash_of(&key, "state_accounts")?;
            Ok((key, Some(decode_account(&key, &value)?)))
        });
        let changed = self.accounts.range(start..).map(|(key, account)| (*key, *account));
        let mut accounts = Vec::new();
        let mut size = 0;
        let mut merged = Merged { stored: stored.peekable(), changed: changed.peekable() };
        let mut complete = start.is_zero();
        while let Some((key, account)) = merged.next().transpose()? {
            let Some(account) = account else { continue };
            accounts.push((key, account));
            size += 32 + account.rlp_length();
            if size >= limit_bytes || key >= end {
                complete = false;
                break;
            }
        }
        let last = accounts.last().map(|(key, _)| *key);
        let proof = match complete {
            true => Vec::new(),
            false => self.ends(Kind::Accounts, &B256::ZERO, start, last)?,
        };
        Ok(AccountRange { start, accounts, proof })
    }

    /// Slots from `start` on of the account whose address has the hash `account`: up to the first at or behind `end`, at
    /// least one if there is any, and no more after `limit_bytes` of them.
    ///
    /// # Errors
    /// What the store says.
    pub fn storage_range(
        &self,
        account: B256,
        start: B256,
        end: B256,
        limit_bytes: usize,
    ) -> Result<StorageRange, Error> {
        let none = SlotChanges::default();
        let changes = self.storage.get(&account).unwrap_or(&none);
        let table = self.view.shared.tables.storage;
        let (first, last) = (slot_key(&account, &start), slot_key(&account, &LAST));
        let entries: Option<Entries> = (!changes.cleared)
            .then(|| self.view.snapshot.range(table, Bound::Included(&first), Bound::Included(&last)));
        let stored = entries.into_iter().flatten().map(|entry| {
            let (key, value) = entry?;
            let slot = hash_of(key.get(32..).unwrap_or_default(), "state_storage")?;
            Ok((slot, decode_slot(&key, &value)?))
        });
        let changed = changes.slots.range(start..).map(|(slot, value)| (*slot, *value));
        let mut slots = Vec::new();
        let mut size = 0;
        let mut merged = Merged { stored: stored.peekable(), changed: changed.peekable() };
        let mut complete = start.is_zero();
        while let Some((slot, value)) = merged.next().transpose()? {
            if value.is_zero() {
                continue;
            }
            slots.push((slot, value));
            size += 33 + value.byte_len();
            if size >= limit_bytes || slot >= end {
                complete = false;
                break;
            }
        }
        let last = slots.last().map(|(key, _)| *key);
        let proof = match complete {
            true => Vec::new(),
            false => self.ends(Kind::Storage, &account, start, last)?,
        };
        Ok(StorageRange { account, start, slots, proof })
    }

    fn ends(&self, kind: Kind, trie: &B256, start: B256, last: Option<B256>) -> Result<Vec<Bytes>, Error> {
        let mut proof = prove(&self.view, kind, trie, &start)?;
        if let Some(last) = last.filter(|last| *last != start) {
            let further = prove(&self.view, kind, trie, &last)?;
            let known = proof.len();
            let shared = further.iter().zip(&proof[..known]).take_while(|(a, b)| a == b).count();
            proof.extend_from_slice(&further[shared..]);
        }
        Ok(proof)
    }
}

/// What is stored and what has changed, in one order; what has changed counts.
struct Merged<V, S: Iterator<Item = Result<(B256, V), Error>>, C: Iterator<Item = (B256, V)>> {
    stored: Peekable<S>,
    changed: Peekable<C>,
}

impl<V, S: Iterator<Item = Result<(B256, V), Error>>, C: Iterator<Item = (B256, V)>> Iterator
    for Merged<V, S, C>
{
    type Item = Result<(B256, V), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some((changed, _)) = self.changed.peek() else { return self.stored.next() };
        match self.stored.peek() {
            Some(Ok((stored, _))) if stored < changed => return self.stored.next(),
            Some(Ok((stored, _))) if stored == changed => {
                self.stored.next();
            }
            Some(Err(_)) => return self.stored.next(),
            _ => {}
        }
        self.changed.next().map(Ok)
    }
}

pub(crate) fn hash_of(key: &[u8], table: &'static str) -> Result<B256, Error> {
    B256::try_from(key).map_err(|_| Error::Damaged { table, key: key.to_vec() })
}
