//! What a network of peers is started with.

use crate::enode::{Enode, Host};
use crate::event::Waker;
use crate::key::NodeKey;
use crate::kind::Kinds;
use crate::permissions::Permissions;
use crate::roster::Backoff;
use crate::standing::ScorePolicy;
use alloy_primitives::B256;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Where the random numbers come from that spread attempts to connect: they need not be secret.
pub type Randomness = Box<dyn FnMut() -> u64 + Send>;

/// What a network of peers is started with. [`Config::new`] has defaults for everything that can have
/// one.
pub struct Config {
    /// The node's key.
    pub key: NodeKey,
    /// The network it is on; nodes of other networks are refused.
    pub network_id: u64,
    /// The hash of block 0; nodes of other chains are refused.
    pub genesis: B256,
    /// The kinds of message.
    pub kinds: Kinds,
    /// Where to listen; port 0 takes any free one. Without it the node connects only.
    pub listen: Option<SocketAddr>,
    /// The host that this node's own enode URL names; without it the address it listens at.
    pub advertised: Option<Host>,
    /// Program and version, told to peers: printable ASCII, at most 64 bytes.
    pub client: String,
    /// The peers to keep sessions with. The node's own enode among them is passed over.
    pub known: Vec<Enode>,
    /// Which nodes may be peers.
    pub permissions: Permissions,
    /// Bounds.
    pub limits: Limits,
    /// Times.
    pub timing: Timing,
    /// When peers are tried again.
    pub backoff: Backoff,
    /// How misbehaviour is dealt with.
    pub scores: ScorePolicy,
    /// Spreads attempts to connect, and names this run of the process.
    pub random: Randomness,
    /// Called, on any thread, when an event waits that did not before, for a host that waits for other
    /// things too. It must neither block nor call the network.
    pub waker: Option<Waker>,
}

/// Bounds on what peers may take. Queues are for each peer, in bytes; the payloads of one broadcast are
/// shared between them.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Sessions at most. Known peers are always let in, beyond it if need be.
    pub peers: usize,
    /// Connections from one address at most, handshakes included.
    pub inbound_from_address: usize,
    /// Handshakes of others under way at most; beyond it the oldest is given up, since honest ones
    /// take milliseconds.
    pub handshakes: usize,
    /// Urgent messages that wait to be sent, and those received that wait for the host.
    pub urgent_bytes: u64,
    /// Bulk that waits to be sent.
    pub bulk_bytes: u64,
    /// Bulk that a peer may send before the host has taken it. What is under way delays urgent messages
    /// behind it, so this is little more than a fast line holds.
    pub window: u32,
    /// Requests of one peer that the host has not answered yet; further ones are refused.
    pub requests: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 25,
            inbound_from_address: 32,
            handshakes: 64,
            urgent_bytes: 32 << 20,
            bulk_bytes: 16 << 20,
            window: 1 << 20,
            requests: 64,
        }
    }
}

/// The smallest window that is announced: a few chunks.
pub(crate) const SMALLEST_WINDOW: u32 = 256 << 10;

/// Times.
#[derive(Debug, Clone)]
pub struct Timing {
    /// To look up a name and open a TCP connection.
    pub connect: Duration,
    /// For TLS and the proofs together.
    pub handshake: Duration,
    /// Between two pings.
    pub ping: Duration,
    /// A peer from which nothing has come for so long is gone; so is one that takes in nothing.
    pub silence: Duration,
    /// For sessions to end when the node stops.
    pub stop: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            handshake: Duration::from_secs(5),
            ping: Duration::from_secs(5),
            silence: Duration::from_secs(15),
            stop: Duration::from_secs(2),
        }
    }
}

impl Config {
    /// A configuration with the defaults, that does not listen and knows nobody.
    #[must_use]
    pub fn new(key: NodeKey, network_id: u64, genesis: B256, kinds: Kinds, random: Randomness) -> Self {
        Self {
            key,
            network_id,
            genesis,
            kinds,
            listen: None,
            advertised: None,
            client: concat!("tally/", env!("CARGO_PKG_VERSION")).to_owned(),
            known: Vec::new(),
            permissions: Permissions::everyone(),
            limits: Limits::default(),
            timing: Timing::default(),
            backoff: Backoff::default(),
            scores: ScorePolicy::default(),
            random,
            waker: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("key", &self.key)
            .field("network_id", &self.network_id)
            .field("genesis", &self.genesis)
            .field("listen", &self.listen)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}
