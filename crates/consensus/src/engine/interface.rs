//! What goes into the engine and comes out of it.

use alloy_primitives::{Address, B256, Bytes};
use thiserror::Error;

use crate::Protocol;
use crate::block::Block;
use crate::body::Bodies;
use crate::extra::Vote;
use crate::header::{HeaderError, ValidatorsFrom};
use crate::justify::Unjustified;
use crate::message::{MessageError, Packet, View};
use crate::rlp::DecodeError;
use crate::validators::{ProposerPolicy, ValidatorSet};

/// What holds for all heights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The protocol and the form of its messages.
    pub protocol: Protocol,
    /// The form of bodies. Default: Ethereum's.
    pub bodies: Bodies,
    /// How proposers follow each other.
    pub policy: ProposerPolicy,
    /// Cap on the request timeout, which doubles from round to round. Default: 60 s.
    pub max_request_timeout_ms: u64,
    /// Request timeout of a round whose proposer is disconnected, or let its last turn pass and has been
    /// silent since. It applies while no more than `f` validators are so, and until something is heard.
    /// Never above the request timeout. `None` (the default) takes an eighth of it, at least 50 ms.
    pub absent_timeout_ms: Option<u64>,
    /// Passes each new valid message on to the other validators, for networks where not all are
    /// connected to all. Default: off.
    pub relay: bool,
    /// Vanity data of the blocks that this node proposes.
    pub vanity: B256,
    /// Bounds on what others can make this node keep.
    pub limits: Limits,
}

impl Config {
    /// The defaults for a protocol.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            bodies: Bodies::default(),
            policy: ProposerPolicy::RoundRobin,
            max_request_timeout_ms: 60_000,
            absent_timeout_ms: None,
            relay: false,
            vanity: B256::ZERO,
            limits: Limits::default(),
        }
    }
}

/// Bounds on what others can make this node keep. The defaults are Besu's where it has such a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `messageQueueLimit`: messages that a host keeps for the engine while it is busy; the host's to apply.
    pub message_queue: usize,
    /// `duplicateMessageLimit`: messages remembered so that copies are dropped unread.
    pub duplicate_messages: usize,
    /// `futureMessagesLimit`: messages kept for later heights, shared evenly among validators.
    pub future_messages: usize,
    /// `futureMessagesMaxDistance`: heights ahead for which messages are kept.
    pub future_distance: u64,
    /// Bytes of messages kept for later heights, shared evenly among validators.
    pub future_bytes: usize,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Rounds above the current one for which prepare and commit messages of a validator are kept.
    pub future_rounds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_queue: 1_000,
            duplicate_messages: 100,
            future_messages: 1_000,
            future_distance: 10,
            future_bytes: 64 << 20,
            message_bytes: 32 << 20,
            future_rounds: 4,
        }
    }
}

/// The least time between two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// `blockperiodseconds`: from timestamp to timestamp.
    Seconds(u64),
    /// `xblockperiodmilliseconds`: from block to block by this node's clock; timestamps may repeat below a
    /// second.
    Milliseconds(u64),
}

/// What the genesis and its transitions say for a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The least time between two blocks.
    pub period: Period,
    /// `emptyblockperiodseconds`: the least time before a block without transactions; zero for none of its
    /// own.
    pub empty_period_s: u64,
    /// `requesttimeoutseconds`, in milliseconds: how long round 0 waits for its block.
    pub request_timeout_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { period: Period::Seconds(1), empty_period_s: 0, request_timeout_ms: 1_000 }
    }
}

impl Settings {
    /// Seconds that must lie between the timestamps of a block and its parent.
    #[must_use]
    pub fn timestamp_gap_s(&self) -> u64 {
        match self.period {
            Period::Seconds(seconds) => seconds,
            Period::Milliseconds(ms) => ms / 1_000,
        }
    }

    pub(super) fn period_ms(&self) -> u64 {
        match self.period {
            Period::Seconds(seconds) => seconds.saturating_mul(1_000),
            Period::Milliseconds(ms) => ms,
        }
    }
}

/// The last block of the chain, and what holds for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number.
    pub number: u64,
    /// Its hash on the chain.
    pub hash: B256,
    /// Its timestamp, in seconds.
    pub timestamp_s: u64,
    /// Its coinbase: the proposer from which the next one follows.
    pub proposer: Address,
    /// The validators of the next block.
    pub validators: ValidatorSet,
    /// Where the next block names them.
    pub named: ValidatorsFrom,
    /// What this node votes for if it proposes the next block.
    pub vote: Option<Vote>,
    /// What the genesis says for the next block.
    pub settings: Settings,
}

impl Head {
    /// A head with defaults for whatever is not said, its proposer the zero address as in a genesis.
    #[must_use]
    pub fn genesis(hash: B256, timestamp_s: u64, validators: ValidatorSet) -> Self {
        Self {
            number: 0,
            hash,
            timestamp_s,
            proposer: Address::ZERO,
            validators,
            named: ValidatorsFrom::Headers,
            vote: None,
            settings: Settings::default(),
        }
    }
}

/// A timer, by which its expiry is told. Timers are never cancelled: the engine ignores those that it no
/// longer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer(pub u64);

