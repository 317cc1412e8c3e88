//! Durable execution: a flow survives a crash at any instruction, by journal and replay.
//!
//! | module | what it answers |
//! | --- | --- |
//! | [`Flow`], [`Responder`], [`Registry`] | what can run here, in which versions |
//! | [`Context`], [`Session`] | what a flow's code sees of the world |
//! | [`Request`], [`Host`] | what a flow asks of its node |
//! | [`Bearer`] | who the node is, now and before |
//! | [`Engine`] | which flow runs when; starts, messages, timers, hospital |
//! | [`Unit`], [`Saved`] | what becomes durable, and what a flow is taken up from |
//!
//! A flow is async Rust. Whenever it waits or ends, what it did since becomes one [`Unit`]: the messages that arrived
//! for it, its steps, what it sends and what it changes. The node makes units durable in order, many at once, and
//! lets messages out only then. After a crash each flow runs again over its steps: what it asked is answered from
//! them, what it sent is not sent again, and it goes on where the last durable unit ends. What it had done since
//! nobody has seen.
//!
//! Nothing here reads a clock, draws randomness, does input or output, or starts a thread.

mod bearer;
mod cell;
mod context;
mod engine;
mod error;
mod fate;
mod id;
mod journal;
mod message;
mod registry;
mod service;
#[cfg(test)]
mod tests;

pub use bearer::{Bearer, FormerKey};
pub use context::{Context, Session};
pub use engine::{
    Begun, ControlError, Delivered, DeliveryError, Drain, Engine, FlowState, Limits, RestoreError,
    StartError, Started, Turn, View,
};
pub use error::{Fate, FlowError};
pub use id::{FlowId, IdError, SessionId};
pub use journal::{Arrival, Mark, Origin, Outcome, Saved, Start, Unit};
pub use message::{Body, Message, MessageError};
pub use registry::{Description, Flow, Registry, Responder};
pub use service::{
    AttachmentPart, ClusterAnswer, Commit, Committed, Filter, Host, LedgerWrite, Notaries, Notary, Performed,
    Proposal, Purchase, Rate, Reach, Request, Response, Selection, Shared, Trouble, Unconsumed,
};
pub use tally_notary::NotaryKind;
