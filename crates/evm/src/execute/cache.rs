//! What a block has read and written so far, over the state after its parent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use alloy_primitives::map::{AddressMap, B256Map, Entry, U256Map};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use revm::bytecode::Bytecode;
use revm::database_interface::DBErrorMarker;
use revm::state::{AccountInfo, EvmState};
use revm::{Database, DatabaseCommit, DatabaseRef};
use tally_state::{Account, AccountChange, Changes, Found, Read};

use super::{BlockHashes, Storages};

/// Reading the state failed.
#[derive(Debug, thiserror::Error)]
#[error("the state cannot be read")]
pub struct ReadError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

impl DBErrorMarker for ReadError {}

/// Codes that were analysed before, shared between blocks and calls. Safe to share between threads.
#[derive(Debug)]
pub struct Codes {
    kept: Mutex<(B256Map<Bytecode>, usize)>,
    limit: usize,
}

impl Codes {
    /// Keeps up to `limit` bytes of code.
    pub fn new(limit: usize) -> Self {
        Self { kept: Mutex::default(), limit }
    }

    fn get(&self, hash: B256) -> Option<Bytecode> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).0.get(&hash).cloned()
    }

    fn keep(&self, hash: B256, code: &Bytecode) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.1 + code.len() > self.limit {
            // Codes in use come back at once; which others were kept hardly matters.
            kept.0.clear();
            kept.1 = 0;
        }
        if code.len() <= self.limit && kept.0.insert(hash, code.clone()).is_none() {
            kept.1 += code.len();
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    before: U256,
    now: U256,
}

#[derive(Clone, Debug)]
struct Cached {
    before: Option<Account>,
    /// Whether it had storage before the block.
    had_storage: bool,
    now: Option<AccountInfo>,
    /// Whether the slots from before the block are gone.
    cleared: bool,
    slots: U256Map<Slot>,
}

impl Cached {
    fn new(found: Option<Found>) -> Self {
        let before = found.map(|found| found.account);
        Self {
            before,
            had_storage: found.is_some_and(|found| found.has_storage),
            now: before.map(info),
            cleared: false,
            slots: U256Map::default(),
        }
    }

    /// Code at the address alone can set slots to zero one by one, and where there was code a creation collides with
    /// it, or the whole storage went with it. So slots from before the block need not be counted.
    fn has_storage(&self) -> bool {
        (self.had_storage && !self.cleared) || self.slots.values().any(|slot| !slot.now.is_zero())
    }
}

/// The database of `revm` for one block.
pub(crate) struct Cache<'a, R> {
    state: R,
    hashes: &'a BlockHashes<'a>,
    shared: Option<&'a Codes>,
    stop: Option<&'a AtomicBool>,
    /// Hashes of blocks that exist only for a call.
    block_hashes: BTreeMap<u64, B256>,
    accounts: AddressMap<Cached>,
    codes: B256Map<Bytecode>,
    /// New in this block.
    created: B256Map<Bytes>,
}

fn failed<E: std::error::Error + Send + Sync + 'static>(error: E) -> ReadError {
    ReadError(Box::new(error))
}

fn info(account: Account) -> AccountInfo {
    AccountInfo {
        balance: account.balance,
        nonce: account.nonce,
        code_hash: account.code_hash,
        account_id: None,
        code: (!account.has_code()).then(Bytecode::default),
    }
}

fn account(info: &AccountInfo) -> Account {
    Account { nonce: info.nonce, balance: info.balance, code_hash: info.code_hash }
}

impl<'a, R: Read> Cache<'a, R> {
    pub(crate) fn new(state: R, hashes: &'a BlockHashes<'a>, shared: Option<&'a Codes>) -> Self {
        Self {
            state,
            hashes,
            shared,
            stop: None,
            block_hashes: BTreeMap::new(),
            accounts: AddressMap::default(),
            codes: B256Map::default(),
            created: B256Map::default(),
        }
    }

