//! What a builder leaves out of a block and what it finds room for, under a contract that names the validators: one of those
//! who may write to it makes it name nobody, others ask for more gas than they use.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address};
use tally_chain::chain::{Attributes, Reason};
use tally_chain::node::{self, Node, Notice};
use tally_chain::pool::{Fate, Limits, Refusal};
use tally_chain::sealed::Seals;
use tally_chain::{BlockId, Chain, ImportError, Options};
use tally_consensus::{Config as EngineConfig, Cover, ExtraData, Keys, Protocol, SecretKey};
use tally_evm::{Block, BlockError, Genesis, Recovered, Transaction, recover};
use tally_peers::{NodeKey, Permissions};
use tally_state::Database;

const CHAIN_ID: u64 = 1_337;
const CONTRACT: Address = address!("00000000000000000000000000000000000c0de0");
/// What the contract does when it is asked, by what was written to it last.
const ONE: u64 = 0;
const NOBODY: u64 = 1;
const REVERT: u64 = 2;
const FOR_EVER: u64 = 3;
/// As [`ONE`], written with as many bytes as the others.
const STILL_ONE: u64 = 4;
/// It names nobody from the third block on.
const LATER: u64 = 5;

fn key(number: u8) -> NodeKey {
    NodeKey::new(&[number; 32]).unwrap()
}

/// Writes its first word of data into slot 0 when that is given, and answers `getValidators()` by what is there.
fn code(validator: Address) -> Bytes {
    let jump_if_equal = |value: u64, to: u8| vec![0x80, 0x60, value as u8, 0x14, 0x60, to, 0x57];
    let body = |at: [u8; 5]| {
        let [set, nobody, revert, for_ever, later] = at;
        let mut code = vec![0x60, 4, 0x36, 0x11, 0x60, set, 0x57, 0x60, 0, 0x54];
        code.extend(jump_if_equal(NOBODY, nobody));
        code.extend(jump_if_equal(REVERT, revert));
        code.extend(jump_if_equal(FOR_EVER, for_ever));
        code.extend(jump_if_equal(LATER, later));
        let one = code.len() as u8;
        code.extend([0x5b, 0x60, 32, 0x60, 0, 0x52, 0x60, 1, 0x60, 32, 0x52, 0x73]);
        code.extend(validator.as_slice());
        code.extend([0x60, 64, 0x52, 0x60, 96, 0x60, 0, 0xf3]);
        let later = code.len() as u8;
        code.extend([0x5b, 0x60, 3, 0x43, 0x10, 0x60, one, 0x57]);
        let nobody = code.len() as u8;
        code.extend([0x5b, 0x60, 32, 0x60, 0, 0x52, 0x60, 64, 0x60, 0, 0xf3]);
        let revert = code.len() as u8;
        code.extend([0x5b, 0x60, 0, 0x60, 0, 0xfd]);
        let for_ever = code.len() as u8;
        code.extend([0x5b, 0x60, for_ever, 0x56]);
        let set = code.len() as u8;
        code.extend([0x5b, 0x60, 0, 0x35, 0x60, 0, 0x55, 0]);
        (code, [set, nobody, revert, for_ever, later])
    };
    let (_, places) = body([0; 5]);
    body(places).0.into()
}

fn genesis() -> Genesis {
    let validator = key(1).address();
    let extra = ExtraData::of_validators(&[]).encode(Protocol::QBFT, Cover::Everything);
    let rich = |number| {
        (key(number).address().to_string(), serde_json::json!({ "balance": "0xffffffffffffffffffff" }))
    };
    let mut alloc: serde_json::Map<_, _> = (200..=204).map(rich).collect();
    alloc.insert(CONTRACT.to_string(), serde_json::json!({ "balance": "0x0", "code": code(validator) }));
    let genesis = serde_json::json!({
        "config": {
            "chainId": CHAIN_ID, "berlinBlock": 0, "londonBlock": 0, "shanghaiTime": 0, "zeroBaseFee": true,
            "qbft": {
                "blockperiodseconds": 1, "xblockperiodmilliseconds": 100, "epochlength": 30000,
                "requesttimeoutseconds": 2, "validatorcontractaddress": CONTRACT,
            },
        },
        "nonce": "0x0", "timestamp": "0x58ee40ba", "gasLimit": "0x5f5e100", "difficulty": "0x1",
        "mixHash": tally_consensus::MIX_HASH, "coinbase": Address::ZERO, "extraData": Bytes::from(extra),
        "alloc": alloc,
    });
    Genesis::from_value(&genesis).unwrap()
}

