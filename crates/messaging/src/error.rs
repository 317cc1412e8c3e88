//! Why a connection was refused or ended.

use std::io;
use std::time::Duration;

use tally_contracts::Name;

use crate::settings::SettingsError;

/// An error of the code around messaging.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The reason of a closed connection as it is counted and as it travels to the peer (two bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No version of the protocol is spoken by both sides.
    Version,
    /// The peer's name is not a member of the network.
    UnknownPeer,
    /// A frame is larger than the receiver's limit.
    TooLarge,
    /// A message's number does not follow the one before.
    Gap,
    /// Bytes that are not a frame.
    Malformed,
    /// A frame that has no place at this point of the conversation.
    OutOfTurn,
    /// One side claims to have received what the other has not sent.
    Ahead,
    /// The receiver holds as many connections as it may.
    TooManyConnections,
    /// The same peer opened a newer connection.
    Replaced,
    /// The node stops.
    Stopping,
    /// The node's inbox refused what a message says.
    Invalid,
    /// Nothing was heard for too long, or a handshake was not finished in time.
    Silent,
    /// The connection is made anew so that certificates are verified again.
    Renewed,
    /// Nothing left to deliver.
    Idle,
    /// The sender's store failed.
    Store,
    /// The TLS handshake failed or the certificate was refused. Never travels: there is no connection.
    Certificate,
    /// The other side runs on an older database than it did before.
    Superseded,
    /// A code that this version does not know.
    Other,
}

impl Reason {
    /// All reasons, in the order of their codes.
    pub const ALL: [Self; 18] = [
        Self::Version,
        Self::UnknownPeer,
        Self::TooLarge,
        Self::Gap,
        Self::Malformed,
        Self::OutOfTurn,
        Self::Ahead,
        Self::TooManyConnections,
        Self::Replaced,
        Self::Stopping,
        Self::Invalid,
        Self::Silent,
        Self::Renewed,
        Self::Idle,
        Self::Store,
        Self::Certificate,
        Self::Superseded,
        Self::Other,
    ];

    /// Stable name for metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::UnknownPeer => "unknown_peer",
            Self::TooLarge => "too_large",
            Self::Gap => "gap",
            Self::Malformed => "malformed",
            Self::OutOfTurn => "out_of_turn",
            Self::Ahead => "ahead",
            Self::TooManyConnections => "too_many_connections",
            Self::Replaced => "replaced",
            Self::Stopping => "stopping",
            Self::Invalid => "invalid",
            Self::Silent => "silent",
            Self::Renewed => "renewed",
            Self::Idle => "idle",
            Self::Store => "store",
            Self::Certificate => "certificate",
            Self::Superseded => "superseded",
            Self::Other => "other",
        }
    }

    pub(crate) fn code(self) -> u16 {
        self as u16 + 1
    }

    pub(crate) fn from_code(code: u16) -> Self {
        let index = usize::from(code).wrapping_sub(1);
        Self::ALL.get(index).copied().unwrap_or(Self::Other)
    }

    /// An end that both sides foresee, not a fault of either.
    #[must_use]
    pub fn is_orderly(self) -> bool {
        matches!(self, Self::Stopping | Self::Renewed | Self::Idle)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The peer did not keep to the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// No common version.
    #[error(
        "the peer speaks versions {lowest} to {highest} of the messaging protocol, this node only {ours}; upgrade the older one"
    )]
    Version {
        /// Lowest version the peer speaks.
        lowest: u16,
        /// Highest version the peer speaks.
        highest: u16,
        /// The version of this node.
        ours: u16,
    },
    /// A frame above the limit; nothing of it was read.
    #[error("a frame of {bytes} bytes is larger than the limit of {limit}")]
    TooLarge {
        /// The size that the frame claims.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Messages are missing.
    #[error("message {found} came where {expected} was due")]
    Gap {
        /// The number due.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// Not a frame.
    #[error("{0}")]
    Malformed(&'static str),
    /// A frame that has no place here.
    #[error("a {0} frame came out of turn")]
    OutOfTurn(&'static str),
    /// The receiver claims messages that were never sent: one side runs on an old copy of its database.
    #[error(
        "the peer says it has message {claimed}, but only {last} were ever sent; one of the two runs on an old copy of its database"
    )]
    Ahead {
        /// The number claimed.
        claimed: u64,
        /// The highest number sent.
        last: u64,
    },
}

impl ProtocolError {
    /// The reason told to the peer.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Version { .. } => Reason::Version,
            Self::TooLarge { .. } => Reason::TooLarge,
            Self::Gap { .. } => Reason::Gap,
            Self::Malformed(_) => Reason::Malformed,
            Self::OutOfTurn(_) => Reason::OutOfTurn,
            Self::Ahead { .. } => Reason::Ahead,
        }
    }
}

