//! A state in memory whose root is computed from scratch: simple enough to compare others with.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::map::{AddressMap, B256Map};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_trie::TrieAccount;
use alloy_trie::root::{state_root_unhashed, storage_root_unhashed};
use tally_state::{Account, Changes, Found, Read};

use crate::genesis::Allocation;

/// A code that no account has.
#[derive(Debug, thiserror::Error)]
#[error("no code has the hash {0}")]
pub struct UnknownCode(pub B256);

/// Accounts, their storage and codes in maps. A clone shares what neither changes.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    accounts: AddressMap<(Account, Arc<BTreeMap<U256, U256>>)>,
    codes: B256Map<Bytes>,
}

impl Memory {
    /// The accounts of a genesis file.
    pub fn of(alloc: &BTreeMap<Address, Allocation>) -> Self {
        let mut memory = Self::default();
        for (address, allocation) in alloc {
            let mut account =
                Account { nonce: allocation.nonce, balance: allocation.balance, ..Account::default() };
            if !allocation.code.is_empty() {
                account.code_hash = keccak256(&allocation.code);
                memory.codes.insert(account.code_hash, allocation.code.clone());
            }
            memory.accounts.insert(*address, (account, Arc::new(allocation.storage.clone())));
        }
        memory
    }

    /// Makes the changes of a block.
    pub fn apply(&mut self, changes: &Changes) {
        for (hash, code) in &changes.codes {
            self.codes.insert(*hash, code.clone());
        }
        for (address, change) in &changes.accounts {
            let Some(account) = change.account else {
                self.accounts.remove(address);
                continue;
            };
            let entry = self.accounts.entry(*address).or_default();
            entry.0 = account;
            if !change.storage_cleared && change.storage.is_empty() {
                continue;
            }
            let slots = Arc::make_mut(&mut entry.1);
            if change.storage_cleared {
                slots.clear();
            }
            for (slot, value) in &change.storage {
                if value.is_zero() {
                    slots.remove(slot);
                } else {
                    slots.insert(*slot, *value);
                }
            }
        }
    }

    /// The state root.
    pub fn root(&self) -> B256 {
        state_root_unhashed(self.accounts.iter().map(|(address, (account, slots))| {
            let storage_root =
                storage_root_unhashed(slots.iter().map(|(slot, value)| (B256::from(*slot), *value)));
            let account = TrieAccount {
                nonce: account.nonce,
                balance: account.balance,
                storage_root,
                code_hash: account.code_hash,
            };
            (*address, account)
        }))
    }
}

impl Read for Memory {
    type Error = UnknownCode;

    fn find(&self, address: Address) -> Result<Option<Found>, UnknownCode> {
        let found = self.accounts.get(&address);
        Ok(found.map(|(account, slots)| Found { account: *account, has_storage: !slots.is_empty() }))
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, UnknownCode> {
        Ok(self.accounts.get(&address).and_then(|(_, slots)| slots.get(&slot)).copied().unwrap_or_default())
    }

    fn code(&self, hash: B256) -> Result<Bytes, UnknownCode> {
        if hash == alloy_primitives::KECCAK256_EMPTY {
            return Ok(Bytes::new());
        }
        self.codes.get(&hash).cloned().ok_or(UnknownCode(hash))
    }
}
