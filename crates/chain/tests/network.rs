//! Four validators and a follower in one process, over loopback: blocks, transactions, the loss of validators.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_primitives::{Address, B256, TxKind, U256};
use tally_chain::blocks::succeeded;
use tally_chain::node::{self, Node};
use tally_chain::pool::{Fate, Limits};
use tally_chain::protocol::{Blocks, GET_BLOCKS, HEAD, Head, Range};
use tally_chain::{BlockId, Chain, Options, protocol};
use tally_consensus::{Config as EngineConfig, Cover, ExtraData, Protocol, SecretKey};
use tally_evm::{Genesis, Transaction};
use tally_peers::{Config, Enode, Event, Host, Network, NodeKey, Permissions};
use tally_state::{Database, Read};
use tokio::runtime::Runtime;

const CHAIN_ID: u64 = 1_337;
const PERIOD_MS: u64 = 150;

struct Member {
    key: NodeKey,
    database: Database,
    address: SocketAddr,
    node: Option<Node>,
}

struct Net {
    runtime: Runtime,
    genesis: Genesis,
    validators: usize,
    members: Vec<Member>,
    funded: NodeKey,
    /// Bounds of the validators' pools.
    limits: Limits,
}

fn key(number: u8) -> NodeKey {
    NodeKey::new(&[number; 32]).unwrap()
}

impl Net {
    fn new(protocol: Protocol, validators: usize, followers: usize) -> Self {
        let keys: Vec<NodeKey> = (1..=validators + followers).map(|number| key(number as u8)).collect();
        let mut addresses: Vec<Address> = keys[..validators].iter().map(NodeKey::address).collect();
        addresses.sort();
        let extra = ExtraData::of_validators(&addresses).encode(protocol, Cover::Everything);
        let funded = key(200);
        let name = if protocol == Protocol::Ibft2 { "ibft2" } else { "qbft" };
        let genesis = serde_json::json!({
            "config": {
                "chainId": CHAIN_ID, "berlinBlock": 0, "londonBlock": 0, "shanghaiTime": 0, "cancunTime": 0,
                "zeroBaseFee": true,
                name: {
                    "blockperiodseconds": 1, "xblockperiodmilliseconds": PERIOD_MS, "epochlength": 30000,
                    "requesttimeoutseconds": 1,
                },
            },
            "nonce": "0x0", "timestamp": "0x58ee40ba", "gasLimit": "0x1fffffffffffff", "difficulty": "0x1",
            "mixHash": tally_consensus::MIX_HASH, "coinbase": Address::ZERO,
            "extraData": alloy_primitives::Bytes::from(extra),
            "alloc": { funded.address().to_string(): { "balance": "0xffffffffffffffffffffffff" } },
        });
        let ports = tally_ops::ports::free(keys.len()).unwrap();
        let members = keys
            .into_iter()
            .zip(ports)
            .map(|(key, port)| {
                let address = SocketAddr::from(([127, 0, 0, 1], port));
                Member { key, database: Database::in_memory(), address, node: None }
            })
            .collect();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let genesis = Genesis::from_value(&genesis).unwrap();
        Self { runtime, genesis, validators, members, funded, limits: Limits::default() }
    }

