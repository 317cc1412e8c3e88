//! Ordered, acknowledged, deduplicated delivery between named peers over mutually authenticated TLS 1.3.
//!
//! Each node numbers the messages to a peer from 1 without a gap and keeps them in its outbox until the peer
//! has acknowledged them. The sender opens the connection; the receiver answers how far it has come, and the
//! sender goes on from there. So a message may travel more than once, but is handed to the inbox exactly once in
//! each life of the receiving process, and again only if that process died before it made the message durable.
//!
//! ```text
//!  store ── send ──▶ memory (bounded) ─┐                          ┌─▶ Inbox::receive ──▶ store
//!    ▲                                 ├─▶ one TLS connection ──▶─┤                       │
//!    └── outbox ──── read back ────────┘◀──── acknowledged ───────┘◀──── acknowledge ─────┘
//! ```
//!
//! One task serves each connection. A peer that is dead, slow, silent or hostile costs its own queue, one
//! connection and a bounded amount of memory (`buffer_limit` on the way out, about 200 KiB or twice a message on
//! the way in), and holds up nobody else.
//!
//! A peer speaks for the name in its certificate and for no other, and only while the [`Directory`] knows it.

mod backoff;
mod error;
mod frame;
mod inbound;
mod life;
mod messaging;
mod metrics;
mod outbound;
mod queues;
mod reader;
mod settings;
mod shared;
mod status;
mod tls;

pub use bytes::Bytes;
pub use error::{Cause, ConnectionError, ProtocolError, Reason, StartError};
pub use frame::{PROTOCOL_VERSION, STANDING_LIMIT};
pub use messaging::{Messaging, Node};
pub use metrics::Metrics;
pub use queues::{Acquaintance, Directory, Inbox, Outbox, Position, QueueId, Refusal, Unfit};
pub use settings::{Settings, SettingsError};
pub use shared::Random;
pub use status::{InboundStatus, Link, OutboundStatus, PeerStatus, Refused};
pub use tls::Tls;
