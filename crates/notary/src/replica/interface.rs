//! What goes into a replica and comes out of it.

use alloy_primitives::Address;
use tally_consensus::{
    Bodies, Config as RoundConfig, Limits, Misbehaviour, ProposerPolicy, Protocol, RestoreError,
};
use tally_contracts::TransactionId;
use thiserror::Error;

use crate::Answer;
use crate::batch::BatchError;
use crate::pool::Client;
use crate::request::{Request, Unfounded};

/// Limits and times. Limits of batches and requests must be equal at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The least time from the beginning of one batch to that of the next, in milliseconds.
    pub batch_interval_ms: u64,
    /// After how many seconds a batch without requests is agreed on.
    pub empty_batch_s: u64,
    /// How long the first round of a batch lasts, in milliseconds; it doubles from round to round,
    /// up to eight times as long.
    pub round_timeout_ms: u64,
    /// How far the time of a proposed batch may lie before this member's clock, in milliseconds. It
    /// may lie two seconds after it at most: the engine's bound of one second, by a header of whole
    /// seconds.
    pub clock_tolerance_ms: u64,
    /// How often another member is asked for new batches, and requests that wait are brought to
    /// all, in milliseconds.
    pub poll_ms: u64,
    /// How long a request waits here before the others are told of it, in milliseconds.
    pub forward_after_ms: u64,
    /// Requests in a batch.
    pub batch_requests: usize,
    /// Bytes of the requests in a batch.
    pub batch_bytes: usize,
    /// Bytes of one request, at most half of `batch_bytes`.
    pub request_bytes: usize,
    /// Requests that may wait here of each client, and of each other member.
    pub share_requests: usize,
    /// Bytes of requests that may wait here of each client, and of each other member.
    pub share_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            batch_interval_ms: 5,
            empty_batch_s: 3_600,
            round_timeout_ms: 1_000,
            clock_tolerance_ms: 10_000,
            poll_ms: 1_000,
            forward_after_ms: 250,
            batch_requests: 1_000,
            batch_bytes: 4 << 20,
            request_bytes: 1 << 20,
            share_requests: 4_000,
            share_bytes: 32 << 20,
        }
    }
}

impl Config {
    /// Bytes of one message between members: a batch, what surrounds it, and its justification.
    #[must_use]
    pub fn message_bytes(&self) -> usize {
        self.batch_bytes.saturating_add(self.request_bytes).saturating_add(256 << 10)
    }

    pub(super) fn of_rounds(&self, members: usize) -> RoundConfig {
        RoundConfig {
            // Each member in turn: one that leaves requests out delays them by its turn.
            policy: ProposerPolicy::RoundRobin,
            max_request_timeout_ms: self.round_timeout_ms.saturating_mul(8),
            limits: Limits {
                message_bytes: self.message_bytes(),
                // Shared evenly: two of the largest messages of each member may wait here for later
                // heights.
                future_bytes: self.message_bytes().saturating_mul(2).saturating_mul(members),
                ..Limits::default()
            },
            bodies: Bodies::OneString,
            ..RoundConfig::new(Protocol::QBFT)
        }
    }
}

/// A timer. Timers are never cancelled: the replica ignores those that it no longer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Of the round engine.
    Round(u64),
    /// To ask others for batches and to forward requests.
    Poll,
    /// To ask this member for more batches.
    Fetch(Address),
}

/// What the host tells a replica. Members go by the address of their voting key.
#[derive(Clone, Debug)]
pub enum Input {
    /// The first one.
    Start,
    /// A client asks.
    Request {
        /// Who asks, as the connection has proven.
        client: Client,
        /// What it asks for.
        request: Request,
    },
    /// A message from another member, of [`Config::message_bytes`] at most.
    Message {
        /// Who sent it, as the connection has proven.
        from: Address,
        /// A [`crate::Message`].
        bytes: Vec<u8>,
    },
    /// A timer has expired.
    Timer(Timer),
    /// Another member is connected.
    Connected(Address),
    /// Another member is connected no longer.
    Disconnected(Address),
}