/// Why a connection could not be made or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Not in the directory.
    #[error("{0} is not a member of the network")]
    UnknownPeer(Name),
    /// In the directory, without an address.
    #[error("the directory has no address of {0}")]
    NoAddress(Name),
    /// No TCP connection.
    #[error("cannot reach {address}")]
    Unreachable {
        /// `host:port` tried last.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The handshake failed, or a certificate was refused by either side (expired, revoked, of another
    /// network): the source says which.
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    /// The handshake ended with another version of TLS.
    #[error("the connection does not use TLS 1.3")]
    TlsVersion,
    /// The certificate is valid but names no one.
    #[error("the certificate names no member of the network")]
    Certificate(#[source] Cause),
    /// Another peer answers at this address.
    #[error("{found} answered at an address of {expected}")]
    WrongName {
        /// Who was called.
        expected: Name,
        /// Who answered.
        found: Name,
    },
    /// Nothing heard for too long.
    #[error("nothing heard for {after:?} while {during}")]
    Silent {
        /// The limit.
        after: Duration,
        /// What was waited for.
        during: &'static str,
    },
    /// The peer broke the protocol.
    #[error("protocol error: {0}")]
    Protocol(#[from] ProtocolError),
    /// The peer closed the connection and said why.
    #[error("the peer closed the connection: {reason}: {detail}")]
    Refused {
        /// The reason.
        reason: Reason,
        /// The peer's words, free of control characters.
        detail: String,
    },
    /// A message of the outbox is larger than the peer takes; its queue stands until it is replaced.
    #[error("message {number} has {bytes} bytes, the limit is {limit}")]
    MessageTooLarge {
        /// Its number.
        number: u64,
        /// Its size.
        bytes: u64,
        /// The smaller of the two sides' limits.
        limit: u64,
    },
    /// The peer runs on an older database than it did before: it was restored from a backup, made anew, or another
    /// process goes on from a copy of it.
    #[error(
        "the peer runs on an older database than it did before: it was restored or made anew and not recovered, or another process goes on from a copy of it"
    )]
    Superseded {
        /// The newest standing of the peer, signed by the peer; none when the peer says so itself.
        evidence: Option<Vec<u8>>,
    },
    /// The outbox cannot be read.
    #[error("cannot read the outbound queue")]
    Outbox(#[source] Cause),
    /// The peer needs a message that the outbox no longer has: the peer lost what it had acknowledged.
    #[error(
        "the peer needs message {wanted}, which it had acknowledged before and which is no longer kept; it runs on an old copy of its database"
    )]
    OutboxGap {
        /// The number needed.
        wanted: u64,
        /// The next number that the outbox has, if any.
        found: Option<u64>,
    },
    /// The inbox refused a message.
    #[error("a message was refused: {0}")]
    Invalid(String),
    /// As many connections as there may be.
    #[error("this node holds {0} connections, as many as it may")]
    TooManyConnections(usize),
    /// A newer connection of the same peer took over.
    #[error("the peer opened a newer connection")]
    Replaced,
    /// This node stops.
    #[error("this node stops")]
    Stopping,
    /// Made anew so that certificates are verified again.
    #[error("the connection is made anew")]
    Renewed,
    /// Nothing left to deliver.
    #[error("nothing left to deliver")]
    Idle,
    /// Closed by the peer without a reason.
    #[error("the peer closed the connection without a reason")]
    Closed,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
}

impl ConnectionError {
    /// The reason under which it is counted, if it is a refusal and not a broken connection.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        Some(match self {
            Self::UnknownPeer(_) => Reason::UnknownPeer,
            Self::Tls(_) | Self::TlsVersion | Self::Certificate(_) | Self::WrongName { .. } => {
                Reason::Certificate
            }
            Self::Silent { .. } => Reason::Silent,
            Self::Protocol(error) => error.reason(),
            Self::Refused { reason, .. } => *reason,
            Self::MessageTooLarge { .. } => Reason::TooLarge,
            Self::Outbox(_) | Self::OutboxGap { .. } => Reason::Store,
            Self::Superseded { .. } => Reason::Superseded,
            Self::Invalid(_) => Reason::Invalid,
            Self::TooManyConnections(_) => Reason::TooManyConnections,
            Self::Replaced => Reason::Replaced,
            Self::Stopping => Reason::Stopping,
            Self::Renewed => Reason::Renewed,
            Self::Idle => Reason::Idle,
            Self::NoAddress(_) | Self::Unreachable { .. } | Self::Closed | Self::Broken(_) => return None,
        })
    }

    /// Whether the peer should be told: not when it spoke last itself, nor when nobody listens.
    pub(crate) fn to_tell(&self) -> Option<(Reason, String)> {
        match self {
            Self::Refused { .. } | Self::Tls(_) => None,
            // What the store says is no business of a peer.
            Self::Outbox(_) => Some((Reason::Store, "the sender cannot read its queue".to_owned())),
            _ => self.reason().map(|reason| (reason, self.to_string())),
        }
    }
}

/// Why messaging could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address of the settings.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}
