//! One round engine; IBFT 2.0 and QBFT on it. Pure: no IO, no clock, no randomness.
//!
//! [`Engine`] is fed [`Input`]s (messages, timers, answers of the host, new heads) with the time, and
//! answers with [`Effect`]s, in order. It agrees on one height after the other. [`qbft`] and [`ibft2`] hold
//! what differs between the protocols: the forms of messages and what justifies them; [`ExtraData`] and
//! [`Block`] hold the differences in headers. [`Expectation`] checks headers, [`Tally`] counts votes.
//!
//! A block is named by the hash of its header, so its body is held against the header ([`Bodies`]) before
//! anything is done with it: what the host says of a hash is then about the same bytes everywhere.
//!
//! A host keeps four promises, on which safety rests: effects are carried out in order; what
//! [`Effect::Persist`] carries is durable before anything after it is sent, and the last one is handed to
//! [`Engine::restore`] after a restart; a key signs in one place only; [`Input::Validated`] says yes only to
//! blocks that extend the head correctly.
//!
//! Two liveness measures beside the specifications, both local and without influence on safety:
//! a validator that was disconnected or silent in its last turn gets a short timeout as proposer until
//! something is heard from it ([`Config::absent_timeout_ms`]), so that one dead validator does not slow every
//! round of its turn; and messages of the current round are repeated to whoever connects and, while
//! nothing is decided, once per request timeout, so that a validator that was away joins the highest
//! round that `f + 1` others are in at once.

mod block;
mod body;
mod engine;
mod extra;
mod header;
pub mod ibft2;
mod justify;
pub mod message;
mod protocol;
pub mod qbft;
mod rlp;
mod seal;
mod validators;
mod votes;

pub use block::{Block, block_hash, hash_covering};
pub use body::Bodies;
pub use engine::{
    BuildRequest, Config, Effect, Engine, Head, Input, Limits, Misbehaviour, Period, RestoreError, Settings,
    Status, Timer,
};
pub use extra::{Cover, ExtraData, Vote};
pub use header::{Expectation, HeaderError, MAX_AHEAD_S, MIX_HASH, ValidatorsFrom};
pub use justify::Unjustified;
pub use message::{Message, MessageError, Packet, View};
pub use protocol::Protocol;
pub use rlp::{DecodeError, Problem};
pub use seal::{KeyError, Keys, Seal, SealError, SecretKey, recover};
pub use validators::{ProposerPolicy, ValidatorSet, quorum};
pub use votes::{Proposals, Tally};