    /// Ends execution soon after the flag is set, where the machine was made to ask for it.
    pub(crate) fn with_stop(mut self, stop: Option<&'a AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Gives blocks other hashes than the chain has.
    pub(crate) fn set_block_hashes(&mut self, hashes: impl IntoIterator<Item = (u64, B256)>) {
        self.block_hashes.extend(hashes);
    }

    /// Makes room for as many accounts.
    pub(crate) fn reserve(&mut self, accounts: usize) {
        self.accounts.reserve(accounts);
    }

    fn hash_of_block(&self, number: u64) -> B256 {
        self.block_hashes.get(&number).copied().unwrap_or_else(|| (self.hashes)(number))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn load(&mut self, address: Address) -> Result<&mut Cached, ReadError> {
        match self.accounts.entry(address) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let found = self.state.find(address).map_err(failed)?;
                Ok(entry.insert(Cached::new(found)))
            }
        }
    }

    /// Adds to a balance; an account that is empty afterwards does not exist when `clear_empty`.
    pub(crate) fn credit(&mut self, address: Address, wei: U256, clear_empty: bool) -> Result<(), ReadError> {
        let cached = self.load(address)?;
        let mut info = cached.now.take().unwrap_or_default();
        info.balance = info.balance.saturating_add(wei);
        if clear_empty && info.is_empty() {
            cached.slots.clear();
            cached.cleared = true;
        } else {
            cached.now = Some(info);
        }
        Ok(())
    }

    /// Sets a nonce to zero, after the largest.
    pub(crate) fn reset_nonce(&mut self, address: Address) -> Result<(), ReadError> {
        if let Some(info) = &mut self.load(address)?.now {
            info.nonce = 0;
        }
        Ok(())
    }

    /// Takes a whole balance.
    pub(crate) fn drain(&mut self, address: Address) -> Result<U256, ReadError> {
        let cached = self.load(address)?;
        Ok(cached.now.as_mut().map_or(U256::ZERO, |info| std::mem::take(&mut info.balance)))
    }

    /// Replaces an account and what is listed of its storage, all of it when `clear`: for overrides of
    /// calls.
    pub(crate) fn replace(
        &mut self,
        address: Address,
        account: AccountInfo,
        clear: bool,
        slots: impl IntoIterator<Item = (U256, U256)>,
    ) -> Result<(), ReadError> {
        if let Some(code) = account.code.clone().filter(|code| !code.is_empty()) {
            self.codes.insert(account.code_hash, code);
        }
        let mut changed = Vec::new();
        for (slot, now) in slots {
            let before = if clear { U256::ZERO } else { self.storage(address, slot)? };
            changed.push((slot, Slot { before, now }));
        }
        let cached = self.load(address)?;
        cached.now = Some(account);
        if clear {
            cached.cleared = true;
            cached.slots.clear();
        }
        cached.slots.extend(changed);
        Ok(())
    }

    /// The account as it is now.
    pub(crate) fn account(&mut self, address: Address) -> Result<Option<Account>, ReadError> {
        Ok(self.load(address)?.now.as_ref().map(account))
    }

    /// What changed since the start of the block.
    pub(crate) fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        changes.accounts.reserve(self.accounts.len());
        for (address, cached) in &self.accounts {
            let now = cached.now.as_ref().map(account);
            // Without an account there is no storage, before or after.
            let storage_cleared = cached.cleared && cached.before.is_some();
            let mut storage = U256Map::default();
            if now.is_some() && !cached.slots.is_empty() {
                let changed = |slot: &Slot| {
                    if cached.cleared { !slot.now.is_zero() } else { slot.now != slot.before }
                };
                storage.reserve(cached.slots.values().filter(|slot| changed(slot)).count());
                let slots = cached.slots.iter().filter(|(_, slot)| changed(slot));
                storage.extend(slots.map(|(key, slot)| (*key, slot.now)));
            }
            if now == cached.before && !storage_cleared && storage.is_empty() {
                continue;
            }
            changes.accounts.insert(*address, AccountChange { account: now, storage_cleared, storage });
        }
        // A code that nobody kept, as after a self-destruction, need not be stored.
        for account in changes.accounts.values().filter_map(|change| change.account) {
            if let Some(code) = self.created.get(&account.code_hash) {
                changes.codes.insert(account.code_hash, code.clone());
            }
        }
        changes
    }
}

impl<R: Read> Storages for Cache<'_, R> {
    fn has_storage(&self, address: Address) -> bool {
        self.accounts.get(&address).is_some_and(Cached::has_storage)
    }
}

