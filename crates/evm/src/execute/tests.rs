mod storage_alone;

use alloy_consensus::{Signed, TxEip1559, TxReceipt};
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256, bytes, keccak256};
use tally_state::{Account, AccountChange};

use super::*;
use crate::tool::Memory;
use crate::transaction::Transaction;

const SENDER: Address = Address::repeat_byte(0x11);
const TARGET: Address = Address::repeat_byte(0x22);

fn state(accounts: &[(Address, u64, &Bytes)]) -> Memory {
    let mut changes = Changes::default();
    for (address, balance, code) in accounts {
        let mut account = Account { balance: U256::from(*balance), ..Account::default() };
        if !code.is_empty() {
            account.code_hash = keccak256(code);
            changes.codes.insert(account.code_hash, (*code).clone());
        }
        changes
            .accounts
            .insert(*address, AccountChange { account: Some(account), ..AccountChange::default() });
    }
    let mut state = Memory::default();
    state.apply(&changes);
    state
}

fn sent(nonce: u64, to: TxKind, value: u64, input: Bytes, gas_limit: u64) -> Recovered {
    let transaction = TxEip1559 {
        chain_id: 1,
        nonce,
        gas_limit,
        max_fee_per_gas: 7,
        to,
        value: U256::from(value),
        input,
        ..TxEip1559::default()
    };
    let signature = Signature::new(U256::ONE, U256::ONE, false);
    Recovered::new_unchecked(Transaction::from(Signed::new_unhashed(transaction, signature)), SENDER)
}

fn env() -> Env {
    Env { number: 1, gas_limit: 1_000_000, base_fee: 7, ..Env::default() }
}

/// One validator would otherwise pay itself what it likes in a block that all others agree on.
#[test]
fn withdrawals_mint_nothing_where_validators_seal() {
    let mut schedule = Schedule::named("Shanghai").unwrap();
    let state = state(&[]);
    let env = env();
    let hashes = |_| B256::ZERO;
    let withdrawal =
        alloy_eips::eip4895::Withdrawal { address: TARGET, amount: u64::MAX, ..Default::default() };
    let finish = |schedule: &Schedule| {
        let mut executor = Executor::new(schedule, &env, &state, &hashes, None);
        executor.begin().unwrap();
        executor.finish(&[], &[withdrawal])
    };
    let credited = finish(&schedule).unwrap();
    let account = credited.changes.accounts[&TARGET].account.as_ref().unwrap();
    assert_eq!(account.balance, U256::from(u64::MAX) * U256::from(1_000_000_000));
    schedule.sealed = true;
    let refused = finish(&schedule);
    assert!(matches!(refused, Err(BlockError::NoBeaconChain("withdrawals"))));
}

#[test]
fn a_refused_transaction_leaves_nothing_and_says_why() {
    let schedule = Schedule::named("Shanghai").unwrap();
    let state = state(&[(SENDER, 10_000_000, &Bytes::new())]);
    let env = env();
    let hashes = |_| B256::ZERO;
    let mut executor = Executor::new(&schedule, &env, &state, &hashes, None);
    executor.begin().unwrap();
    let mut refused = |nonce, value, gas| {
        let transaction = sent(nonce, TARGET.into(), value, Bytes::new(), gas);
        executor.execute(&transaction, None).unwrap_err()
    };
    assert!(matches!(refused(1, 0, 21_000), Refusal::NonceTooHigh { expected: 0, found: 1 }));
    assert!(matches!(refused(0, 10_000_000, 21_000), Refusal::Funds { .. }));
    assert!(matches!(refused(0, 0, 20_000), Refusal::Transaction(_)));
    assert!(matches!(refused(0, 0, 1_000_001), Refusal::BlockGas { left: 1_000_000, .. }));
    assert!(executor.changes().is_empty());
    let outcome = executor.execute(&sent(0, TARGET.into(), 5, Bytes::new(), 21_000), None).unwrap();
    assert!(outcome.success);
    assert_eq!(executor.gas_left(), 1_000_000 - 21_000);
    let low = executor.execute(&sent(0, TARGET.into(), 0, Bytes::new(), 21_000), None).unwrap_err();
    assert!(matches!(low, Refusal::NonceTooLow { .. }) && !low.may_pass_later());
    let executed = executor.finish(&[], &[]).unwrap();
    assert_eq!(executed.gas_by_transaction().collect::<Vec<_>>(), [21_000]);
    assert_eq!(executed.changes.accounts[&TARGET].account.unwrap().balance, U256::from(5));
    assert_eq!(executed.receipts.len(), 1);
}

/// A contract that destroys itself when called without data, and otherwise stores 1 in the slot that the
/// data names.
const MORTAL: Bytes =
    Bytes::from_static(&[0x36, 0x60, 0x06, 0x57, 0x33, 0xff, 0x5b, 0x60, 0x01, 0x60, 0x00, 0x35, 0x55, 0x00]);

