//! One member of the cluster.

mod interface;
mod sync;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use tally_consensus::{
    Block, BuildRequest, Effect as RoundEffect, Engine, Head, Input as RoundInput, Keys, Misbehaviour,
    Packet, Period, Protocol, Settings, ValidatorsFrom,
};
use tally_contracts::{Timestamp, encode};

use crate::batch::{self, Batch, BatchError};
use crate::cluster::Cluster;
use crate::memory::{Consumptions, Memory};
use crate::message::Message;
use crate::pool::{Client, Pool, Share, Source};
use crate::request::{Judge, Request, Verdicts};
use crate::{Answer, Outcome};

pub use interface::{Config, Effect, Fault, Input, OpenError, Rejection, Timer};

/// The last decided batch.
struct Tip {
    height: u64,
    hash: B256,
    timestamp_s: u64,
    time: Timestamp,
    proposer: Address,
}

/// One member of a clustered notary: a state machine that is told what happens and says what is to
/// be done.
pub struct Replica {
    cluster: Arc<Cluster>,
    config: Config,
    keys: Arc<dyn Keys>,
    me: Address,
    engine: Engine,
    verdicts: Verdicts,
    memory: Memory,
    pool: Pool,
    tip: Tip,
    /// Whether the engine was told that requests wait.
    waiting: bool,
    halted: bool,
    /// When batches were last sent to each member.
    served: BTreeMap<Address, u64>,
    /// Whom to ask for batches next.
    turn: usize,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replica({} after batch {})", self.me, self.tip.height)
    }
}

/// Appends to effects at one time.
struct Step<'a> {
    now_ms: u64,
    out: &'a mut Vec<Effect>,
}

impl Replica {
    /// The member of `cluster` whose voting key `keys` has, as its storage left it: `record` is
    /// what the last [`Effect::Persist`] carried, `batches` what all [`Effect::Append`]s did, in
    /// order.
    ///
    /// Seals of the batches are not verified again; the storage has to notice what is damaged.
    ///
    /// # Errors
    /// [`OpenError`]: the storage is not that of this member, or is damaged. Going on without it
    /// could contradict what the member signed.
    pub fn open(
        cluster: Arc<Cluster>,
        config: Config,
        keys: Arc<dyn Keys>,
        judge: Box<dyn Judge>,
        record: Option<&[u8]>,
        batches: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Self, OpenError> {
        let me = keys.address();
        if !cluster.voters().contains(me) {
            return Err(OpenError::NoMember);
        }
        let mut engine = Engine::new(config.of_rounds(cluster.members().len()), Arc::clone(&keys));
        if let Some(record) = record {
            engine.restore(record)?;
        }
        let tip = Tip {
            height: 0,
            hash: B256::from(*cluster.id().as_bytes()),
            timestamp_s: 0,
            time: Timestamp::EPOCH,
            proposer: Address::ZERO,
        };
        let mut replica = Self {
            cluster,
            config,
            keys,
            me,
            engine,
            verdicts: Verdicts::new(judge),
            memory: Memory::default(),
            pool: Pool::default(),
            tip,
            waiting: false,
            halted: false,
            served: BTreeMap::new(),
            turn: 0,
        };
        for bytes in batches {
            let height = replica.tip.height.saturating_add(1);
            let block = Block::decode(Protocol::QBFT, Bytes::from(bytes))
                .map_err(|source| OpenError::Unreadable { height, source })?;
            let batch = replica.follows(&block).map_err(|source| OpenError::Batch { height, source })?;
            replica.memory.apply(&batch);
            replica.advance(&block, &batch);
        }
        Ok(replica)
    }

    /// The number of batches that are decided and carried out here.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.tip.height
    }

    /// What it has seen consumed: to be read while it goes on.
    #[must_use]
    pub fn consumptions(&self) -> Consumptions {
        self.memory.consumptions()
    }

