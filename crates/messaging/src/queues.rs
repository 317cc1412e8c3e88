//! What messaging asks of the node around it: where messages go, where they come from, where peers are.

use std::fmt;

use bytes::Bytes;
use tally_contracts::Name;

use crate::error::Cause;

/// Which of a sender's queues to one receiver a number belongs to.
///
/// A queue that is set anew starts numbering at 1 again under a new id, so that the receiver does not take its messages
/// for repeats. A sender whose database was made anew has new ids for all its queues.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub [u8; 16]);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueueId({self})")
    }
}

/// How far the messages of one (peer, queue) have been received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The highest number taken by [`Inbox::receive`] in this process; delivery goes on after it.
    pub accepted: u64,
    /// The highest number that survives a crash; the sender may forget up to it. Never above `accepted`.
    pub durable: u64,
}

/// Why an inbox did not take (all) messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No room now. The connection stops reading, and asks again after [`Messaging::resume`](crate::Messaging::resume).
    Busy,
    /// The node stops; the sender comes back later.
    Stopping,
    /// The peer sent what no honest peer sends; the connection closes and the peer is told this reason.
    Invalid(String),
}

/// Where messages from peers go.
///
/// Both functions are called on the network's threads: they must not wait for a disk, a lock that is held
/// for long, or another peer.
pub trait Inbox: Send + Sync + 'static {
    /// How far messages of this peer and queue have come. Zeroes for a queue never seen.
    fn position(&self, peer: &Name, queue: QueueId) -> Position;

    /// Takes messages from the front of `messages`, removing what it takes. Numbers follow one another
    /// without a gap from `position().accepted + 1`; there are no repeats, and no second call for the same peer
    /// runs at the same time.
    ///
    /// The bytes are slices of the connection's read buffer (up to 64 KiB): copy what is kept for long.
    ///
    /// # Errors
    /// [`Refusal`]; what was left in `messages` was not accepted. After `Ok` everything counts as accepted.
    fn receive(&self, peer: &Name, queue: QueueId, messages: &mut Vec<(u64, Bytes)>) -> Result<(), Refusal>;
}

/// The durable queues of messages to peers.
pub trait Outbox: Send + Sync + 'static {
    /// The highest number ever made durable for this peer, acknowledged or not; 0 when there is none. May block.
    ///
    /// # Errors
    /// Whatever the store says; the connection is tried again later.
    fn last(&self, peer: &Name) -> Result<u64, Cause>;

    /// The messages that follow `number`, in order and without a gap, until their sizes add up to
    /// `limit_bytes`, but at least one if there is one. May block.
    ///
    /// # Errors
    /// Whatever the store says; the connection is tried again later.
    fn after(&self, peer: &Name, number: u64, limit_bytes: usize) -> Result<Vec<(u64, Vec<u8>)>, Cause>;

    /// The peer will never ask again for messages up to this number: they may be deleted. Must not block;
    /// numbers never go down within one connection, and may be repeated by the next. What is said of another queue
    /// than the present one counts for nothing.
    fn acknowledged(&self, peer: &Name, queue: QueueId, up_to: u64);
}

/// Why messages of a peer are not taken, or none are sent to it.
#[derive(Debug)]
pub enum Unfit {
    /// The peer runs on an older database than it did before. It is shown this newer standing of its own; none when the
    /// peer says so itself.
    Superseded(Option<Vec<u8>>),
    /// The peer sent what no honest peer sends.
    Invalid(String),
    /// The node's store failed; the connection is tried again later.
    Store(Cause),
}

/// What two nodes know of each other's databases.
///
/// Each side tells its *standing* when a connection begins, and again while it lasts: which database it runs on and how
/// far that has come, signed. Whoever knows a newer standing of the other side refuses it and shows it that one, so that
/// a node which lost its past, or whose place another process took, learns of it with proof.
pub trait Acquaintance: Send + Sync + 'static {
    /// The present queue to this peer. Must not block.
    fn queue(&self, peer: &Name) -> QueueId;

    /// What this node tells of its own database, at most [`STANDING_LIMIT`](crate::STANDING_LIMIT) bytes. Must not block.
    fn standing(&self) -> Vec<u8>;

    /// Judges what a peer told of its database, and over which `queue` it sends, if it is the sender. Returns once what
    /// follows from it is durable; may block.
    ///
    /// # Errors
    /// [`Unfit`]; the connection ends.
    fn meet(&self, peer: &Name, standing: &[u8], queue: Option<QueueId>) -> Result<(), Unfit>;

    /// A peer shows what it says is a newer standing of this node. Nothing is known of it yet but who shows it. Must
    /// not block.
    fn superseded(&self, peer: &Name, evidence: &[u8]);

    /// The peer needs what `queue` no longer has, or has what was never sent: the queue to it cannot go on, and has to be
    /// set anew. Must not block.
    fn astray(&self, peer: &Name, queue: QueueId);
}

/// Who may be talked to, and where.
pub trait Directory: Send + Sync + 'static {
    /// The addresses of a peer as `host:port`, best first; `None` when this name is not a member of the network.
    /// Must not block.
    fn addresses(&self, peer: &Name) -> Option<Vec<String>>;
}
