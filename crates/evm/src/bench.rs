//! How fast blocks are executed, beside `revm` alone on the same transactions.

mod workloads;

use std::fmt;
use std::time::Duration;

use alloy_consensus::{Signed, TxEip1559};
use alloy_primitives::map::AddressMap;
use alloy_primitives::{Address, B256, Bytes, Signature, U256, keccak256};
use revm::bytecode::Bytecode;
use revm::database::states::bundle_state::BundleRetention;
use revm::database::{CacheDB, State};
use revm::state::AccountInfo;
use revm::{Context, Database, DatabaseCommit, DatabaseRef, ExecuteCommitEvm, MainBuilder, MainContext};
use tally_state::{Account, AccountChange, Changes, Read};

pub use workloads::{Workload, workloads};

use crate::block::BlockError;
use crate::execute::{Contents, Env, ReadError, execute, transaction_env};
use crate::schedule::Schedule;
use crate::tool::Memory;
use crate::transaction::{Recovered, Transaction};

/// Where the code of a workload is.
const CONTRACT: Address = Address::repeat_byte(0xc0);
const BASE_FEE: u64 = 7;

/// What was measured of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The workload.
    pub name: &'static str,
    /// Gas that all its transactions used, in all rounds.
    pub gas: u64,
    /// How many there were.
    pub transactions: usize,
    /// The time that this crate's executor took for them: checks, execution, receipts and changes.
    pub own: Duration,
    /// The time that `revm` took to the same end with its own means: its `State` over the same state, and
    /// the bundle of the block's changes out of it. It makes no receipts.
    pub bundled: Duration,
    /// The time that `revm` took with nothing but a cache over the same state: no changes come out.
    pub bare: Duration,
}

impl Figure {
    /// Gas per second of this crate's executor.
    pub fn own_gas_per_second(&self) -> u64 {
        per_second(self.gas, self.own)
    }

    /// Gas per second of `revm` alone.
    pub fn bare_gas_per_second(&self) -> u64 {
        per_second(self.gas, self.bare)
    }

    /// Gas per second of `revm` with the changes of the block.
    pub fn bundled_gas_per_second(&self) -> u64 {
        per_second(self.gas, self.bundled)
    }

    /// Gas per second of this crate's executor, in thousandths of another figure.
    pub fn per_mille_of(&self, other: u64) -> u64 {
        let scaled = u128::from(self.own_gas_per_second()) * 1000 / u128::from(other.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

fn per_second(count: u64, time: Duration) -> u64 {
    let scaled = u128::from(count) * 1_000_000_000 / time.as_nanos().max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl fmt::Display for Figure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let million = |gas: u64| gas / 1_000_000;
        let share = |other| {
            let share = self.per_mille_of(other);
            format!("{:>4}.{} %", share / 10, share % 10)
        };
        let (bundled, bare) = (self.bundled_gas_per_second(), self.bare_gas_per_second());
        write!(
            formatter,
            "{:<16}{:>7} Mgas/s   revm to changes{:>7} Mgas/s {}   revm to nothing{:>7} Mgas/s {}",
            self.name,
            million(self.own_gas_per_second()),
            million(bundled),
            share(bundled),
            million(bare),
            share(bare),
        )
    }
}

/// Measures a workload, `rounds` times each way in turn. `clock` says how much time has passed since
/// some moment; the processor's time is better than the wall's on a machine that does other things too.
///
/// # Errors
/// The workload cannot be executed, which would be a fault in it.
pub fn measure(
    workload: &Workload,
    rounds: usize,
    clock: &dyn Fn() -> Duration,
) -> Result<Figure, BlockError> {
    let schedule = Schedule::named("Cancun").map_err(|error| BlockError::State(Box::new(error)))?;
    let state = state(workload);
    let transactions: Vec<Recovered> = transactions(workload);
    let env = Env {
        number: 1,
        timestamp: 1,
        beneficiary: Address::repeat_byte(0xfe),
        gas_limit: u64::MAX,
        base_fee: BASE_FEE,
        excess_blob_gas: Some(0),
        ..Env::default()
    };
    let mut figure = Figure {
        name: workload.name,
        gas: 0,
        transactions: 0,
        own: Duration::ZERO,
        bundled: Duration::ZERO,
        bare: Duration::ZERO,
    };
    for _ in 0..rounds.max(1) {
        let (gas, time) = own(&schedule, &env, &state, &transactions, clock)?;
        figure.gas = figure.gas.saturating_add(gas);
        figure.transactions += transactions.len();
        figure.own += time;
        let stored = || Stored { state: &state, hashes: &|_| Default::default() };
        let database = State::builder().with_database_ref(stored()).with_bundle_update().build();
        let (bundled_gas, time) = alone(&schedule, &env, database, &transactions, clock, |database| {
            database.merge_transitions(BundleRetention::PlainState);
            database.take_bundle();
        })?;
        figure.bundled += time;
        let (bare_gas, time) = alone(&schedule, &env, CacheDB::new(stored()), &transactions, clock, |_| {})?;
        figure.bare += time;
        if gas != bare_gas || gas != bundled_gas {
            let (expected, found) = (bare_gas.to_string(), gas.to_string());
            return Err(BlockError::Outcome { field: "gasUsed", expected, found });
        }
    }
    Ok(figure)
}

fn own(
    schedule: &Schedule,
    env: &Env,
    state: &Memory,
    transactions: &[Recovered],
    clock: &dyn Fn() -> Duration,
) -> Result<(u64, Duration), BlockError> {
    let contents = Contents { transactions, ..Contents::default() };
    let hashes = |_| Default::default();
    let begin = clock();
    let executed = execute(schedule, env, contents, state, &hashes, None, None)?;
    let time = clock().saturating_sub(begin);
    Ok((executed.gas_used, time))
}

/// The transactions with `revm` and nothing of this crate.
fn alone<D: Database + DatabaseCommit>(
    schedule: &Schedule,
    env: &Env,
    database: D,
    transactions: &[Recovered],
    clock: &dyn Fn() -> Duration,
    finish: impl FnOnce(&mut D),
) -> Result<(u64, Duration), BlockError> {
    let rules = schedule.rules(env.number, env.timestamp, true);
    let mut machine = Context::mainnet()
        .with_db(database)
        .with_cfg(rules.configuration())
        .with_block(env.block(&rules))
        .build_mainnet();
    let environments: Vec<_> = transactions.iter().map(transaction_env).collect();
    let mut gas: u64 = 0;
    let begin = clock();
    for environment in environments {
        let result = machine.transact_commit(environment).map_err(|error| BlockError::Execution {
            index: 0,
            problem: error.to_string(),
            test_name: "",
        })?;
        gas = gas.saturating_add(result.tx_gas_used());
    }
    finish(&mut machine.ctx.journaled_state.database);
    Ok((gas, clock().saturating_sub(begin)))
}

/// The state that both read from, as `revm` reads it.
struct Stored<'a> {
    state: &'a Memory,
    hashes: &'a dyn Fn(u64) -> B256,
}

impl DatabaseRef for Stored<'_> {
    type Error = ReadError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, ReadError> {
        let account = self.state.account(address).map_err(|error| ReadError(Box::new(error)))?;
        Ok(account.map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            account_id: None,
            code: None,
        }))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, ReadError> {
        Ok(Bytecode::new_raw(self.state.code(hash).map_err(|error| ReadError(Box::new(error)))?))
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        self.state.storage(address, slot).map_err(|error| ReadError(Box::new(error)))
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, ReadError> {
        Ok((self.hashes)(number))
    }
}

