//! Mutually authenticated sessions between the known nodes of a chain.
//!
//! A [`Network`] listens, keeps sessions with the known peers, and lets others in as far as the
//! [`Permissions`] and the [`Limits`] allow. Every session is TLS 1.3 between throw-away keys, inside of
//! which both nodes [prove](handshake) the keys that name them; [messages](frame) go in two lanes, urgent
//! ahead of bulk, each with bounds. The host is told what happens by [`Events`] and sends from any thread.
//!
//! What is decided is decided without IO, clock or randomness: [`handshake`], [`frame`], and the private
//! modules `admission` (which sessions may be), `roster` (whom to connect to, and when), `standing` (who
//! misbehaves), `outbox` and `flow` (what is sent next). `network` and `session` are the shell around them.

mod admission;
mod config;
pub mod enode;
mod event;
mod file;
mod flow;
pub mod frame;
pub mod fuzz;
pub mod handshake;
mod key;
pub mod keystore;
mod kind;
mod network;
mod outbox;
pub mod permissions;
mod roster;
mod send;
mod session;
mod standing;
pub mod static_nodes;
mod tls;

pub use config::{Config, Limits, Randomness, Timing};
pub use enode::{Enode, Host};
pub use event::{DisconnectReason, Event, Events, NoEvent, Responder, Waker};
pub use file::create_private;
pub use handshake::{Refusal, Role};
pub use key::{KeyError, KeyFault, NodeId, NodeIdError, NodeKey, NotOnCurve};
pub use kind::{Kinds, Lane};
pub use network::{AddError, KnownPeer, Network, PeerInfo, StartError};
pub use permissions::Permissions;
pub use roster::Backoff;
pub use send::{Pending, RequestError, SendError};
pub use standing::{FULL_SCORE, ScorePolicy};
pub use tls::TlsError;