    fn start(&mut self, at: usize) {
        let known = self.enodes();
        let is_validator = at < self.validators;
        let member = &mut self.members[at];
        let chain = Chain::open(member.database.clone(), self.genesis.clone(), Options::default()).unwrap();
        let mut seed = at as u64 + 1;
        let random = Box::new(move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed
        });
        let mut config =
            Config::new(member.key.clone(), CHAIN_ID, chain.genesis_hash(), protocol::kinds(), random);
        config.listen = Some(member.address);
        config.known = known;
        let network = Network::start(config, self.runtime.handle()).unwrap();
        let sealed = chain.sealed().unwrap().protocol();
        let options = node::Options {
            pool: if is_validator { self.limits } else { Limits::default() },
            engine: EngineConfig::new(sealed),
            keys: is_validator.then(|| {
                let key = SecretKey::from_bytes(&member.key.secret_bytes()).unwrap();
                Arc::new(key) as Arc<dyn tally_consensus::Keys>
            }),
            permissions: Permissions::everyone(),
            target_gas_limit: None,
            threads: 1,
            sync: node::Sync::Full,
        };
        member.node = Some(Node::start(chain, Some(network), options).unwrap());
    }

    fn enodes(&self) -> Vec<Enode> {
        let enode = |member: &Member| Enode {
            id: member.key.id(),
            host: Host::Ip(member.address.ip()),
            port: member.address.port(),
            discovery_port: None,
        };
        self.members.iter().map(enode).collect()
    }

    fn start_all(&mut self) {
        (0..self.members.len()).for_each(|at| self.start(at));
    }

    fn stop(&mut self, at: usize) {
        self.members[at].node.take().unwrap().stop();
    }

    fn wipe(&mut self, at: usize) {
        self.members[at].database = Database::in_memory();
    }

    fn node(&self, at: usize) -> &Node {
        self.members[at].node.as_ref().unwrap()
    }

    fn height(&self, at: usize) -> u64 {
        self.node(at).chain().head().number()
    }

    fn running(&self) -> impl Iterator<Item = &Node> {
        self.members.iter().filter_map(|member| member.node.as_ref())
    }

    /// Waits until every node that runs has this block, and says how long that took.
    fn await_height(&self, height: u64) -> Duration {
        let start = Instant::now();
        while let Some(behind) = self.running().find(|node| node.chain().head().number() < height) {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "block {height} did not come: {behind:?}, {:?}, {:?}",
                behind.consensus(),
                self.running().map(|node| node.chain().head().number()).collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        start.elapsed()
    }

    fn assert_same_blocks(&self) {
        let lowest = self.running().map(|node| node.chain().head().number()).min().unwrap();
        for number in 0..=lowest {
            let mut hashes = self
                .running()
                .map(|node| node.chain().reader().header(BlockId::Number(number)).unwrap().unwrap().hash);
            let first = hashes.next().unwrap();
            assert!(hashes.all(|hash| hash == first), "block {number}");
        }
    }

    fn transfer(&self, nonce: u64, to: Address) -> Vec<u8> {
        let body = TxLegacy {
            chain_id: Some(CHAIN_ID),
            nonce,
            gas_price: 0,
            gas_limit: 21_000,
            to: TxKind::Call(to),
            value: U256::from(7),
            ..TxLegacy::default()
        };
        let signature = self.funded.sign_recoverable(&body.signature_hash());
        tally_evm::transaction::encode(&Transaction::from(body.into_signed(signature))).to_vec()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(node) = member.node.take() {
                node.stop();
            }
        }
    }
}

fn blocks_go_on_with_one_validator_away_and_stop_with_two(protocol: Protocol) {
    let mut net = Net::new(protocol, 4, 1);
    net.start_all();
    net.await_height(3);
    net.stop(0);
    let height = net.height(1);
    net.await_height(height + 8);
    net.stop(1);
    std::thread::sleep(Duration::from_millis(300));
    let stopped = net.height(2);
    std::thread::sleep(Duration::from_secs(2));
    assert!(net.height(2) <= stopped + 1, "three of four are needed");
    net.start(0);
    net.start(1);
    net.await_height(stopped + 5);
    net.assert_same_blocks();
}

#[test]
fn qbft_goes_on_with_one_validator_away_and_stops_with_two() {
    blocks_go_on_with_one_validator_away_and_stop_with_two(Protocol::QBFT);
}

#[test]
fn ibft2_goes_on_with_one_validator_away_and_stops_with_two() {
    blocks_go_on_with_one_validator_away_and_stop_with_two(Protocol::Ibft2);
}

