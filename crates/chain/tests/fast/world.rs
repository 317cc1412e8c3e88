//! A chain with accounts, contracts, storage and logs, sealed by one validator.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use tally_chain::chain::Attributes;
use tally_chain::node::{self, Distances, Node, Sync};
use tally_chain::pool::Limits;
use tally_chain::{Chain, Options, protocol};
use tally_consensus::{
    Config as EngineConfig, Cover, ExtraData, Keys, MIX_HASH, Protocol, SecretKey, hash_covering,
};
use tally_evm::{Block, Genesis, Recovered, Transaction};
use tally_peers::{Config, Enode, Events, Network, NodeKey, Permissions};
use tally_state::{Database, Durability, History, Options as StateOptions};
use tokio::runtime::Runtime;

const CHAIN_ID: u64 = 1_337;
/// Blocks that a chain must be ahead.
pub(crate) const LEAD: u64 = 20;
/// How far below the newest block the state is taken.
pub(crate) const PIVOT: u64 = 4;
pub(crate) const FAST: Sync = Sync::Fast(Distances { lead: LEAD, pivot: PIVOT });
pub(crate) const FULL: Sync = Sync::Full;
/// Slots of the largest contract: more than one answer has.
pub(crate) const SLOTS: u64 = 24_000;
const SLOTS_OF_BLOCK: u64 = 2_400;
const CONTRACTS: u64 = 150;
const ACCOUNTS: u64 = 6_000;
const EXTRA_GAS: u64 = 100_000;

/// Writes as many slots as the second word says, from the first word on, each with its number and one; then a log.
const FILLER: &str = "6000358060203501905b8181146 01c5780600101815560010160095 65b8060005280602060 00a100";

pub(crate) struct World {
    pub(crate) runtime: Runtime,
    genesis: Genesis,
    database: Database,
    blocks: Vec<Bytes>,
    nonce: u64,
    /// Calls in each block beside those that every block has.
    calls: u64,
}

/// A node that is stopped when it is let go of.
pub(crate) struct Running(Node);

impl Deref for Running {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(crate) fn key(number: u8) -> NodeKey {
    NodeKey::new(&[number; 32]).unwrap()
}

fn validator() -> NodeKey {
    key(1)
}

fn funded() -> NodeKey {
    key(200)
}

pub(crate) fn contract(number: u64) -> Address {
    Address::from_word(keccak256(format!("contract {number}")))
}

fn account(number: u64) -> Address {
    Address::from_word(keccak256(format!("account {number}")))
}

/// Waits for something that must happen, however slow the machine.
pub(crate) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(120), "it did not come to this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn genesis(names_contract: bool) -> Genesis {
    let address = validator().address();
    let named = if names_contract { Vec::new() } else { vec![address] };
    let extra = ExtraData::of_validators(&named).encode(Protocol::QBFT, Cover::Everything);
    let filler: String = FILLER.replace(' ', "");
    let mut alloc = serde_json::Map::new();
    let rich = serde_json::json!({ "balance": "0xffffffffffffffffffffffff" });
    alloc.insert(funded().address().to_string(), rich);
    for number in 0..ACCOUNTS {
        let balance = format!("0x{:x}", number + 1);
        alloc.insert(account(number).to_string(), serde_json::json!({ "balance": balance }));
    }
    for number in 0..CONTRACTS {
        let slots: serde_json::Map<String, serde_json::Value> = (0..number % 5)
            .map(|slot| (format!("0x{slot:064x}"), format!("0x{:x}", number + slot + 1).into()))
            .collect();
        let code = format!("0x{filler}{:064x}", number / 2);
        alloc.insert(
            contract(number).to_string(),
            serde_json::json!({ "balance": "0x0", "code": code, "storage": slots }),
        );
    }
    // Returns a list of one address, as the ABI writes it.
    let names = format!(
        "0x6020600052600160205273{}60405260606000f3",
        address.to_string().trim_start_matches("0x").to_lowercase()
    );
    let names_validators = Address::repeat_byte(0x88);
    alloc.insert(names_validators.to_string(), serde_json::json!({ "balance": "0x0", "code": names }));
    let mut qbft = serde_json::json!({
        "blockperiodseconds": 1, "xblockperiodmilliseconds": 100, "epochlength": 7, "requesttimeoutseconds": 2,
    });
    if names_contract {
        qbft["validatorcontractaddress"] = names_validators.to_string().into();
    }
    Genesis::from_value(&serde_json::json!({
        "config": {
            "chainId": CHAIN_ID, "berlinBlock": 0, "londonBlock": 0, "shanghaiTime": 0, "zeroBaseFee": true,
            "qbft": qbft,
        },
        "nonce": "0x0", "timestamp": "0x58ee40ba", "gasLimit": "0x1fffffffffffff", "difficulty": "0x1",
        "mixHash": MIX_HASH, "coinbase": Address::ZERO, "extraData": Bytes::from(extra), "alloc": alloc,
    }))
    .unwrap()
}