#[test]
fn what_was_destroyed_takes_its_storage_along() {
    let schedule = Schedule::named("London").unwrap();
    let mut state = state(&[(SENDER, 100_000_000, &Bytes::new()), (TARGET, 3, &MORTAL)]);
    let mut before = Changes::default();
    let account = state_account(&state, TARGET);
    let storage = [(U256::from(9), U256::from(9))].into_iter().collect();
    before.accounts.insert(TARGET, AccountChange { account, storage_cleared: false, storage });
    state.apply(&before);
    let word = |slot: u8| Bytes::from(U256::from(slot).to_be_bytes::<32>().to_vec());
    let transactions = [
        sent(0, TARGET.into(), 0, word(1), 100_000),
        sent(1, TARGET.into(), 0, Bytes::new(), 100_000),
        // Money to where the contract was makes an account without code or slots.
        sent(2, TARGET.into(), 4, Bytes::new(), 100_000),
    ];
    let contents = Contents { transactions: &transactions, ..Contents::default() };
    let executed = execute(&schedule, &env(), contents, &state, &|_| B256::ZERO, None, None).unwrap();
    let change = &executed.changes.accounts[&TARGET];
    assert!(change.storage_cleared && change.storage.is_empty());
    assert_eq!(change.account, Some(Account { balance: U256::from(4), ..Account::default() }));
    state.apply(&executed.changes);
    assert!(!state.find(TARGET).unwrap().unwrap().has_storage);
    assert!(executed.receipts.iter().all(TxReceipt::status));
}

fn state_account(state: &Memory, address: Address) -> Option<Account> {
    state.account(address).unwrap()
}

#[test]
fn empty_accounts_exist_until_eip_161_only() {
    let touch = |fork: &str| {
        let schedule = Schedule::named(fork).unwrap();
        let env = Env { base_fee: 0, ..env() };
        let state = state(&[(SENDER, 10_000_000, &Bytes::new())]);
        let legacy = alloy_consensus::TxLegacy { gas_limit: 21_000, to: TARGET.into(), ..Default::default() };
        let signature = Signature::new(U256::ONE, U256::ONE, false);
        let transaction =
            Recovered::new_unchecked(Transaction::from(Signed::new_unhashed(legacy, signature)), SENDER);
        let contents = Contents { transactions: &[transaction], ..Contents::default() };
        let mut root = |_: &Changes| Ok(B256::ZERO);
        execute(&schedule, &env, contents, &state, &|_| B256::ZERO, None, Some(&mut root)).unwrap().changes
    };
    assert_eq!(touch("Homestead").accounts[&TARGET].account, Some(Account::default()));
    assert!(!touch("Byzantium").accounts.contains_key(&TARGET));
}

#[test]
fn rewards_and_withdrawals_are_paid() {
    let state = state(&[]);
    let paid = |fork: &str, env: &Env, ommers: &[Header], withdrawals: &[Withdrawal]| {
        let schedule = Schedule::named(fork).unwrap();
        let contents = Contents { ommers, withdrawals, ..Contents::default() };
        let changes = execute(&schedule, env, contents, &state, &|_| B256::ZERO, None, None).unwrap().changes;
        move |address: Address| {
            changes.accounts.get(&address).map_or(U256::ZERO, |change| change.account.unwrap().balance)
        }
    };
    let ether = U256::from(10).pow(U256::from(18));
    let env = Env { difficulty: U256::ONE, beneficiary: SENDER, number: 10, ..env() };
    let ommer = Header { number: 8, beneficiary: TARGET, ..Header::default() };
    let balance = paid("Byzantium", &env, &[ommer], &[]);
    assert_eq!(balance(SENDER), ether * U256::from(3) + ether * U256::from(3) / U256::from(32));
    assert_eq!(balance(TARGET), ether * U256::from(3) * U256::from(6) / U256::from(8));
    let merged = Env { difficulty: U256::ZERO, ..env.clone() };
    let withdrawal = Withdrawal { address: TARGET, amount: 2, ..Withdrawal::default() };
    let balance = paid("Shanghai", &merged, &[], &[withdrawal, withdrawal]);
    assert_eq!((balance(SENDER), balance(TARGET)), (U256::ZERO, U256::from(4_000_000_000_u64)));
    let own = Env { reward: Some(U256::from(16)), ..env };
    assert_eq!(paid("Byzantium", &own, &[], &[])(SENDER), U256::from(16));
}

#[test]
fn codes_are_shared_and_kept_within_the_limit() {
    let schedule = Schedule::named("Shanghai").unwrap();
    let code = bytes!("00");
    let state = state(&[(SENDER, 10_000_000, &Bytes::new()), (TARGET, 0, &code)]);
    for limit in [0, 1_000] {
        let codes = Codes::new(limit);
        for _ in 0..2 {
            let transactions = [sent(0, TARGET.into(), 0, Bytes::new(), 30_000)];
            let contents = Contents { transactions: &transactions, ..Contents::default() };
            let hashes = |_| B256::ZERO;
            let executed = execute(&schedule, &env(), contents, &state, &hashes, Some(&codes), None).unwrap();
            assert_eq!(executed.gas_used, 21_000);
        }
    }
}
