//! How messaging stands, for an operator and for the node's metrics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tally_contracts::Name;

use crate::error::ConnectionError;
use crate::queues::QueueId;

/// Where the connection to a peer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Nothing to send.
    Idle,
    /// Being made.
    Connecting,
    /// Made.
    Connected,
    /// Made again after this wait (as drawn when it began), or at once after a nudge.
    Waiting(Duration),
}

/// The queue to a peer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OutboundStatus {
    /// Where the connection stands.
    pub link: Link,
    /// The highest number that messaging knows of.
    pub announced: u64,
    /// The highest number acknowledged by the peer, as far as this process has heard.
    pub acknowledged: u64,
    /// Messages held in memory.
    pub buffered_messages: usize,
    /// Their bytes.
    pub buffered_bytes: usize,
    /// Connections made after the first.
    pub reconnections: u64,
    /// Why the last attempt or connection ended, until one succeeds.
    pub problem: Option<Arc<ConnectionError>>,
}

/// The connection from a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboundStatus {
    /// From where.
    pub address: SocketAddr,
    /// The peer's queue.
    pub queue: QueueId,
    /// The highest number accepted.
    pub accepted: u64,
    /// The highest number acknowledged to the peer.
    pub acknowledged: u64,
    /// Reading stands still until the inbox has room.
    pub paused: bool,
}

/// One peer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PeerStatus {
    /// Its name.
    pub name: Name,
    /// The queue to it, if there was ever something to send.
    pub outbound: Option<OutboundStatus>,
    /// The connection from it, if there is one.
    pub inbound: Option<InboundStatus>,
}

/// A connection to this node that was refused or broke a rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Refused {
    /// From where.
    pub address: SocketAddr,
    /// Who, once its certificate was verified.
    pub peer: Option<Name>,
    /// Why.
    pub error: Arc<ConnectionError>,
}