fn signed(from: u8, nonce: u64, to: Address, input: Bytes) -> Recovered {
    asking_for(100_000, from, nonce, to, input)
}

fn asking_for(gas_limit: u64, from: u8, nonce: u64, to: Address, input: Bytes) -> Recovered {
    let body = TxLegacy {
        chain_id: Some(CHAIN_ID),
        nonce,
        gas_price: 0,
        gas_limit,
        to: TxKind::Call(to),
        value: U256::ZERO,
        input,
    };
    let signature = key(from).sign_recoverable(&body.signature_hash());
    recover(Transaction::from(body.into_signed(signature))).unwrap()
}

fn write(from: u8, nonce: u64, what: u64) -> Recovered {
    signed(from, nonce, CONTRACT, U256::from(what).to_be_bytes::<32>().to_vec().into())
}

fn attributes(chain: &Chain) -> Attributes {
    let head = chain.head();
    let header = &head.sealed().header;
    let extra = ExtraData::of_validators(&[]);
    Attributes {
        timestamp: header.timestamp + 1,
        beneficiary: key(1).address(),
        extra_data: extra.encode(Protocol::QBFT, Cover::Everything).into(),
        mix_hash: tally_consensus::MIX_HASH,
        gas_limit: header.gas_limit,
        withdrawals: Vec::new(),
        parent_beacon_block_root: None,
        until: None,
    }
}

fn hashes(block: &tally_chain::blocks::FullBlock) -> Vec<B256> {
    block.hashes().collect()
}

#[test]
fn a_builder_leaves_out_what_the_validators_would_be_lost_with_and_takes_the_rest() {
    let chain = Chain::open(Database::in_memory(), genesis(), Options::default()).unwrap();
    let parent = chain.head().branch.clone();
    for what in [NOBODY, REVERT, FOR_EVER] {
        // Enough that the contract is asked at some places of the block only.
        let before: Vec<Recovered> =
            (0..40).map(|nonce| signed(200, nonce, Address::repeat_byte(9), Bytes::new())).collect();
        let bad = write(201, 0, what);
        let other = write(203, 0, if what == NOBODY { REVERT } else { NOBODY });
        let after: Vec<Recovered> =
            (0..40).map(|nonce| signed(202, nonce, Address::repeat_byte(9), Bytes::new())).collect();
        let follows = signed(201, 1, Address::repeat_byte(9), Bytes::new());
        let mut all = before.clone();
        all.push(bad.clone());
        all.push(follows);
        all.extend(after.clone());
        all.push(other.clone());
        let built = chain.build(&parent, attributes(&chain), all).unwrap();
        let expected: Vec<B256> = before.iter().chain(&after).map(|transaction| transaction.hash()).collect();
        assert_eq!(hashes(&built.candidate.block), expected);
        let skipped: Vec<B256> = built.skipped.iter().map(|skipped| skipped.hash).collect();
        assert_eq!(skipped, [bad.hash(), other.hash()]);
        assert!(built.skipped.iter().all(|skipped| matches!(skipped.reason, Reason::Validators(_))));
        // Where somebody repairs it in the same block nothing is wrong.
        let repaired = vec![bad.clone(), write(203, 0, ONE)];
        let built = chain.build(&parent, attributes(&chain), repaired).unwrap();
        assert_eq!(built.candidate.block.transactions.len(), 2);
    }
}

#[test]
fn a_contract_that_fails_by_itself_is_no_transactions_fault() {
    let chain = Chain::open(Database::in_memory(), genesis(), Options::default()).unwrap();
    for number in 1..=2 {
        let transactions = if number == 1 { vec![write(201, 0, LATER)] } else { Vec::new() };
        let built = chain.build(&chain.head().branch.clone(), attributes(&chain), transactions).unwrap();
        chain.commit(&[built.candidate], tally_state::Durability::Buffered, |_| ()).unwrap();
    }
    let innocent = signed(200, 0, Address::repeat_byte(9), Bytes::new());
    let error = chain.build(&chain.head().branch.clone(), attributes(&chain), [innocent]).unwrap_err();
    let ImportError::Invalid { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, BlockError::Validators(_)), "{source}");
    // Who repairs it is taken.
    let built = chain.build(&chain.head().branch.clone(), attributes(&chain), [write(203, 0, ONE)]).unwrap();
    assert_eq!(built.candidate.block.transactions.len(), 1);
}

