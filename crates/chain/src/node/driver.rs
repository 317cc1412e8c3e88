//! Feeds the round engine and carries out its effects, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256, Bytes};
use tally_consensus::{
    Block, Config, Effect, Engine, Head as EngineHead, Input, Keys, Misbehaviour, Packet, Timer, View,
};
use tally_state::{Batch, Durability};

use super::workshop::{self, Job};
use super::{Node, Notice, lock, now_ms, sync};
use crate::branch::Candidate;
use crate::chain::Head;
use crate::error::{ChainError, ImportError};
use crate::sealed::Seals;

/// Under which key the record of what this validator has signed lies.
const RECORD: &[u8] = b"record";
/// How long the driver waits at most before it looks around.
const IDLE: Duration = Duration::from_secs(1);

/// What the driver is told.
pub(super) enum Told {
    /// A message of consensus.
    Packet { from: Address, packet: Packet },
    /// A peer is there.
    Connected(Address),
    /// A peer is gone.
    Disconnected(Address),
    /// A block was built, or could not be.
    Built { view: View, block: Option<(Bytes, Box<Candidate>)> },
    /// A block was validated; `None` when it is not valid.
    Validated { hash: B256, candidate: Option<Box<Candidate>> },
    /// The chain has a new head.
    Head,
    /// Transactions have come.
    Transactions,
    /// The node stops.
    Stop,
}

impl Node {
    /// The engine of a chain whose validators seal, where its last run ended; `None` elsewhere, and for a node without a
    /// validator's key.
    pub(super) fn engine(&self, mut config: Config) -> Result<Option<Engine>, ChainError> {
        let (Some(sealed), Some(keys)) = (self.chain().sealed(), &self.shared.keys) else { return Ok(None) };
        config.protocol = sealed.protocol();
        let mut engine = Engine::new(config, Arc::clone(keys));
        let record = self.chain().database().snapshot().get(self.shared.consensus_table, RECORD)?;
        if let Some(record) = record {
            engine.restore(&record).map_err(ChainError::Record)?;
        }
        Ok(Some(engine))
    }

    /// The newest block as the engine sees it.
    fn engine_head(&self, keys: &dyn Keys, head: &Head) -> Option<EngineHead> {
        let sealed = self.chain().sealed()?;
        let validators = head.branch.validators.as_ref()?;
        let number = head.number();
        let next = number.saturating_add(1);
        Some(EngineHead {
            number,
            hash: head.hash(),
            timestamp_s: head.sealed().header.timestamp,
            proposer: head.sealed().header.beneficiary,
            validators: (*validators.set).clone(),
            named: validators.named,
            vote: self.proposals().next(&validators.tally, keys.address(), next),
            settings: sealed.settings(next),
        })
    }
}

struct Driver {
    node: Node,
    engine: Engine,
    keys: Arc<dyn Keys>,
    workshop: Sender<Job>,
    timers: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Blocks that were executed on the head, by their hash on the chain.
    candidates: B256Map<Candidate>,
    /// The head that the engine was told of.
    head: Arc<Head>,
    /// Whether the engine was told that transactions wait.
    transactions: bool,
    /// Whether something that was to be durable is not, while the node stops: nothing that the engine wants is carried out
    /// any more. What it signed since then may be signed otherwise after a restart, so nobody may hear of it.
    silent: bool,
}

pub(super) fn run(node: Node, told: Receiver<Told>, engine: Engine, workshop: Sender<Job>) {
    let Some(mut driver) = Driver::new(node, engine, workshop) else { return };
    driver.tell_head();
    while !driver.node.is_stopping() {
        let wait = driver
            .timers
            .peek()
            .map_or(IDLE, |Reverse((at, _))| at.saturating_duration_since(Instant::now()).min(IDLE));
        match told.recv_timeout(wait) {
            Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(told) => driver.take(told),
            Err(RecvTimeoutError::Timeout) => {}
        }
        driver.ring();
    }
}

impl Driver {
    /// `None` where the node has no key.
    fn new(node: Node, engine: Engine, workshop: Sender<Job>) -> Option<Self> {
        Some(Self {
            head: node.chain().head(),
            keys: node.shared.keys.clone()?,
            node,
            engine,
            workshop,
            timers: BinaryHeap::new(),
            candidates: B256Map::default(),
            transactions: false,
            silent: false,
        })
    }