    /// How many requests wait here to be ordered.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pool.len()
    }

    /// The address of its voting key.
    #[must_use]
    pub fn address(&self) -> Address {
        self.me
    }

    /// Whether it has stopped for good, see [`Effect::Halt`].
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.halted
    }

    /// Takes one input at `now_ms`, milliseconds since 1970 by this member's clock, and appends
    /// effects.
    pub fn step(&mut self, now_ms: u64, input: Input, out: &mut Vec<Effect>) {
        if self.halted {
            return;
        }
        let step = &mut Step { now_ms, out };
        match input {
            Input::Start => {
                let head = self.head();
                self.drive(step, RoundInput::Head(head));
                step.out.push(Effect::SetTimer { timer: Timer::Poll, after_ms: self.config.poll_ms });
            }
            Input::Request { client, request } => self.request(step, client, request),
            Input::Message { from, bytes } => self.message(step, from, &bytes),
            Input::Timer(Timer::Round(timer)) => {
                self.drive(step, RoundInput::Timer(tally_consensus::Timer(timer)));
            }
            Input::Timer(Timer::Poll) => self.poll(step),
            Input::Timer(Timer::Fetch(peer)) => self.fetch(step, peer),
            Input::Connected(peer) => {
                self.drive(step, RoundInput::Connected(peer));
                self.fetch(step, peer);
            }
            Input::Disconnected(peer) => self.drive(step, RoundInput::Disconnected(peer)),
        }
        self.tell_of_requests(step);
    }

    fn request(&mut self, step: &mut Step<'_>, client: Client, request: Request) {
        let transaction = request.commit.transaction;
        let reject = |step: &mut Step<'_>, client, reason| {
            step.out.push(Effect::Reject { to: client, transaction, reason });
        };
        if request.commit.requester != client.name {
            return reject(step, client, Rejection::Requester);
        }
        let bytes = encode(&request).len();
        if bytes > self.config.request_bytes {
            return reject(step, client, Rejection::TooLarge);
        }
        let id = request.id();
        if let Err(why) = self.verdicts.of(id, &request) {
            return reject(step, client, Rejection::Unfounded(why));
        }
        if self.memory.is_committed(&request.commit) {
            let answer = Answer { transaction, outcome: Outcome::Committed };
            step.out.push(Effect::Answer { to: vec![client], answer });
            return;
        }
        let source = Source::Client(client.name.clone());
        if !self.pool.add(id, request, bytes, source, self.share(), step.now_ms) {
            return reject(step, client, Rejection::Busy);
        }
        self.pool.wait(&id, &client);
    }

    fn share(&self) -> Share {
        Share { requests: self.config.share_requests, bytes: self.config.share_bytes }
    }

    fn message(&mut self, step: &mut Step<'_>, from: Address, bytes: &[u8]) {
        if from == self.me || !self.cluster.voters().contains(from) {
            return;
        }
        match Message::from_bytes(bytes, self.config.message_bytes()) {
            Ok(Message::Round { code, bytes }) => {
                let packet = Packet { code, bytes: bytes.into() };
                self.drive(step, RoundInput::Message { from, packet });
            }
            Ok(Message::Forward(requests)) => self.forwarded(step, from, requests),
            Ok(Message::Fetch { from: height }) => self.serve(step, from, height),
            Ok(Message::Batches(batches)) => self.take_batches(step, from, batches),
            Err(_) => step.out.push(Effect::Blame { member: from, fault: Fault::Unreadable }),
        }
    }

    fn forwarded(&mut self, step: &mut Step<'_>, from: Address, requests: Vec<Request>) {
        if requests.len() > self.config.batch_requests {
            step.out.push(Effect::Blame { member: from, fault: Fault::Forwarded });
            return;
        }
        for request in requests {
            let bytes = encode(&request).len();
            let id = request.id();
            if bytes > self.config.request_bytes || self.verdicts.of(id, &request).is_err() {
                step.out.push(Effect::Blame { member: from, fault: Fault::Forwarded });
                return;
            }
            if !self.memory.is_committed(&request.commit) {
                // Without room it waits at the sender, which brings it again.
                self.pool.add(id, request, bytes, Source::Member(from), self.share(), step.now_ms);
            }
        }
    }

    /// Tells the engine whether there is something to propose.
    fn tell_of_requests(&mut self, step: &mut Step<'_>) {
        let waiting = !self.pool.is_empty();
        if waiting != self.waiting && !self.halted {
            self.waiting = waiting;
            self.drive(step, RoundInput::Transactions(waiting));
        }
    }

    /// Tells the engine something and carries out what it can have from this member at once.
    fn drive(&mut self, step: &mut Step<'_>, input: RoundInput) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut effects = Vec::new();
            self.engine.step(step.now_ms, input, &mut effects);
            for effect in effects {
                match effect {
                    RoundEffect::Persist(record) => step.out.push(Effect::Persist(record)),
                    RoundEffect::Broadcast(packet) => self.broadcast(step, &packet, &[]),
                    RoundEffect::Relay { packet, except } => self.broadcast(step, &packet, &except),
                    RoundEffect::SendTo { peer, packet } => {
                        let bytes =
                            Message::Round { code: packet.code, bytes: packet.bytes.to_vec() }.to_bytes();
                        step.out.push(Effect::Send { to: peer, bytes });
                    }
                    RoundEffect::BuildBlock(request) => inputs.push_back(self.build(step.now_ms, &request)),
                    RoundEffect::Validate(block) => inputs.push_back(self.validate(step.now_ms, &block)),
                    RoundEffect::SetTimer { timer, after_ms } => {
                        step.out.push(Effect::SetTimer { timer: Timer::Round(timer.0), after_ms });
                    }
                    RoundEffect::Commit { block, .. } => {
                        if block.number() == self.tip.height.saturating_add(1) && self.decided(step, &block) {
                            inputs.push_back(RoundInput::Head(self.head()));
                        }
                    }
                    RoundEffect::NeedSync { peer, .. } => self.fetch(step, peer),
                    RoundEffect::PeerBehind { peer, height } => self.serve(step, peer, height),
                    RoundEffect::Misbehaviour { peer, what } => {
                        let fault = match what {
                            Misbehaviour::Body(_) => Fault::Unbound,
                            what => Fault::Round(Box::new(what)),
                        };
                        step.out.push(Effect::Blame { member: peer, fault });
                    }
                    RoundEffect::CannotSign(view) => {
                        step.out.push(Effect::CannotSign { height: view.height, round: view.round });
                    }
                }
                if self.halted {
                    return;
                }
            }
        }
    }

    fn broadcast(&self, step: &mut Step<'_>, packet: &Packet, except: &[Address]) {
        let bytes = Message::Round { code: packet.code, bytes: packet.bytes.to_vec() }.to_bytes();
        for to in self.cluster.others(self.me).filter(|to| !except.contains(to)) {
            step.out.push(Effect::Send { to, bytes: bytes.clone() });
        }
    }

    fn build(&mut self, now_ms: u64, request: &BuildRequest) -> RoundInput {
        let requests = self.pool.choose(self.config.batch_requests, self.config.batch_bytes);
        let empty = requests.is_empty();
        let batch = Batch { time: batch::time_within(request.timestamp_s, now_ms, self.tip.time), requests };
        let block = batch::build(request, &batch, &self.memory.outcomes(&batch));
        RoundInput::Built { view: request.view, block: Some(block), empty }
    }

    /// Judges a proposed batch: its form, its outcomes, the evidence of every request in it, then
    /// its time.
    fn validate(&mut self, now_ms: u64, block: &Block) -> RoundInput {
        let hash = block.hash();
        let Ok(batch) = self.follows(block) else {
            return RoundInput::Validated { hash, valid: false };
        };
        let founded = batch.requests.iter().all(|request| {
            encode(request).len() <= self.config.request_bytes
                && self.verdicts.of(request.id(), request).is_ok()
        });
        if !founded {
            return RoundInput::Validated { hash, valid: false };
        }
        // That it is not too far ahead is for the engine: it waits until the time has come.
        if batch.time.as_millis().saturating_add(self.config.clock_tolerance_ms) < now_ms {
            return RoundInput::Late { hash };
        }
        RoundInput::Validated { hash, valid: true }
    }

    /// The batch of a block, if the block follows the last one and says what comes of its batch
    /// here.
    fn follows(&self, block: &Block) -> Result<Batch, BatchError> {
        if block.number() != self.tip.height.saturating_add(1) || block.parent() != self.tip.hash {
            return Err(BatchError::Header);
        }
        // What the encoding adds to the requests is less than the limit of one more request.
        let limit = self.config.batch_bytes.saturating_add(self.config.request_bytes);
        let batch = batch::read(block, self.tip.time, limit, self.config.batch_requests)?;
        batch::agrees(block, &self.memory.outcomes(&batch))?;
        Ok(batch)
    }

    /// Carries out a batch that a quorum has sealed; whether it could.
    fn decided(&mut self, step: &mut Step<'_>, block: &Block) -> bool {
        let batch = match self.follows(block) {
            Ok(batch) => batch,
            Err(why) => {
                // More than `f` members lie, or this one's memory is damaged. Either way it must
                // sign no more.
                self.halted = true;
                step.out.push(Effect::Halt { height: block.number(), why });
                return false;
            }
        };
        step.out.push(Effect::Append { height: block.number(), batch: block.bytes().to_vec() });
        let outcomes = self.memory.apply(&batch);
        self.advance(block, &batch);
        for (request, outcome) in batch.requests.iter().zip(outcomes) {
            let to = self.pool.remove(&request.id());
            if !to.is_empty() {
                let answer = Answer { transaction: request.commit.transaction, outcome };
                step.out.push(Effect::Answer { to, answer });
            }
        }
        true
    }

    fn advance(&mut self, block: &Block, batch: &Batch) {
        self.tip = Tip {
            height: block.number(),
            hash: block.hash(),
            timestamp_s: block.header().timestamp,
            time: batch.time,
            proposer: block.proposer(),
        };
    }

    fn head(&self) -> Head {
        Head {
            number: self.tip.height,
            hash: self.tip.hash,
            timestamp_s: self.tip.timestamp_s,
            proposer: self.tip.proposer,
            validators: self.cluster.voters().clone(),
            named: ValidatorsFrom::Contract,
            vote: None,
            settings: Settings {
                period: Period::Milliseconds(self.config.batch_interval_ms),
                empty_period_s: self.config.empty_batch_s,
                request_timeout_ms: self.config.round_timeout_ms,
            },
        }
    }
}