#[test]
fn a_liars_block_after_which_nobody_is_named_is_invalid_and_no_fault_of_the_store() {
    let chain = Chain::open(Database::in_memory(), genesis(), Options::default()).unwrap();
    let parent = chain.head().branch.clone();
    for what in [NOBODY, REVERT, FOR_EVER] {
        let built = chain.build(&parent, attributes(&chain), [write(201, 0, STILL_ONE)]).unwrap();
        let mut block = Block::decode(&built.candidate.block.encode()).unwrap();
        // Gas and receipts of the two are the same.
        block.body.transactions = vec![write(201, 0, what).transaction().as_ref().clone()];
        block.header.transactions_root =
            alloy_consensus::proofs::calculate_transaction_root(&block.body.transactions);
        let size = block.encode().len() as u64;
        let prepared = chain.prepare(block, size, &|_| None, 1).unwrap();
        let error = chain.execute(&parent, prepared, Seals::Proposal).unwrap_err();
        let ImportError::Invalid { source, .. } = error else { panic!("a fault of the store: {error}") };
        assert!(matches!(*source, BlockError::Validators(_)), "{what}: {source}");
    }
}

fn start(database: &Database) -> Node {
    let chain = Chain::open(database.clone(), genesis(), Options::default()).unwrap();
    let key = SecretKey::from_bytes(&key(1).secret_bytes()).unwrap();
    let options = node::Options {
        pool: Limits::default(),
        engine: EngineConfig::new(Protocol::QBFT),
        keys: Some(Arc::new(key) as Arc<dyn Keys>),
        permissions: Permissions::everyone(),
        target_gas_limit: None,
        threads: 1,
        sync: node::Sync::Full,
    };
    Node::start(chain, None, options).unwrap()
}

fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn blocks_go_on_without_a_members_transaction_that_would_end_them() {
    let database = Database::in_memory();
    let node = start(&database);
    let mut notices = node.notices();
    let mut unfit = Vec::new();
    for (from, what) in [(201, NOBODY), (202, REVERT), (203, FOR_EVER)] {
        let transaction = write(from, 0, what);
        let good = signed(200, u64::from(from) - 201, Address::repeat_byte(9), Bytes::new());
        let encoded = |of: &Recovered| tally_evm::transaction::encode(of.transaction());
        node.submit(&encoded(&transaction)).unwrap();
        node.submit(&encoded(&good)).unwrap();
        let hash = transaction.hash();
        await_that("a good transaction is committed", || {
            matches!(node.pool().fate(&good.hash()), Some(Fate::Committed { .. }))
        });
        await_that("the other is dropped", || {
            matches!(node.pool().fate(&hash), Some(Fate::NoValidators { .. }))
        });
        let again = node.submit(&encoded(&transaction)).unwrap_err();
        assert!(
            matches!(again, node::SubmitError::Refused(Refusal::NoValidators { .. })),
            "it is not tried again at once: {again}"
        );
        unfit.push(hash);
    }
    let mut said = Vec::new();
    while let Ok(notice) = notices.try_recv() {
        match notice {
            Notice::LeftOut { transaction, .. } => said.push(transaction),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(said, unfit);
    let height = node.chain().head().number();
    await_that("blocks go on", || node.chain().head().number() >= height + 2);
    node.stop();

    let node = start(&database);
    assert!(unfit.iter().all(|hash| node.pool().get(hash).is_none()), "it does not come back");
    let height = node.chain().head().number();
    await_that("blocks go on", || node.chain().head().number() >= height + 2);
    assert!(node.chain().reader().header(BlockId::Number(height)).unwrap().is_some());
    node.stop();
}

#[test]
fn those_who_ask_for_all_the_gas_of_a_block_hold_nobody_up() {
    let node = start(&Database::in_memory());
    let encoded = |of: &Recovered| tally_evm::transaction::encode(of.transaction());
    let block_gas = node.chain().head().sealed().header.gas_limit;
    let begin = node.chain().head().number();
    for nonce in 0..20 {
        for hog in 201..=204 {
            let greedy = asking_for(block_gas, hog, nonce, Address::repeat_byte(9), Bytes::new());
            node.submit(&encoded(&greedy)).unwrap();
        }
    }
    let modest: Vec<Recovered> =
        (0..50).map(|nonce| signed(200, nonce, Address::repeat_byte(9), Bytes::new())).collect();
    for transaction in &modest {
        node.submit(&encoded(transaction)).unwrap();
    }
    let submitted = node.chain().head().number();
    await_that("the modest ones are committed", || {
        let pool = node.pool();
        modest.iter().all(|transaction| pool.fate(&transaction.hash()).is_some())
    });
    let committed = node.chain().head().number();
    assert!(committed <= submitted + 3, "from {begin}, {submitted} to {committed}");
    node.stop();
}
