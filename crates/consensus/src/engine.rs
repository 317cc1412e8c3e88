//! The round engine: one height after the other.

mod absent;
mod future;
mod height;
mod interface;
mod record;
mod timing;

use std::sync::Arc;

use alloy_primitives::{Address, B256, keccak256};

use crate::block::Block;
use crate::message::{Message, Packet};
use crate::rlp::DecodeError;
use crate::seal::Keys;

use absent::Absent;
use future::{Future, Seen};
use height::{Heard, Height};
use record::Record;

pub use interface::{
    BuildRequest, Config, Effect, Head, Input, Limits, Misbehaviour, Period, Settings, Status, Timer,
};
pub use record::RestoreError;

/// Agrees on blocks with the other validators. See the crate's documentation for what its host promises.
///
/// ```
/// use std::sync::Arc;
/// use tally_consensus::{Config, Effect, Engine, Head, Input, Keys, SecretKey, Protocol, ValidatorSet};
///
/// let key = SecretKey::from_bytes(&[7; 32])?;
/// let me = key.address();
/// let mut engine = Engine::new(Config::new(Protocol::QBFT), Arc::new(key));
/// let head = Head::genesis(Default::default(), 1_700_000_000, ValidatorSet::new(vec![me]));
/// let mut effects = Vec::new();
/// engine.step(1_700_000_000_000, Input::Head(head), &mut effects);
/// assert!(matches!(effects[..], [Effect::SetTimer { after_ms: 1_000, .. }]));
/// # Ok::<(), tally_consensus::KeyError>(())
/// ```
pub struct Engine {
    shared: Shared,
    height: Option<Height>,
    record: Option<Record>,
    future: Future,
    seen: Seen,
}

/// What lasts longer than a height.
struct Shared {
    config: Config,
    keys: Arc<dyn Keys>,
    me: Address,
    absent: Absent,
    timers: u64,
    transactions: bool,
    /// The last block whose body was found to be its header's. The same one comes from many.
    bound: Option<Block>,
}

impl Shared {
    /// Checks that a block's body is the one that its header stands for, before anything is remembered of its
    /// hash: every verdict, vote and seal is about the hash. EEA QBFT takes for granted that two blocks of one digest are
    /// one (`node_auxiliary_functions.dfy`, `lemmaDigest`); by its header alone a block does not keep that.
    fn bind(&mut self, block: &Block) -> Result<(), DecodeError> {
        let known = self.bound.as_ref().is_some_and(|bound| {
            let (a, b) = (bound.header(), block.header());
            let same_roots = a.transactions_root == b.transactions_root
                && a.ommers_hash == b.ommers_hash
                && a.withdrawals_root == b.withdrawals_root;
            same_roots && bound.body() == block.body()
        });
        if !known {
            self.config.bodies.check(block)?;
            self.bound = Some(block.clone());
        }
        Ok(())
    }
}

/// One step: the time, and where effects go.
struct Step<'a> {
    shared: &'a mut Shared,
    now_ms: u64,
    out: &'a mut Vec<Effect>,
}

impl Step<'_> {
    fn set_timer(&mut self, after_ms: u64) -> Timer {
        self.shared.timers += 1;
        let timer = Timer(self.shared.timers);
        self.out.push(Effect::SetTimer { timer, after_ms });
        timer
    }

    fn blame(&mut self, peer: Address, what: Misbehaviour) {
        self.out.push(Effect::Misbehaviour { peer, what });
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({} at {:?})", self.shared.me, self.status())
    }
}

impl Engine {
    /// An engine that waits for its first [`Input::Head`].
    #[must_use]
    pub fn new(config: Config, keys: Arc<dyn Keys>) -> Self {
        let seen = Seen::new(config.limits.duplicate_messages);
        let me = keys.address();
        let shared = Shared {
            config,
            keys,
            me,
            absent: Absent::default(),
            timers: 0,
            transactions: false,
            bound: None,
        };
        Self { shared, height: None, record: None, future: Future::default(), seen }
    }

