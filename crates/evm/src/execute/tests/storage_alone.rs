//! Creations where there is storage, and neither code nor a nonce (EIP-7610).

use super::*;

const FACTORY: Address = Address::repeat_byte(0x33);
const GAS: u64 = 900_000;
/// Init code of a contract without code.
const INIT: [u8; 1] = [0];

fn over(places: &[(Address, u64)], factory: &Bytes) -> Memory {
    let mut state = state(&[(SENDER, 100_000_000, &Bytes::new()), (FACTORY, 0, factory)]);
    let mut changes = Changes::default();
    for (place, balance) in places {
        let account = Account { balance: U256::from(*balance), ..Account::default() };
        let storage = [(U256::ONE, U256::from(7))].into_iter().collect();
        let change = AccountChange { account: Some(account), storage_cleared: false, storage };
        changes.accounts.insert(*place, change);
    }
    state.apply(&changes);
    state
}

/// A block of one transaction.
fn run(fork: &str, state: &Memory, transaction: Recovered) -> Executed {
    let mut schedule = Schedule::named(fork).unwrap();
    // So that nobody asks the contracts of a beacon chain anything.
    schedule.sealed = true;
    let london = schedule.rules(1, u64::MAX, true).has(crate::schedule::Fork::London);
    let env = Env { base_fee: if london { 7 } else { 0 }, ..env() };
    let contents = Contents { transactions: &[transaction], ..Contents::default() };
    let mut root = |_: &Changes| Ok(B256::ZERO);
    execute(&schedule, &env, contents, state, &|_| B256::ZERO, None, Some(&mut root)).unwrap()
}

/// What it used, whether it succeeded, and what changed.
fn one(fork: &str, state: &Memory, transaction: Recovered) -> (u64, bool, Changes) {
    let executed = run(fork, state, transaction);
    (executed.gas_used, executed.receipts[0].status(), executed.changes)
}

fn legacy(to: TxKind, input: Bytes) -> Recovered {
    let transaction = alloy_consensus::TxLegacy {
        chain_id: None,
        gas_price: 7,
        gas_limit: GAS,
        to,
        input,
        ..Default::default()
    };
    let signature = Signature::new(U256::ONE, U256::ONE, false);
    Recovered::new_unchecked(Transaction::from(Signed::new_unhashed(transaction, signature)), SENDER)
}

/// Code that runs `create`, and logs its result and then the hash of the code at `place`.
fn factory(create: &[u8], place: Address) -> Bytes {
    let mut code = create.to_vec();
    code.extend_from_slice(&[0x60, 0, 0x52, 0x73]);
    code.extend_from_slice(place.as_slice());
    code.extend_from_slice(&[0x3f, 0x60, 32, 0x52, 0x60, 64, 0x60, 0, 0xa0, 0]);
    code.into()
}

#[test]
fn a_transaction_that_creates_there_fails_and_changes_nothing_of_it() {
    let place = SENDER.create(0);
    for fork in ["Frontier", "Homestead", "Byzantium", "Berlin", "London", "Cancun", "Prague", "Osaka"] {
        for balance in [0, 5] {
            let state = over(&[(place, balance)], &Bytes::new());
            let (gas, success, changes) = one(fork, &state, legacy(TxKind::Create, INIT.into()));
            assert_eq!(gas, GAS, "{fork}");
            // Earlier receipts do not say it.
            assert!(!success || matches!(fork, "Frontier" | "Homestead"), "{fork}");
            assert!(!changes.accounts.contains_key(&place), "{fork}");
        }
        let free = one(fork, &over(&[], &Bytes::new()), legacy(TxKind::Create, INIT.into()));
        assert!(free.0 < GAS && free.1, "{fork}");
    }
}