/// Of the block after `head`.
fn attributes(head: &tally_chain::Head, extra: &ExtraData) -> Attributes {
    Attributes {
        timestamp: head.sealed().header.timestamp + 1,
        beneficiary: validator().address(),
        extra_data: extra.encode(Protocol::QBFT, Cover::Everything).into(),
        mix_hash: MIX_HASH,
        gas_limit: head.sealed().header.gas_limit,
        withdrawals: Vec::new(),
        parent_beacon_block_root: None,
        until: None,
    }
}

/// The header with the validator's seal.
fn with_seal(header: alloy_consensus::Header, extra: ExtraData) -> alloy_consensus::Header {
    let key = SecretKey::from_bytes(&validator().secret_bytes()).unwrap();
    let digest = hash_covering(Protocol::QBFT, &header, &extra, Cover::WithoutSeals);
    let seals = vec![key.sign(digest).unwrap()];
    let extra = ExtraData { seals, ..extra }.encode(Protocol::QBFT, Cover::Everything);
    alloy_consensus::Header { extra_data: extra.into(), ..header }
}

impl World {
    /// A chain of so many blocks, which anybody can check by its headers.
    pub(crate) fn new(blocks: u64) -> Self {
        Self::of(genesis(false), blocks, 0)
    }

    /// A chain whose validators a contract names.
    pub(crate) fn with_contract(blocks: u64) -> Self {
        Self::of(genesis(true), blocks, 0)
    }

    /// A chain with so many calls in each block, each of which writes two slots and a log.
    pub(crate) fn busy(blocks: u64, calls: u64) -> Self {
        Self::of(genesis(false), blocks, calls)
    }