    /// Takes what the last [`Effect::Persist`] before a crash carried; call it before the first step.
    ///
    /// # Errors
    /// The bytes are no such record; running without it could contradict what was signed before.
    pub fn restore(&mut self, record: &[u8]) -> Result<(), RestoreError> {
        self.record = Some(Record::decode(self.shared.config.protocol, record)?);
        Ok(())
    }

    /// Takes one input at `now_ms`, milliseconds since 1970 by this node's clock, and appends effects.
    ///
    /// The clock serves block periods and timestamps only; everything else goes by timers.
    pub fn step(&mut self, now_ms: u64, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Head(head) => self.head(now_ms, head, effects),
            Input::Message { from, packet } => self.packet(now_ms, from, packet, effects),
            Input::Transactions(waiting) => {
                self.shared.transactions = waiting;
                self.with_height(now_ms, effects, Height::transactions);
            }
            Input::Built { view, block, empty } => self.with_height(now_ms, effects, |height, step| {
                height.built(step, view, block, empty);
            }),
            Input::Validated { hash, valid } => self.with_height(now_ms, effects, |height, step| {
                height.validated(step, hash, valid);
            }),
            Input::Late { hash } => {
                self.with_height(now_ms, effects, |height, step| height.late(step, hash));
            }
            Input::Timer(timer) => {
                let ahead = self.future.ahead();
                self.with_height(now_ms, effects, |height, step| height.timer(step, timer, ahead));
            }
            Input::Connected(peer) => {
                self.shared.absent.connected(peer);
                self.with_height(now_ms, effects, |height, step| height.repeat_to(step, peer));
            }
            Input::Disconnected(peer) => self.shared.absent.disconnected(peer),
        }
    }

    /// Where the engine stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.height.as_ref().map_or_else(Status::default, |height| height.status(&self.shared))
    }

    fn with_height(
        &mut self,
        now_ms: u64,
        out: &mut Vec<Effect>,
        work: impl FnOnce(&mut Height, &mut Step<'_>),
    ) {
        if let Some(height) = &mut self.height {
            let mut step = Step { shared: &mut self.shared, now_ms, out };
            work(height, &mut step);
            height.flush(&mut step);
        }
    }

    fn head(&mut self, now_ms: u64, head: Head, out: &mut Vec<Effect>) {
        let number = head.number.saturating_add(1);
        if self.height.as_ref().is_some_and(|height| number <= height.number()) {
            return;
        }
        let anchor_ms = self.height.as_ref().and_then(|height| height.anchor_of(&head));
        let record = match self.record.take() {
            Some(record) if record.view.height < number => None,
            // Of a later height: the chain has lost blocks. Until they are back, nothing may be signed.
            other => other,
        };
        let mute = record.as_ref().is_some_and(|record| record.view.height > number);
        let (mine, kept) = if mute { (None, record) } else { (record, None) };
        self.record = kept;
        let mut step = Step { shared: &mut self.shared, now_ms, out };
        let mut height = Height::new(head, mute);
        height.start(&mut step, mine, anchor_ms);
        height.flush(&mut step);
        self.height = Some(height);
        for (from, author, message) in self.future.take(number) {
            let vote = matches!(message, Message::Prepare(_) | Message::Commit(_));
            let packet = vote.then(|| message.encode(self.shared.config.protocol));
            let heard = self.message(now_ms, from, author, message, out);
            if let (Some(packet), Heard::NoRoom) = (packet, heard) {
                self.seen.remove(identify(&packet));
            }
        }
    }

    fn packet(&mut self, now_ms: u64, from: Address, packet: Packet, out: &mut Vec<Effect>) {
        let Some(height) = &self.height else { return };
        if packet.bytes.len() > self.shared.config.limits.message_bytes {
            out.push(Effect::Misbehaviour { peer: from, what: Misbehaviour::TooLong(packet.bytes.len()) });
            return;
        }
        let id = identify(&packet);
        if self.seen.contains(id) {
            return;
        }
        let protocol = self.shared.config.protocol;
        let message = match Message::decode(protocol, &packet) {
            Ok(message) => message,
            Err(what) => {
                out.push(Effect::Misbehaviour { peer: from, what: Misbehaviour::Unreadable(what) });
                return;
            }
        };
        let view = message.view();
        let number = height.number();
        if view.height < number {
            // A validator that is behind wants blocks, not an answer to its message. Votes for the last height
            // are no sign of it while they can just be late.
            let behind = view.height.saturating_add(1) < number
                || matches!(message, Message::RoundChange(_))
                || height.has_started();
            if behind && height.validators().contains(from) {
                out.push(Effect::PeerBehind { peer: from, height: view.height });
            }
            return;
        }
        let Some(author) = message.author(protocol, &*self.shared.keys) else {
            out.push(Effect::Misbehaviour { peer: from, what: Misbehaviour::Signature });
            return;
        };
        if author == self.shared.me {
            return;
        }
        if !height.validators().contains(author) {
            // At a later height it may well be one.
            if view.height == number {
                out.push(Effect::Misbehaviour { peer: from, what: Misbehaviour::NoValidator(author) });
            }
            return;
        }
        if let Some(block) = message.block()
            && let Err(problem) = self.shared.bind(block)
        {
            // Not seen, not kept, nothing said of its hash: the same header may come with its own body yet.
            out.push(Effect::Misbehaviour { peer: from, what: Misbehaviour::Body(problem) });
            return;
        }
        self.shared.absent.heard(author);
        if view.height > number && !self.ahead(now_ms, from, author, message.clone(), packet.bytes.len(), out)
        {
            return;
        }
        // What there is no room for is said again (`repeat`), and must not be taken for a copy then: EEA's
        // `messagesReceived` loses nothing that was received.
        if view.height > number || self.message(now_ms, from, author, message, out) != Heard::NoRoom {
            self.seen.insert(id);
        }
    }

    fn ahead(
        &mut self,
        now_ms: u64,
        from: Address,
        author: Address,
        message: Message,
        bytes: usize,
        out: &mut Vec<Effect>,
    ) -> bool {
        let claimed = message.view().height;
        let Some(height) = &self.height else { return false };
        let limits = &self.shared.config.limits;
        let validators = height.validators();
        let kept =
            self.future.keep(limits, height.number(), validators.len(), (from, author, message), bytes);
        let faulty = validators.faulty();
        if let Some((reached, peer)) = self.future.claim(author, claimed, faulty, height.number(), now_ms)
            && !(height.is_decided() && reached <= height.number().saturating_add(1))
        {
            out.push(Effect::NeedSync { height: reached.saturating_sub(1), peer });
        }
        kept
    }

    fn message(
        &mut self,
        now_ms: u64,
        from: Address,
        author: Address,
        message: Message,
        out: &mut Vec<Effect>,
    ) -> Heard {
        let mut heard = Heard::Nothing;
        self.with_height(now_ms, out, |height, step| {
            if !height.validators().contains(author) {
                return;
            }
            let relayed = step.shared.config.relay.then(|| message.encode(step.shared.config.protocol));
            let refused = match message {
                Message::Proposal(proposal) => height.proposal(step, author, *proposal),
                Message::Prepare(prepare) => height.prepare(step, author, prepare),
                Message::Commit(commit) => height.commit(step, author, commit),
                Message::RoundChange(change) => height.round_change(step, author, *change),
            };
            match (refused, relayed) {
                // Only what was new and found good: nobody answers for what it has not looked at.
                (Ok(Heard::New), Some(packet)) => {
                    step.out.push(Effect::Relay { packet, except: [from, author] });
                }
                (Ok(taken), _) => heard = taken,
                // Evidence is not under the author's signature: who passes it on answers for it.
                (Err(what @ Misbehaviour::Unjustified(_)), _) => step.blame(from, what),
                (Err(what), _) => step.blame(author, what),
            }
        });
        heard
    }
}

fn identify(packet: &Packet) -> B256 {
    let mut hasher = alloy_primitives::Keccak256::new();
    hasher.update([packet.code]);
    hasher.update(keccak256(&packet.bytes));
    hasher.finalize()
}