    fn take(&mut self, told: Told) {
        match told {
            Told::Packet { from, packet } => {
                self.node.shared.packets.leave(packet.bytes.len());
                self.step(Input::Message { from, packet });
            }
            Told::Connected(peer) => self.step(Input::Connected(peer)),
            Told::Disconnected(peer) => self.step(Input::Disconnected(peer)),
            Told::Built { view, block } => {
                if workshop::is_stale(view, self.head.number()) {
                    return;
                }
                let empty =
                    block.as_ref().is_none_or(|(_, candidate)| candidate.block.transactions.is_empty());
                let bytes = block.map(|(bytes, candidate)| {
                    self.candidates.insert(candidate.block.sealed.hash, *candidate);
                    bytes
                });
                self.step(Input::Built { view, block: bytes, empty });
            }
            Told::Validated { hash, candidate } => {
                let valid = candidate.is_some();
                if let Some(candidate) = candidate {
                    self.candidates.insert(hash, *candidate);
                }
                self.step(Input::Validated { hash, valid });
            }
            Told::Head => self.tell_head_if_new(),
            Told::Transactions => self.tell_transactions(),
            Told::Stop => {}
        }
    }

    fn ring(&mut self) {
        while let Some(Reverse((at, timer))) = self.timers.peek().copied()
            && at <= Instant::now()
        {
            self.timers.pop();
            self.step(Input::Timer(Timer(timer)));
        }
    }

    fn tell_head_if_new(&mut self) {
        let head = self.node.chain().head();
        if head.hash() != self.head.hash() {
            self.head = head;
            self.tell_head();
        }
    }

    fn tell_head(&mut self) {
        self.candidates.retain(|_, candidate| candidate.block.sealed.header.parent_hash == self.head.hash());
        if let Some(head) = self.node.engine_head(&*self.keys, &self.head) {
            self.step(Input::Head(head));
        }
        self.transactions = false;
        self.tell_transactions();
    }

    fn tell_transactions(&mut self) {
        let waiting = !self.node.pool().is_empty();
        if waiting != self.transactions {
            self.transactions = waiting;
            self.step(Input::Transactions(waiting));
        }
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.engine.step(now_ms(), input, &mut effects);
        *lock(&self.node.shared.status) = self.engine.status();
        self.carry_out_all(effects);
    }