#[test]
fn a_contract_that_creates_there_gets_zero_and_loses_the_gas() {
    let deployed = |create: &[u8], place: Address, fork: &str, balance| {
        let code = factory(create, place);
        let executed = run(fork, &over(&[(place, balance)], &code), legacy(FACTORY.into(), Bytes::new()));
        // All but a 64th of what was left went into the creation.
        assert!(executed.gas_used > GAS * 9 / 10, "{}", executed.gas_used);
        assert!(!executed.changes.accounts.contains_key(&place));
        assert_eq!(executed.changes.accounts[&FACTORY].account.unwrap().nonce, 1);
        let logged = &executed.receipts[0].logs()[0].data.data;
        assert!(logged[..32].iter().all(|byte| *byte == 0), "{logged}");
        B256::from_slice(&logged[32..])
    };
    // CREATE of one byte of memory, which is zero.
    let create = [0x60, 1, 0x60, 0, 0x60, 0, 0xf0];
    let create2 = [0x60, 9, 0x60, 1, 0x60, 0, 0x60, 0, 0xf5];
    let place = FACTORY.create(0);
    let place2 = FACTORY.create2_from_code(B256::from(U256::from(9)), INIT);
    for fork in ["Constantinople", "Berlin", "Cancun", "Osaka"] {
        for (create, place) in [(&create[..], place), (&create2[..], place2)] {
            // What is empty but for its storage has no hash of code (EIP-161, EIP-1052); nobody sees a mark.
            assert_eq!(deployed(create, place, fork, 0), B256::ZERO, "{fork}");
            assert_eq!(deployed(create, place, fork, 5), alloy_primitives::KECCAK256_EMPTY, "{fork}");
        }
    }
}

/// The address is warm after a creation that collided, as after any other (EIP-2929).
#[test]
fn the_address_is_warm_afterwards() {
    let place = FACTORY.create(0);
    let create = [0x60, 1, 0x60, 0, 0x60, 0, 0xf0];
    let used = |at: Address| {
        let code = factory(&create, at);
        one("Cancun", &over(&[(place, 5), (at, 5)], &code), legacy(FACTORY.into(), Bytes::new())).0
    };
    assert_eq!(used(TARGET) - used(place), 2_500);
}

/// A contract whose storage went with it, in an earlier transaction of the block.
#[test]
fn storage_that_went_in_the_same_block_is_in_nobodys_way() {
    let create2 = [0x60, 9, 0x60, 1, 0x60, 0, 0x60, 0, 0xf5];
    let place = FACTORY.create2_from_code(B256::from(U256::from(9)), INIT);
    let ended = bytes!("33ff");
    let mut state = over(&[(place, 0)], &factory(&create2, place));
    let mut changes = Changes::default();
    let account = Account { code_hash: keccak256(&ended), ..Account::default() };
    changes.codes.insert(account.code_hash, ended);
    changes.accounts.insert(place, AccountChange { account: Some(account), ..AccountChange::default() });
    state.apply(&changes);
    let schedule = Schedule::named("London").unwrap();
    let (env, hashes) = (env(), |_| B256::ZERO);
    let mut executor = Executor::new(&schedule, &env, &state, &hashes, None);
    executor.begin().unwrap();
    assert!(executor.execute(&sent(0, place.into(), 0, Bytes::new(), GAS), None).unwrap().success);
    assert!(executor.execute(&sent(1, FACTORY.into(), 0, Bytes::new(), GAS), None).unwrap().success);
    let changes = executor.changes();
    let change = &changes.accounts[&place];
    assert_eq!(change.account.unwrap().nonce, 1);
    assert!(change.storage_cleared && change.storage.is_empty());
}

/// Before EIP-161 an account may be empty and have storage: it stays when somebody calls it. Since then it goes,
/// with its storage.
#[test]
fn a_call_of_it_does_what_the_fork_does_with_an_empty_account() {
    let touched = |fork: &str| {
        let state = over(&[(TARGET, 0)], &Bytes::new());
        one(fork, &state, legacy(TARGET.into(), Bytes::new())).2.accounts.get(&TARGET).cloned()
    };
    assert_eq!(touched("Homestead"), None);
    let gone = touched("Byzantium").unwrap();
    assert!(gone.account.is_none() && gone.storage_cleared);
}
