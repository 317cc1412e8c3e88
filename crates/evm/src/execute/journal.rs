//! The journal of `revm`, with one rule more: no contract is created where there is storage (EIP-7610).

use alloy_primitives::map::{AddressMap, AddressSet, HashSet};
use alloy_primitives::{Address, B256, Log, U256};
use revm::Database;
use revm::bytecode::Bytecode;
use revm::context::JournalEntry;
use revm::context::journaled_state::account::JournaledAccount;
use revm::context::journaled_state::{
    AccountInfoLoad, AccountLoad, JournalCheckpoint, JournalLoadError, JournalTr, TransferError,
};
use revm::context_interface::context::{SStoreResult, SelfDestructResult, StateLoad};
use revm::inspector::JournalExt;
use revm::primitives::hardfork::SpecId;
use revm::state::{Account, EvmState};

/// A database that knows which accounts have storage.
pub(crate) trait Storages: Database {
    /// Whether an account that was read has slots that are not zero, after the transactions that were committed.
    fn has_storage(&self, address: Address) -> bool;
}

impl<D: Storages> Storages for &mut D {
    fn has_storage(&self, address: Address) -> bool {
        (**self).has_storage(address)
    }
}

/// What a transaction has read and written so far.
///
/// Everything goes to the journal of `revm`, which itself looks only for a nonce and for code where a contract is to
/// be created. A creation where it finds neither, but storage, ends here as it ends there: the address is warm,
/// nothing else has changed, and the gas that was meant for the creation is lost. EIP-7610 holds from the first
/// block on, so it is asked for in every fork.
#[derive(Debug)]
pub(crate) struct Journal<D>(revm::context::Journal<D>);

impl<D: Storages> Journal<D> {
    pub(crate) fn database(&self) -> &D {
        &self.0.database
    }

    pub(crate) fn database_mut(&mut self) -> &mut D {
        &mut self.0.database
    }

    pub(crate) fn into_database(self) -> D {
        self.0.database
    }

    fn has_storage(&self, address: Address) -> bool {
        let Some(account) = self.0.state.get(&address) else { return false };
        // The slots of an account that was created in this transaction are all here.
        account.storage.values().any(|slot| !slot.present_value.is_zero())
            || (!account.is_created() && self.0.database.has_storage(address))
    }
}

type Load<T, D> = Result<StateLoad<T>, <D as Database>::Error>;
type LoadWarm<T, D> = Result<StateLoad<T>, JournalLoadError<<D as Database>::Error>>;

impl<D: Storages> JournalTr for Journal<D> {
    type Database = D;
    type State = EvmState;
    type JournaledAccount<'a>
        = JournaledAccount<'a, D, JournalEntry>
    where
        Self: 'a;

    fn create_account_checkpoint(
        &mut self,
        caller: Address,
        address: Address,
        balance: U256,
        spec_id: SpecId,
    ) -> Result<JournalCheckpoint, TransferError> {
        if self.has_storage(address) {
            return Err(TransferError::CreateCollision);
        }
        self.0.create_account_checkpoint(caller, address, balance, spec_id)
    }

    fn new(database: D) -> Self {
        Self(revm::context::Journal::new(database))
    }

    fn db_and_state(&self) -> (&D, &EvmState) {
        self.0.db_and_state()
    }

    fn db_and_state_mut(&mut self) -> (&mut D, &mut EvmState) {
        self.0.db_and_state_mut()
    }

    fn sload(&mut self, address: Address, key: U256) -> Load<U256, D> {
        self.0.sload(address, key)
    }

    fn sload_skip_cold_load(&mut self, address: Address, key: U256, skip: bool) -> LoadWarm<U256, D> {
        self.0.sload_skip_cold_load(address, key, skip)
    }

    fn sstore(&mut self, address: Address, key: U256, value: U256) -> Load<SStoreResult, D> {
        self.0.sstore(address, key, value)
    }

    fn sstore_skip_cold_load(
        &mut self,
        address: Address,
        key: U256,
        value: U256,
        skip: bool,
    ) -> LoadWarm<SStoreResult, D> {
        self.0.sstore_skip_cold_load(address, key, value, skip)
    }

    fn tload(&mut self, address: Address, key: U256) -> U256 {
        self.0.tload(address, key)
    }

    fn tstore(&mut self, address: Address, key: U256, value: U256) {
        self.0.tstore(address, key, value);
    }

    fn log(&mut self, log: Log) {
        self.0.log(log);
    }