/// What a replica asks of its host, to be carried out in order.
#[derive(Debug)]
pub enum Effect {
    /// Keep these bytes, in place of those before, durably before any later effect is carried out.
    Persist(Vec<u8>),
    /// A batch is decided. Append it, durably before any later effect is carried out.
    Append {
        /// Its height: one more than that of the last one.
        height: u64,
        /// It, with the seals of a quorum.
        batch: Vec<u8>,
    },
    /// Send a message to another member, if it is connected.
    Send {
        /// The member.
        to: Address,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Send a [`crate::Message::Batches`] with the stored batches from this height on, as many as
    /// fit into a message but one at least; nothing if there is none.
    SendBatches {
        /// To whom.
        to: Address,
        /// The first one.
        from: u64,
    },
    /// Sign the answer with this member's key for answers and send it to those who wait.
    Answer {
        /// Who waits.
        to: Vec<Client>,
        /// The answer.
        answer: Answer,
    },
    /// Tell a client that its request was not taken. Not signed: only answers count.
    Reject {
        /// Who asked.
        to: Client,
        /// Of which transaction.
        transaction: TransactionId,
        /// Why.
        reason: Rejection,
    },
    /// Tell of [`Input::Timer`] after some time.
    SetTimer {
        /// What to tell.
        timer: Timer,
        /// After how many milliseconds.
        after_ms: u64,
    },
    /// A member did what none that is right does: for the log.
    Blame {
        /// The member.
        member: Address,
        /// What it did.
        fault: Fault,
    },
    /// The voting key did not sign; the message was not sent.
    CannotSign {
        /// The height.
        height: u64,
        /// The round.
        round: u32,
    },
    /// A quorum sealed a batch that does not follow from the batches before. More than `f` members
    /// lie, or this member's storage or program is wrong. The replica takes nothing more; a person
    /// has to look.
    Halt {
        /// The height of that batch.
        height: u64,
        /// What is wrong with it.
        why: BatchError,
    },
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// It names somebody else as the requester.
    #[error("the request names another requester than the one that sends it")]
    Requester,
    /// More bytes than a request may have.
    #[error("the request is too large")]
    TooLarge,
    /// The evidence does not allow it.
    #[error(transparent)]
    Unfounded(#[from] Unfounded),
    /// As many requests of this client wait as may. It goes on once some of them are ordered.
    #[error("too many requests of this client wait here")]
    Busy,
}

/// What no member that is right does.
#[derive(Debug, Error)]
pub enum Fault {
    /// A message that cannot be read.
    #[error("an unreadable message")]
    Unreadable,
    /// A block with another batch than its header names.
    #[error("a block with another batch than its header names")]
    Unbound,
    /// Too many forwarded requests, or one that is too large or without sufficient evidence.
    #[error("too many forwarded requests, or one that is too large or without sufficient evidence")]
    Forwarded,
    /// Batches that do not follow, or lack the seals of a quorum.
    #[error("batches that do not follow, or lack the seals of a quorum")]
    Batches,
    /// What the round engine noticed.
    #[error(transparent)]
    Round(Box<Misbehaviour>),
}

/// A storage that a replica cannot go on from.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The voting key is of no member of the cluster.
    #[error("the voting key is of no member of this cluster")]
    NoMember,
    /// The record of what was signed cannot be read.
    #[error(transparent)]
    Record(#[from] RestoreError),
    /// A stored batch is no block.
    #[error("the stored batch {height} cannot be read")]
    Unreadable {
        /// Its height.
        height: u64,
        /// Why not.
        #[source]
        source: tally_consensus::DecodeError,
    },
    /// A stored batch does not follow the one before.
    #[error("the stored batch {height} does not follow the one before, or is of another cluster")]
    Batch {
        /// Its height.
        height: u64,
        /// Why not.
        #[source]
        source: BatchError,
    },
}