    fn of(genesis: Genesis, blocks: u64, calls: u64) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let database = Database::in_memory();
        let mut world = Self { runtime, genesis, database, blocks: Vec::new(), nonce: 0, calls };
        let chain = world.open(world.database.clone(), History::Blocks(512));
        for number in 0..blocks {
            let block = world.block(&chain, number);
            world.blocks.push(block);
        }
        world
    }

    fn block(&mut self, chain: &Chain, number: u64) -> Bytes {
        let head = chain.head();
        let key = SecretKey::from_bytes(&validator().secret_bytes()).unwrap();
        let validators = head.branch.validators.as_ref().unwrap();
        let named = match validators.named {
            tally_consensus::ValidatorsFrom::Headers => vec![key.address()],
            tally_consensus::ValidatorsFrom::Contract => Vec::new(),
        };
        let extra = ExtraData::of_validators(&named);
        let attributes = attributes(&head, &extra);
        let first = number * SLOTS_OF_BLOCK;
        let mut transactions = Vec::new();
        if first < SLOTS {
            transactions.push(self.fill(contract(0), first, SLOTS_OF_BLOCK));
        }
        transactions.push(self.fill(contract(number % CONTRACTS), 7 * number, 3));
        transactions.push(self.send(TxKind::Call(account(10 * number)), Vec::new(), 21_000));
        // Another code: what follows the first eleven bytes.
        let code = format!("60{:02x}80600b6000396000f3{}", 40, "5b".repeat(39));
        let mut code = alloy_primitives::hex::decode(code).unwrap();
        code.push(number as u8);
        transactions.push(self.send(TxKind::Create, code, EXTRA_GAS));
        for call in 0..self.calls {
            let at = number * self.calls + call;
            transactions.push(self.fill(contract(at % 10), SLOTS + 2 * at, 2));
        }
        let parent = head.branch.clone();
        let built = chain.build(&parent, attributes, transactions).unwrap();
        assert!(built.skipped.is_empty(), "{:?}", built.skipped);
        let header = with_seal(built.candidate.block.sealed.header.clone(), extra);
        let sealed = chain.seal(built.candidate, &parent, header).unwrap();
        let encoded = sealed.block.encode().into();
        chain.commit(&[sealed], Durability::Buffered, |_| ()).unwrap();
        encoded
    }

    /// The next block, with a withdrawal in its body, under the validator's seal; and what a node says that is to build it.
    pub(crate) fn minting(&self) -> (Bytes, tally_chain::ImportError) {
        let chain = self.open(self.copy(), History::Blocks(512));
        let head = chain.head();
        let withdrawal = Withdrawal { address: account(0), amount: u64::MAX, ..Withdrawal::default() };
        let extra = ExtraData::of_validators(&[validator().address()]);
        let attributes = attributes(&head, &extra);
        let minting = Attributes { withdrawals: vec![withdrawal], ..attributes.clone() };
        let refused = chain.build(&head.branch, minting, []).unwrap_err();
        let built = chain.build(&head.branch, attributes, []).unwrap();
        let mut block = Block::decode(&built.candidate.block.encode()).unwrap();
        block.body.withdrawals = Some(vec![withdrawal]);
        block.header.withdrawals_root = block.body.withdrawals_root();
        block.header = with_seal(block.header, extra);
        (block.encode().into(), refused)
    }

    fn fill(&mut self, contract: Address, first: u64, count: u64) -> Recovered {
        let input = [U256::from(first).to_be_bytes::<32>(), U256::from(count).to_be_bytes::<32>()].concat();
        self.send(TxKind::Call(contract), input, EXTRA_GAS + 25_000 * count)
    }

    fn send(&mut self, to: TxKind, input: Vec<u8>, gas_limit: u64) -> Recovered {
        let body = TxLegacy {
            chain_id: Some(CHAIN_ID),
            nonce: self.nonce,
            gas_limit,
            to,
            input: input.into(),
            ..TxLegacy::default()
        };
        self.nonce += 1;
        let signature = funded().sign_recoverable(&body.signature_hash());
        tally_evm::recover(Transaction::from(body.into_signed(signature))).unwrap()
    }

    pub(crate) fn transfer(&self, nonce: u64, to: Address) -> Vec<u8> {
        let body = TxLegacy {
            chain_id: Some(CHAIN_ID),
            nonce,
            gas_limit: 21_000,
            to: TxKind::Call(to),
            value: U256::from(7),
            ..TxLegacy::default()
        };
        let signature = funded().sign_recoverable(&body.signature_hash());
        tally_evm::transaction::encode(&Transaction::from(body.into_signed(signature))).to_vec()
    }

    pub(crate) fn nonce(&self) -> u64 {
        self.nonce
    }

    pub(crate) fn height(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Addresses that have been used, and some that have not.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        let created = (0..self.nonce).map(|nonce| funded().address().create(nonce));
        let contracts = (0..=CONTRACTS).map(contract);
        (0..=ACCOUNTS).step_by(10).map(account).chain(contracts).chain(created).chain([funded().address()])
    }

    /// The chain executed once more, in a store of its own.
    pub(crate) fn copy(&self) -> Database {
        let database = Database::in_memory();
        let chain = self.open(database.clone(), History::Blocks(512));
        for encoded in &self.blocks {
            let block = Block::decode(encoded).unwrap();
            chain.import(chain.prepare(block, encoded.len() as u64, &|_| None, 1).unwrap()).unwrap();
        }
        database
    }

    pub(crate) fn open(&self, database: Database, history: History) -> Chain {
        let state = StateOptions { history, ..StateOptions::default() };
        Chain::open(database, self.genesis.clone(), Options { state, ..Options::default() }).unwrap()
    }

    pub(crate) fn network(&self, key: NodeKey, genesis: B256, known: Vec<Enode>) -> (Network, Events) {
        let mut seed = u64::from(key.address().0[0]) + 1;
        let random = Box::new(move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed
        });
        let mut config = Config::new(key, CHAIN_ID, genesis, protocol::kinds(), random);
        config.listen = Some("127.0.0.1:0".parse().unwrap());
        config.known = known;
        Network::start(config, self.runtime.handle()).unwrap()
    }

    /// The node that has the whole chain and goes on with it.
    pub(crate) fn start_validator(&self) -> Running {
        let chain = self.open(self.database.clone(), History::Blocks(512));
        self.start(validator(), chain, Vec::new(), FULL, true)
    }

    pub(crate) fn start_follower(
        &self,
        number: u8,
        database: Database,
        known: &[&Node],
        sync: Sync,
    ) -> Running {
        self.start_follower_on(number, self.open(database, History::Blocks(512)), known, sync)
    }

    pub(crate) fn start_follower_on(&self, number: u8, chain: Chain, known: &[&Node], sync: Sync) -> Running {
        let known = known.iter().map(|node| node.network().unwrap().enode().unwrap()).collect();
        self.start(key(number), chain, known, sync, false)
    }

    pub(crate) fn start_node(&self, number: u8, database: Database, known: &[Enode], sync: Sync) -> Running {
        let chain = self.open(database, History::Blocks(512));
        self.start(key(number), chain, known.to_vec(), sync, false)
    }

    fn start(&self, key: NodeKey, chain: Chain, known: Vec<Enode>, sync: Sync, seals: bool) -> Running {
        let secret = SecretKey::from_bytes(&key.secret_bytes()).unwrap();
        let network = self.network(key, chain.genesis_hash(), known);
        let options = node::Options {
            pool: Limits::default(),
            engine: EngineConfig::new(Protocol::QBFT),
            keys: seals.then(|| Arc::new(secret) as Arc<dyn Keys>),
            permissions: Permissions::everyone(),
            target_gas_limit: None,
            threads: 2,
            sync,
        };
        Running(Node::start(chain, Some(network), options).unwrap())
    }
}