    fn take_logs(&mut self) -> Vec<Log> {
        self.0.take_logs()
    }

    fn logs(&self) -> &[Log] {
        self.0.logs()
    }

    fn selfdestruct(
        &mut self,
        address: Address,
        target: Address,
        skip: bool,
    ) -> LoadWarm<SelfDestructResult, D> {
        self.0.selfdestruct(address, target, skip)
    }

    fn warm_access_list(&mut self, access_list: AddressMap<HashSet<U256>>) {
        self.0.warm_access_list(access_list);
    }

    fn warm_coinbase_account(&mut self, address: Address) {
        self.0.warm_coinbase_account(address);
    }

    fn warm_precompiles(&mut self, addresses: &AddressSet) {
        self.0.warm_precompiles(addresses);
    }

    fn precompile_addresses(&self) -> &AddressSet {
        self.0.precompile_addresses()
    }

    fn set_spec_id(&mut self, spec_id: SpecId) {
        self.0.set_spec_id(spec_id);
    }

    fn set_eip7708_config(&mut self, disabled: bool, delayed_clear_disabled: bool) {
        self.0.set_eip7708_config(disabled, delayed_clear_disabled);
    }

    fn touch_account(&mut self, address: Address) {
        self.0.touch_account(address);
    }

    fn transfer(
        &mut self,
        from: Address,
        to: Address,
        balance: U256,
    ) -> Result<Option<TransferError>, D::Error> {
        self.0.transfer(from, to, balance)
    }

    fn transfer_loaded(&mut self, from: Address, to: Address, balance: U256) -> Option<TransferError> {
        self.0.transfer_loaded(from, to, balance)
    }

    #[expect(deprecated, reason = "the trait has it")]
    fn caller_accounting_journal_entry(&mut self, address: Address, old_balance: U256, bump_nonce: bool) {
        self.0.caller_accounting_journal_entry(address, old_balance, bump_nonce);
    }

    fn balance_incr(&mut self, address: Address, balance: U256) -> Result<(), D::Error> {
        self.0.balance_incr(address, balance)
    }

    #[expect(deprecated, reason = "the trait has it")]
    fn nonce_bump_journal_entry(&mut self, address: Address) {
        self.0.nonce_bump_journal_entry(address);
    }

    fn load_account(&mut self, address: Address) -> Load<&Account, D> {
        self.0.load_account(address)
    }

    fn load_account_with_code(&mut self, address: Address) -> Load<&Account, D> {
        self.0.load_account_with_code(address)
    }

    fn load_account_delegated(&mut self, address: Address) -> Load<AccountLoad, D> {
        self.0.load_account_delegated(address)
    }

    fn load_account_mut_skip_cold_load(
        &mut self,
        address: Address,
        skip: bool,
    ) -> LoadWarm<Self::JournaledAccount<'_>, D> {
        self.0.load_account_mut_skip_cold_load(address, skip)
    }

    fn load_account_mut_optional_code(
        &mut self,
        address: Address,
        load_code: bool,
    ) -> Load<Self::JournaledAccount<'_>, D> {
        self.0.load_account_mut_optional_code(address, load_code)
    }

    fn load_account_info_skip_cold_load(
        &mut self,
        address: Address,
        load_code: bool,
        skip: bool,
    ) -> Result<AccountInfoLoad<'_>, JournalLoadError<D::Error>> {
        self.0.load_account_info_skip_cold_load(address, load_code, skip)
    }

    fn set_code_with_hash(&mut self, address: Address, code: Bytecode, hash: B256) {
        self.0.set_code_with_hash(address, code, hash);
    }

    fn checkpoint(&mut self) -> JournalCheckpoint {
        self.0.checkpoint()
    }

    fn checkpoint_commit(&mut self) {
        self.0.checkpoint_commit();
    }

    fn checkpoint_revert(&mut self, checkpoint: JournalCheckpoint) {
        self.0.checkpoint_revert(checkpoint);
    }

    fn depth(&self) -> usize {
        self.0.depth()
    }

    fn commit_tx(&mut self) {
        self.0.commit_tx();
    }

    fn discard_tx(&mut self) {
        self.0.discard_tx();
    }

    fn finalize(&mut self) -> EvmState {
        self.0.finalize()
    }
}

impl<D: Storages> JournalExt for Journal<D> {
    fn journal(&self) -> &[JournalEntry] {
        self.0.journal()
    }
}