/// Each account's balance and code.
fn accounts(workload: &Workload) -> AddressMap<(U256, Bytes)> {
    let rich = U256::from(u128::MAX);
    let mut accounts: AddressMap<_> =
        workload.calls.iter().map(|(sender, _)| (*sender, (rich, Bytes::new()))).collect();
    accounts.insert(CONTRACT, (U256::ZERO, workload.code.clone()));
    accounts
}

fn state(workload: &Workload) -> Memory {
    let mut changes = Changes::default();
    for (address, (balance, code)) in accounts(workload) {
        let mut account = Account { balance, ..Account::default() };
        if !code.is_empty() {
            account.code_hash = keccak256(&code);
            changes.codes.insert(account.code_hash, code);
        }
        changes
            .accounts
            .insert(address, AccountChange { account: Some(account), ..AccountChange::default() });
    }
    if let Some(contract) = changes.accounts.get_mut(&CONTRACT) {
        contract.storage.extend(workload.storage.iter().copied());
    }
    let mut state = Memory::default();
    state.apply(&changes);
    state
}

fn transactions(workload: &Workload) -> Vec<Recovered> {
    let mut nonces: AddressMap<u64> = AddressMap::default();
    let signature = Signature::new(U256::ONE, U256::ONE, false);
    let calls = workload.calls.iter().map(|(sender, input)| {
        let nonce = nonces.entry(*sender).or_default();
        let transaction = TxEip1559 {
            chain_id: 1,
            nonce: *nonce,
            gas_limit: workload.gas_limit,
            max_fee_per_gas: u128::from(BASE_FEE) + 3,
            max_priority_fee_per_gas: 1,
            to: CONTRACT.into(),
            input: input.clone(),
            ..TxEip1559::default()
        };
        *nonce += 1;
        Recovered::new_unchecked(Transaction::from(Signed::new_unhashed(transaction, signature)), *sender)
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_does_what_it_is_made_for() {
        for workload in workloads() {
            let figure = {
                let few = Workload { calls: workload.calls[..2].to_vec(), ..workload.clone() };
                measure(&few, 1, &|| Duration::ZERO).unwrap()
            };
            // Far from breaking off at once, and from running out of gas.
            let least = if workload.gas_limit > 1_000_000 { 2_000_000 } else { 60_000 };
            assert!(figure.gas > least, "{}: {}", workload.name, figure.gas);
            assert!(figure.gas < workload.gas_limit * 2 * 9 / 10, "{}: {}", workload.name, figure.gas);
        }
    }

    #[test]
    fn a_figure_has_its_share() {
        let second = Duration::from_secs(1);
        let figure = Figure {
            name: "x",
            gas: 950_000_000,
            transactions: 1,
            own: Duration::from_millis(1250),
            bundled: second,
            bare: second,
        };
        assert_eq!(figure.own_gas_per_second(), 760_000_000);
        assert_eq!(figure.per_mille_of(figure.bare_gas_per_second()), 800);
    }
}