impl<R: Read> Database for Cache<'_, R> {
    type Error = ReadError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, ReadError> {
        Ok(self.load(address)?.now.clone())
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, ReadError> {
        if hash == KECCAK256_EMPTY {
            return Ok(Bytecode::default());
        }
        match self.codes.entry(hash) {
            Entry::Occupied(entry) => Ok(entry.get().clone()),
            Entry::Vacant(entry) => {
                if let Some(code) = self.shared.and_then(|shared| shared.get(hash)) {
                    return Ok(entry.insert(code).clone());
                }
                let bytes = self.state.code(hash).map_err(failed)?;
                let code = Bytecode::new_raw_checked(bytes).map_err(failed)?;
                if let Some(shared) = self.shared {
                    shared.keep(hash, &code);
                }
                Ok(entry.insert(code).clone())
            }
        }
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, ReadError> {
        let cached = match self.accounts.get_mut(&address) {
            Some(cached) => cached,
            // Whoever reads a slot has loaded the account; this is for other users of the interface.
            None => {
                let found = self.state.find(address).map_err(failed)?;
                self.accounts.entry(address).or_insert_with(|| Cached::new(found))
            }
        };
        match cached.slots.entry(slot) {
            Entry::Occupied(entry) => Ok(entry.get().now),
            Entry::Vacant(entry) => {
                let value = if cached.cleared || cached.before.is_none() {
                    U256::ZERO
                } else {
                    self.state.storage(address, slot).map_err(failed)?
                };
                entry.insert(Slot { before: value, now: value });
                Ok(value)
            }
        }
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, ReadError> {
        Ok(self.hash_of_block(number))
    }
}

/// What is there now, without remembering what was asked for.
impl<R: Read> DatabaseRef for Cache<'_, R> {
    type Error = ReadError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, ReadError> {
        match self.accounts.get(&address) {
            Some(cached) => Ok(cached.now.clone()),
            None => Ok(self.state.account(address).map_err(failed)?.map(info)),
        }
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, ReadError> {
        if hash == KECCAK256_EMPTY {
            return Ok(Bytecode::default());
        }
        match self.codes.get(&hash) {
            Some(code) => Ok(code.clone()),
            None => Bytecode::new_raw_checked(self.state.code(hash).map_err(failed)?).map_err(failed),
        }
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        let cached = self.accounts.get(&address);
        match cached.and_then(|cached| cached.slots.get(&slot)) {
            Some(slot) => Ok(slot.now),
            None if cached.is_some_and(|cached| cached.cleared || cached.before.is_none()) => Ok(U256::ZERO),
            None => self.state.storage(address, slot).map_err(failed),
        }
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, ReadError> {
        Ok(self.hash_of_block(number))
    }
}

impl<R: Read> DatabaseCommit for Cache<'_, R> {
    fn commit(&mut self, state: EvmState) {
        for (address, account) in state {
            // Whatever was touched was loaded first.
            let Some(cached) = self.accounts.get_mut(&address) else { continue };
            if !account.is_touched() {
                continue;
            }
            // `revm` marks an account that exists though it is empty, before EIP-161, as created.
            if account.is_selfdestructed() || (account.is_empty() && !account.is_created()) {
                cached.now = None;
                cached.cleared = true;
                cached.slots.clear();
                continue;
            }
            if account.is_created() {
                cached.cleared = true;
                cached.slots.clear();
                if let Some(code) = account.info.code.as_ref().filter(|code| !code.is_empty()) {
                    self.created.insert(account.info.code_hash, code.original_bytes());
                    self.codes.insert(account.info.code_hash, code.clone());
                }
            } else if cached.now.as_ref().is_none_or(|now| now.code_hash != account.info.code_hash)
                && let Some(code) = account.info.code.as_ref().filter(|code| !code.is_empty())
            {
                // A delegation (EIP-7702).
                self.created.insert(account.info.code_hash, code.original_bytes());
                self.codes.insert(account.info.code_hash, code.clone());
            }
            for (key, slot) in account.storage {
                if !slot.is_changed() {
                    continue;
                }
                match cached.slots.entry(key) {
                    Entry::Occupied(mut entry) => entry.get_mut().now = slot.present_value,
                    Entry::Vacant(entry) => {
                        entry.insert(Slot { before: U256::ZERO, now: slot.present_value });
                    }
                }
            }
            cached.now = Some(account.info);
        }
    }
}
