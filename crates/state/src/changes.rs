//! What a block did to the state: accounts, slots and codes, each with its value afterwards.

use alloy_primitives::map::{AddressMap, B256Map, Entry, U256Map};
use alloy_primitives::{B256, Bytes, KECCAK256_EMPTY, U256};

/// An account without its storage, as transactions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// Transactions sent, or contracts created, by this account.
    pub nonce: u64,
    /// In wei.
    pub balance: U256,
    /// keccak-256 of the code; [`KECCAK256_EMPTY`] when the account has none.
    pub code_hash: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, code_hash: KECCAK256_EMPTY }
    }
}

impl Account {
    /// Whether the account has code.
    pub fn has_code(&self) -> bool {
        self.code_hash != KECCAK256_EMPTY
    }

    /// Whether the account counts as absent since EIP-161: no nonce, no balance, no code.
    pub fn is_empty(&self) -> bool {
        self.nonce == 0 && self.balance.is_zero() && !self.has_code()
    }
}

/// One account after a block, and what happened to its storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// The account afterwards; `None` when it does not exist any more. An account that is present and
    /// empty is written as such: who deletes empty accounts (EIP-161) says so here.
    pub account: Option<Account>,
    /// Every slot from before the block is gone, then `storage` applies. Without an account the
    /// storage goes in any case.
    pub storage_cleared: bool,
    /// Slot to its value afterwards; zero deletes. Slots that kept their value may be listed.
    pub storage: U256Map<U256>,
}

/// What one block, or several in order, changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Each account that was written. Unchanged ones may be listed.
    pub accounts: AddressMap<AccountChange>,
    /// New codes by their keccak-256.
    pub codes: B256Map<Bytes>,
}

impl Changes {
    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.codes.is_empty()
    }

    /// Adds what happened `later`, as if both had been one block.
    pub fn extend(&mut self, later: Self) {
        self.codes.extend(later.codes);
        for (address, change) in later.accounts {
            match self.accounts.entry(address) {
                Entry::Vacant(entry) => {
                    entry.insert(change);
                }
                Entry::Occupied(mut entry) => {
                    let earlier = entry.get_mut();
                    // An account that was gone in between took its slots with it.
                    if change.storage_cleared || change.account.is_none() || earlier.account.is_none() {
                        earlier.storage_cleared = true;
                        earlier.storage = change.storage;
                    } else {
                        earlier.storage.extend(change.storage);
                    }
                    earlier.account = change.account;
                }
            }
        }
    }
}