    /// In order, and none after one that had to be durable and is not.
    fn carry_out_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if self.silent {
                return;
            }
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Persist(record) => self.persist(&record),
            Effect::Broadcast(packet) => self.broadcast(&packet, &[]),
            Effect::Relay { packet, except } => self.broadcast(&packet, &except),
            Effect::SendTo { peer, packet } => {
                if let Some(network) = self.node.network() {
                    // A peer that is gone is sent it again when it is back.
                    let _ = network.send(&peer, packet.code, packet.bytes.0);
                }
            }
            Effect::BuildBlock(request) => {
                let Some(sealed) = self.node.chain().sealed() else { return };
                let settings = sealed.settings(self.head.number().saturating_add(1));
                let parent = Box::new(self.head.branch.clone());
                let _ = self.workshop.send(Job::Build { request, parent, settings });
            }
            Effect::Validate(block) => self.validate(block),
            Effect::SetTimer { timer, after_ms } => {
                let at = Instant::now() + Duration::from_millis(after_ms);
                self.timers.push(Reverse((at, timer.0)));
            }
            Effect::Commit { block, .. } => self.commit(&block),
            Effect::NeedSync { height, peer } => {
                let _ = self.node.shared.sync.send(sync::Told::Need { height, peer });
            }
            Effect::PeerBehind { peer, .. } => self.offer(peer),
            Effect::Misbehaviour { peer, what } => self.blame(peer, &what),
            Effect::CannotSign(view) => self.node.notice(Notice::Failure {
                doing: "signing a message of consensus",
                reason: format!("the key store did not sign at height {}, round {}", view.height, view.round),
            }),
        }
    }

    /// A validator that cannot keep what it signs must not say it: nothing goes on until the record is durable, and when the
    /// node stops before that, nothing goes on at all.
    fn persist(&mut self, record: &[u8]) {
        let mut batch = Batch::new();
        batch.put(self.node.shared.consensus_table, RECORD, record);
        let mut wait = Duration::from_millis(50);
        while let Err(error) = self.node.chain().database().commit(batch.clone(), Durability::Synced) {
            self.node
                .failed("keeping what this validator signs; it says nothing until that succeeds", &error);
            if self.node.is_stopping() {
                self.silent = true;
                return;
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }

    fn broadcast(&self, packet: &Packet, except: &[Address]) {
        let (Some(network), Some(validators)) = (self.node.network(), &self.head.branch.validators) else {
            return;
        };
        let own = self.keys.address();
        let others = validators.set.addresses().iter().filter(|peer| **peer != own && !except.contains(peer));
        network.send_to_all(others, packet.code, &packet.bytes.0);
    }

    fn validate(&mut self, block: Block) {
        let hash = block.hash();
        if self.candidates.contains_key(&hash) {
            self.step(Input::Validated { hash, valid: true });
            return;
        }
        let parent = Box::new(self.head.branch.clone());
        let _ = self.workshop.send(Job::Validate { block, parent });
    }

    fn commit(&mut self, block: &Block) {
        let parent = &self.head.branch;
        let executed = match self.candidates.remove(&block.hash()) {
            Some(candidate) => self.node.chain().seal(candidate, parent, block.header().clone()),
            None => workshop::execute(&self.node, block, parent, Seals::Quorum),
        };
        match executed.and_then(|candidate| self.node.commit(&[candidate])) {
            // The head that the commit told of makes the engine go on.
            Ok(_) => self.tell_head_if_new(),
            // A sync was faster: its head goes to the engine.
            Err(ImportError::Final { .. }) => self.tell_head_if_new(),
            Err(error) => {
                self.node.failed("committing a block that validators agreed on", &error);
                // Peers have it: it comes again from one of them.
                let height = block.number();
                let _ = self.node.shared.sync.send(sync::Told::Need { height, peer: Address::ZERO });
            }
        }
    }

    /// A validator that is behind is told where this node stands.
    fn offer(&self, peer: Address) {
        if let Some(network) = self.node.network() {
            let message = crate::protocol::Head { number: self.head.number(), hash: self.head.hash() };
            let _ = network.send(&peer, crate::protocol::HEAD, crate::protocol::encode(&message));
        }
    }

    fn blame(&self, peer: Address, what: &Misbehaviour) {
        if let Some(network) = self.node.network() {
            network.report(&peer, weight(what));
        }
        self.node.notice(Notice::Misbehaviour { peer, what: what.to_string() });
    }
}

/// What misbehaviour costs of a peer's score. What an honest node can do by accident, with a stale view of the
/// validators for one, costs little.
fn weight(what: &Misbehaviour) -> u32 {
    match what {
        Misbehaviour::NoValidator(_) | Misbehaviour::NotProposer(_) | Misbehaviour::OwnBlock(_) => 1,
        Misbehaviour::Misplaced(_) | Misbehaviour::Header(_) | Misbehaviour::InvalidBlock(_) => 5,
        _ => super::post::UNREADABLE,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::channel;

    use alloy_primitives::Address;
    use tally_consensus::{Cover, ExtraData, MIX_HASH, Protocol, SecretKey};
    use tally_evm::Genesis;
    use tally_state::Database;

    use super::*;
    use crate::Chain;

    /// More bytes than the store takes in one value: keeping it fails, each time.
    const TOO_MANY: usize = (256 << 20) + 1;

    fn node() -> Node {
        let key = SecretKey::from_bytes(&[7; 32]).expect("well formed");
        let extra = ExtraData::of_validators(&[key.address()]).encode(Protocol::QBFT, Cover::Everything);
        let genesis = serde_json::json!({
            "config": { "chainId": 1, "londonBlock": 0, "zeroBaseFee": true, "qbft": { "blockperiodseconds": 3600 } },
            "nonce": "0x0", "timestamp": "0x58ee40ba", "gasLimit": "0x1fffffffffffff", "difficulty": "0x1",
            "mixHash": MIX_HASH, "coinbase": Address::ZERO, "extraData": Bytes::from(extra), "alloc": {},
        });
        let genesis = Genesis::from_value(&genesis).expect("well formed");
        let chain = Chain::open(Database::in_memory(), genesis, crate::Options::default()).expect("it opens");
        let options = super::super::Options {
            pool: crate::pool::Limits::default(),
            engine: Config::new(Protocol::QBFT),
            keys: Some(Arc::new(key)),
            permissions: tally_peers::Permissions::everyone(),
            target_gas_limit: None,
            threads: 1,
            sync: super::super::Sync::Full,
        };
        Node::start(chain, None, options).expect("it starts")
    }

    /// A restart knows nothing of what was signed then, and may sign something else.
    #[test]
    fn nothing_is_said_that_is_not_durable_when_the_node_stops() {
        let node = node();
        let engine =
            node.engine(Config::new(Protocol::QBFT)).expect("the store is there").expect("a validator");
        let (workshop, _jobs) = channel();
        let mut driver = Driver::new(node.clone(), engine, workshop).expect("a validator");
        let timer = Effect::SetTimer { timer: Timer(9), after_ms: 1 };
        driver.carry_out_all(vec![Effect::Persist(vec![1]), timer.clone()]);
        assert_eq!(driver.timers.len(), 1, "what is durable is followed by the rest");
        node.shared.stopping.store(true, Ordering::Release);
        driver.carry_out_all(vec![Effect::Persist(vec![0; TOO_MANY]), timer.clone()]);
        assert_eq!(driver.timers.len(), 1, "what follows is not carried out");
        driver.carry_out_all(vec![timer]);
        assert_eq!(driver.timers.len(), 1, "nor is anything later");
        node.stop();
    }
}