/// What the host tells the engine. Peers go by the address of their node key, which for a validator is its
/// address as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The chain has a new last block: at start, after [`Effect::Commit`], or from a sync.
    Head(Head),
    /// A message from a peer.
    Message {
        /// Who sent it, not necessarily its author.
        from: Address,
        /// The message.
        packet: Packet,
    },
    /// The answer to [`Effect::BuildBlock`].
    Built {
        /// As asked.
        view: View,
        /// The block's RLP, with the extra data asked for; `None` when none could be built.
        block: Option<Bytes>,
        /// Whether it has no transactions.
        empty: bool,
    },
    /// The answer to [`Effect::Validate`].
    Validated {
        /// The block's hash on the chain: [`Block::hash`].
        hash: B256,
        /// Whether it can follow the head.
        valid: bool,
    },
    /// The answer to [`Effect::Validate`] of a host that found nothing wrong with the block but that
    /// its time is too long ago by the host's clock. Nobody is blamed, and no vote is given for it
    /// until a later round proves that a quorum was prepared on it: correct validators are among
    /// these, and their clocks count.
    Late {
        /// The block's hash on the chain: [`Block::hash`].
        hash: B256,
    },
    /// A timer has expired.
    Timer(Timer),
    /// A peer has connected.
    Connected(Address),
    /// A peer has disconnected.
    Disconnected(Address),
    /// Whether transactions wait to be put into a block. Only needed with an empty-block period.
    Transactions(bool),
}

/// A block to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRequest {
    /// For which round.
    pub view: View,
    /// The block to build on: the head.
    pub parent: B256,
    /// Its timestamp, in seconds.
    pub timestamp_s: u64,
    /// Its coinbase: this node.
    pub proposer: Address,
    /// Its `extraData`.
    pub extra_data: Bytes,
}

/// What the engine asks of its host, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Keep these bytes, in place of those before, durably before any later effect is carried out.
    Persist(Vec<u8>),
    /// Send to all validators that are connected.
    Broadcast(Packet),
    /// Send to one peer.
    SendTo {
        /// The peer.
        peer: Address,
        /// The message.
        packet: Packet,
    },
    /// Send to all validators that are connected but these.
    Relay {
        /// The message, as it came.
        packet: Packet,
        /// Whence it came, and its author.
        except: [Address; 2],
    },
    /// Build a block and answer with [`Input::Built`].
    BuildBlock(BuildRequest),
    /// Execute a block on the head and answer with [`Input::Validated`]. The rules of the consensus have been
    /// checked, and that the body is the one that the header stands for: the answer is about the hash.
    Validate(Block),
    /// Tell of [`Input::Timer`] after some time.
    SetTimer {
        /// What to tell.
        timer: Timer,
        /// After how long.
        after_ms: u64,
    },
    /// The block is final, with its seals. Import it and answer with [`Input::Head`]. The block may be one
    /// that this node never validated.
    Commit {
        /// The block, with its seals.
        block: Block,
        /// The round in which it was agreed on.
        round: u32,
    },
    /// Others are ahead: the chain has blocks up to `height` at least.
    NeedSync {
        /// The last block that is known to exist.
        height: u64,
        /// Somebody who has it.
        peer: Address,
    },
    /// A validator still works on `height`, which this node's chain has: offer it blocks from there on.
    PeerBehind {
        /// The validator.
        peer: Address,
        /// The height that it works on.
        height: u64,
    },
    /// A peer did what no correct one does.
    Misbehaviour {
        /// The peer: the author of contradictions, else the sender of what is wrong.
        peer: Address,
        /// What it did.
        what: Misbehaviour,
    },
    /// The key store did not sign; the message was not sent.
    CannotSign(View),
}

/// What no correct peer does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Misbehaviour {
    /// A message above the limit.
    #[error("a message of {0} bytes")]
    TooLong(usize),
    /// No message of the protocol.
    #[error("an unreadable message")]
    Unreadable(#[source] MessageError),
    /// A signature that is of nobody.
    #[error("a message without a valid signature")]
    Signature,
    /// A message by somebody who is no validator.
    #[error("a message of {0}, who is no validator")]
    NoValidator(Address),
    /// A proposal by somebody else than the proposer of the round.
    #[error("a proposal of {0}, who is not the proposer of the round")]
    NotProposer(Address),
    /// A proposal whose block is not for its round, height or parent.
    #[error("a proposal with a block of another place: {0}")]
    Misplaced(&'static str),
    /// A proposal whose block breaks a rule of the consensus.
    #[error("a proposal whose header breaks a rule")]
    Header(#[source] HeaderError),
    /// A block whose body is not the one that its header stands for. The header alone is under a validator's
    /// signature in every message but QBFT's proposal, so it is the sender's, not the author's.
    #[error("a block whose body is not that of its header")]
    Body(#[source] DecodeError),
    /// A proposal whose block cannot follow the head.
    #[error("a proposal of the invalid block {0}")]
    InvalidBlock(B256),
    /// A proposal or round change without justification.
    #[error("an unjustified proposal or round change")]
    Unjustified(#[source] Unjustified),
    /// A commit seal that is not the author's over the digest.
    #[error("a commit seal that is not its author's")]
    CommitSeal,
    /// Two contradicting messages for the same round.
    #[error("contradicting messages for {0:?}")]
    Equivocation(View),
    /// A round change to round 0.
    #[error("a round change to round 0")]
    RoundZero,
    /// A block that this node's own host built and that cannot be read.
    #[error("a block built by this node cannot be read")]
    OwnBlock(#[source] DecodeError),
}

/// Where the engine stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The height and round that it works on; zeros before the first head.
    pub view: Option<View>,
    /// Who proposes in this round.
    pub proposer: Option<Address>,
    /// Whether this node is a validator of the height.
    pub validator: bool,
    /// Whether the height is decided and the host's import is awaited.
    pub decided: bool,
    /// The round in which this node was last prepared at this height.
    pub prepared: Option<u32>,
}