/// Waits until a node knows of each transaction that a block has it.
fn await_committed(node: &Node, mut hashes: Vec<B256>) {
    let start = Instant::now();
    while let Some(hash) = hashes.last() {
        let fate = node.pool().fate(hash).cloned();
        match fate {
            Some(Fate::Committed { .. }) => {
                hashes.pop();
            }
            Some(other) => panic!("{other}"),
            None => {
                assert!(start.elapsed() < Duration::from_secs(30), "not committed");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

#[test]
fn what_validators_had_no_place_for_comes_again_and_is_committed() {
    let mut net = Net::new(Protocol::QBFT, 4, 1);
    net.limits.gapped = 0;
    net.start_all();
    net.await_height(1);
    let follower = net.node(4);
    // No validator keeps the later ones before it has the first.
    let later: Vec<Vec<u8>> = [2, 1].map(|nonce| net.transfer(nonce, Address::repeat_byte(9))).to_vec();
    let mut hashes: Vec<B256> = later.iter().map(|encoded| follower.submit(encoded).unwrap()).collect();
    let height = follower.chain().head().number();
    net.await_height(height + 3);
    assert!((0..4).all(|validator| net.node(validator).pool().is_empty()));
    hashes.push(follower.submit(&net.transfer(0, Address::repeat_byte(9))).unwrap());
    await_committed(follower, hashes);
}

#[test]
fn what_has_no_place_after_a_restart_stays_kept() {
    let mut net = Net::new(Protocol::QBFT, 2, 0);
    // Alone, one of two validators makes no block.
    net.start(0);
    let nonces = [3, 5, 7, 9];
    for nonce in nonces {
        net.node(0).submit(&net.transfer(nonce, Address::repeat_byte(9))).unwrap();
    }
    let waiting = |net: &Net| net.node(0).pool().len();
    for room in [1, 1, 200] {
        net.stop(0);
        net.limits.gapped = room;
        net.start(0);
        assert_eq!(waiting(&net), nonces.len().min(room));
    }
}

#[test]
fn a_transaction_that_a_follower_took_is_committed_everywhere() {
    let mut net = Net::new(Protocol::QBFT, 4, 1);
    net.start_all();
    net.await_height(1);
    let to = Address::repeat_byte(9);
    let follower = net.node(4);
    // Out of order: the pool puts them right.
    let hashes: Vec<B256> =
        [1, 0, 2].into_iter().map(|nonce| follower.submit(&net.transfer(nonce, to)).unwrap()).collect();
    await_committed(follower, hashes);
    let height = follower.chain().head().number();
    net.await_height(height);
    for node in net.running() {
        let reader = node.chain().reader();
        let account = reader.state(height).unwrap().account(to).unwrap().unwrap();
        assert_eq!(account.balance, U256::from(21));
        assert!(node.pool().is_empty());
        let place = reader.place(alloy_primitives::keccak256(net.transfer(2, to))).unwrap().unwrap();
        let receipt = reader.receipt(place).unwrap().unwrap();
        assert_eq!((succeeded(&receipt.outcome), receipt.gas_used), (Some(true), 21_000));
    }
    let again = follower.submit(&net.transfer(0, to)).unwrap_err();
    assert!(again.to_string().starts_with("nonce too low"), "{again}");
}

#[test]
fn a_validator_that_lost_everything_catches_up_and_takes_part_again() {
    let mut net = Net::new(Protocol::QBFT, 4, 0);
    net.start_all();
    net.await_height(5);
    net.stop(3);
    net.wipe(3);
    let height = net.height(0);
    net.await_height(height + 10);
    net.start(3);
    let height = net.height(0);
    net.await_height(height + 2);
    // Blocks now need it.
    net.stop(0);
    let height = net.height(1);
    net.await_height(height + 6);
    net.assert_same_blocks();
}

#[test]
fn who_does_not_take_part_is_sent_each_block_by_its_proposer() {
    let mut net = Net::new(Protocol::QBFT, 4, 0);
    net.start_all();
    let genesis = net.node(0).chain().genesis_hash();
    let known = net.enodes();
    let mut config = Config::new(key(99), CHAIN_ID, genesis, protocol::kinds(), Box::new(|| 7));
    config.known = known;
    let (follower, events) = Network::start(config, net.runtime.handle()).unwrap();
    let mut numbers = BTreeSet::new();
    // Before all are connected some blocks are missed.
    let run_of = |numbers: &BTreeSet<u64>| {
        numbers
            .iter()
            .rev()
            .zip(numbers.iter().rev().skip(1))
            .take_while(|(next, one)| **next == **one + 1)
            .count()
    };
    while run_of(&numbers) < 8 {
        if let Event::Message { peer, kind: protocol::BLOCK, payload } =
            events.recv_timeout(Duration::from_secs(30)).unwrap()
        {
            let block = tally_evm::Block::decode(&payload).unwrap();
            assert_eq!(block.header.beneficiary, peer, "only who proposed it sends it");
            assert!(numbers.insert(block.header.number), "once");
        }
    }
    follower.stop_and_wait();
}

#[test]
fn a_peer_with_another_clock_or_other_forks_is_noticed() {
    let mut net = Net::new(Protocol::QBFT, 1, 0);
    net.start_all();
    let node = net.node(0);
    let mut notices = node.notices();
    let genesis = node.chain().genesis_hash();
    let mut config = Config::new(key(99), CHAIN_ID, genesis, protocol::kinds(), Box::new(|| 7));
    config.known = net.enodes();
    let (peer, events) = Network::start(config, net.runtime.handle()).unwrap();
    let said = loop {
        let event = events.recv_timeout(Duration::from_secs(30)).unwrap();
        if let Event::Message { kind: protocol::STANDING, payload, .. } = event {
            break protocol::decode::<protocol::Standing>("standing", &payload).unwrap();
        }
    };
    let validator = key(1).address();
    let tell = |standing: protocol::Standing| {
        peer.send(&validator, protocol::STANDING, protocol::encode(&standing)).unwrap();
    };
    let mut next = || {
        let start = Instant::now();
        loop {
            match notices.try_recv() {
                Ok(notice) => return notice,
                Err(_) => assert!(start.elapsed() < Duration::from_secs(30)),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    // What is as here is not worth a word.
    tell(said);
    tell(protocol::Standing { clock_ms: said.clock_ms + 30_000, ..said });
    let notice = next();
    assert!(
        matches!(notice, node::Notice::Clock { ahead_ms, .. } if ahead_ms.abs_diff(30_000) < 5_000),
        "{notice:?}"
    );
    assert!(node.clock_is_behind_ms().is_some());
    tell(protocol::Standing { fork_next: 4_000_000_000, ..said });
    assert!(matches!(next(), node::Notice::Forks { .. }));
    assert_eq!(node.peers_with_other_forks(), (1, 1));
    peer.stop_and_wait();
}

/// A validator's key in other hands: it says that it has blocks far above all others, and `answer` says what it gives of them.
struct Boaster {
    network: Network,
    thread: std::thread::JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

impl Boaster {
    fn start(net: &Net, at: usize, answer: impl Fn(Range) -> Option<Blocks> + Send + 'static) -> Self {
        let genesis = net.node(0).chain().genesis_hash();
        let own = net.members[at].key.clone();
        let mut config = Config::new(own.clone(), CHAIN_ID, genesis, protocol::kinds(), Box::new(|| 7));
        config.known = net.enodes().into_iter().filter(|enode| enode.id != own.id()).collect();
        config.listen = Some(net.members[at].address);
        let (network, events) = Network::start(config, net.runtime.handle()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (of, stopped) = (network.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let head = protocol::encode(&Head { number: 1 << 40, hash: B256::repeat_byte(9) });
            let mut unanswered = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                of.broadcast(HEAD, &head);
                let Ok(event) = events.recv_timeout(Duration::from_millis(20)) else { continue };
                if let Event::Request { kind: GET_BLOCKS, payload, respond, .. } = event {
                    match answer(protocol::decode::<Range>("range", &payload).unwrap()) {
                        Some(blocks) => drop(respond.send(protocol::encode(&blocks))),
                        None => unanswered.push(respond),
                    }
                }
            }
        });
        Self { network, thread, stop }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.network.stop_and_wait();
    }
}

/// Readiness follows from `behind`: whoever could set it would take every node of a network from its clients.
#[test]
fn a_validator_that_boasts_makes_nobody_behind_and_holds_no_follower_up() {
    let mut net = Net::new(Protocol::QBFT, 4, 1);
    for at in [0, 1, 2, 4] {
        net.start(at);
    }
    net.await_height(3);
    let boaster = Boaster::start(&net, 3, |_| None);
    net.await_height(net.height(0) + 2);
    // It has been asked by then, and answers nothing for as long as it may.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(6) {
        for node in net.running() {
            assert!(node.behind().is_none_or(|block| block < 1 << 30), "{:?}", node.behind());
        }
        let height = net.height(0);
        let took = net.await_height(height);
        assert!(took < Duration::from_secs(5), "the follower waits for who does not answer: {took:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    net.assert_same_blocks();
    boaster.stop();
}

#[test]
fn who_boasts_and_gives_little_is_asked_after_those_who_give() {
    const BLOCKS: u64 = 40;
    let mut net = Net::new(Protocol::QBFT, 4, 1);
    (0..3).for_each(|at| net.start(at));
    net.await_height(BLOCKS);
    let reader = net.node(0).chain().reader();
    let block = |number| reader.block(BlockId::Number(number)).unwrap().unwrap().encode().into();
    let blocks: Vec<_> = (1..=BLOCKS).map(block).collect();
    // One right block for each question, late.
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let boaster = Boaster::start(&net, 3, move |range| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(1));
        let at = usize::try_from(range.first - 1).unwrap();
        Some(Blocks { blocks: blocks.get(at).cloned().into_iter().collect() })
    });
    // The follower knows nobody else at first.
    (0..3).for_each(|at| net.stop(at));
    net.start(4);
    while asked.load(Ordering::Relaxed) < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    (0..3).for_each(|at| net.start(at));
    let follower = net.node(4);
    let start = Instant::now();
    while follower.chain().head().number() < BLOCKS {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", follower.chain().head().number());
        std::thread::sleep(Duration::from_millis(5));
    }
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked < BLOCKS / 4, "it was asked {asked} times");
    boaster.stop();
}
