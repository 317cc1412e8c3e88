//! What a batch is made of.

use tally_contracts::{AttachmentId, Name, State, StateRef, Summary, Timestamp, TransactionId};

/// The bytes of a flow's id.
pub type FlowKey = [u8; 16];
/// The bytes of a session's id.
pub type SessionKey = [u8; 16];
/// The bytes that name a sender's outbound queues: another value means that its numbers start anew.
pub type QueueKey = [u8; 16];

/// One change. Each is idempotent: applied again it changes nothing, so that a batch whose fate is
/// unknown may be sent again.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A flow begins.
    FlowStarted(NewFlow),
    /// What one poll of a flow did, in order.
    Steps {
        /// The flow; nothing is kept for one that has ended.
        flow: FlowKey,
        /// Which poll.
        unit: u64,
        /// The journal's entries.
        entries: Vec<u8>,
    },
    /// A message of a peer's flow, to be consumed by ours.
    Arrival {
        /// The flow; nothing is kept for one that has ended.
        flow: FlowKey,
        /// The session.
        session: SessionKey,
        /// Place of the message in the session.
        number: u64,
        /// The message.
        message: Vec<u8>,
    },
    /// A flow has ended: its steps, arrivals, locks and dependencies are removed, its row is kept.
    FlowEnded {
        /// The flow.
        flow: FlowKey,
        /// What came out.
        outcome: Vec<u8>,
        /// When.
        at: Timestamp,
    },
    /// A flow runs, pauses, or is held for a person.
    FlowMarked {
        /// The flow; one that has ended stays ended.
        flow: FlowKey,
        /// Which of these.
        mark: Mark,
    },
    /// A flow that began and ended within one poll.
    FlowEndedAtOnce {
        /// What began.
        flow: NewFlow,
        /// What came out.
        outcome: Vec<u8>,
        /// When it ended.
        at: Timestamp,
    },
    /// A message for a peer, kept until acknowledged.
    Send {
        /// The receiver.
        peer: Name,
        /// Place in the queue to this peer, counted from 1; below 2^44.
        number: u64,
        /// The message.
        message: Vec<u8>,
    },
    /// A peer holds all messages up to a number; they are removed.
    Acknowledged {
        /// The peer.
        peer: Name,
        /// The last one that it holds.
        up_to: u64,
    },
    /// We hold all messages of a peer up to a number.
    Received {
        /// The peer.
        peer: Name,
        /// The peer's name for its queues.
        queue: QueueKey,
        /// The last one.
        up_to: u64,
    },
    /// A verified transaction. Those whose outputs it consumes are recorded before it, or in the same batch.
    Transaction(Recorded),
    /// A transaction that a flow fetched and has not verified yet.
    Dependency {
        /// The flow; nothing is kept for one that has ended.
        flow: FlowKey,
        /// The transaction.
        id: TransactionId,
        /// Its bytes, as fetched.
        bytes: Vec<u8>,
    },
    /// A flow reserves states.
    Lock {
        /// The flow; nothing is kept for one that has ended.
        flow: FlowKey,
        /// The states.
        states: Vec<StateRef>,
    },
    /// A flow gives states free.
    Unlock {
        /// The flow.
        flow: FlowKey,
        /// The states.
        states: Vec<StateRef>,
    },
    /// A file that transactions refer to.
    Attachment {
        /// Its id.
        id: AttachmentId,
        /// The file.
        bytes: Vec<u8>,
    },
    /// A state's notary says that a transaction consumed it: it is set aside. Without effect on a state that a
    /// recorded transaction consumed, or that is not in the vault.
    Lost {
        /// The state.
        state: StateRef,
        /// The transaction, recorded here or not.
        by: TransactionId,
    },
    /// A flow used a consent.
    Consented(Consent),
    /// Where this database stands among all that the node ran on, and why the node has to be recovered, if it has.
    Standing {
        /// As the node encodes it.
        standing: Vec<u8>,
        /// Why it has to be recovered.
        recovery: Option<String>,
    },
    /// The node goes on from this database under another name: all queues in both directions begin anew, and what peers
    /// told of their databases is forgotten. Of what is sent and received, a batch holds nothing before this.
    Renewed {
        /// The new name of our queues.
        own: QueueKey,
    },
    /// What a peer told of its database.
    Acquainted {
        /// The peer.
        peer: Name,
        /// Its standing, as the peer encodes it.
        standing: Vec<u8>,
        /// What was received from it over other queues than this one is forgotten, if it is given.
        only: Option<QueueKey>,
    },
    /// Our queue to a peer begins anew, from number 1. A batch sends nothing to the peer before this.
    QueueAnew {
        /// The peer.
        peer: Name,
        /// The queue's new name.
        queue: QueueKey,
    },
    /// A state of the vault was consumed by a transaction that is not recorded here. Nothing happens when one that is
    /// recorded consumes it, or when the state is not there.
    ConsumedElsewhere {
        /// The state.
        state: StateRef,
        /// The transaction.
        by: TransactionId,
        /// When that was learned.
        at: Timestamp,
    },
    /// As a notary: a state is consumed. Two consumers of one state are [`Twice`](crate::StoreError::Twice).
    Consumed {
        /// The state.
        state: StateRef,
        /// The transaction.
        by: TransactionId,
        /// Who asked.
        requester: Name,
        /// When.
        at: Timestamp,
    },
    /// What a restored backup lacked is here: the mark of [`Queues::restored`](crate::Queues::restored) goes.
    Recovered,
    /// A party has not confirmed a final transaction. Of several writes about one party and transaction the last holds.
    Undelivered {
        /// The transaction.
        transaction: TransactionId,
        /// Who lacks it.
        party: Name,
        /// When it was tried.
        at: Timestamp,
        /// What came of it.
        reason: String,
    },
    /// A party has confirmed a final transaction.
    Delivered {
        /// The transaction.
        transaction: TransactionId,
        /// Who has it.
        party: Name,
    },
    /// Whether a transaction is final is not known. Of several writes about one transaction the last holds.
    Unresolved(Unresolved),
    /// It is known.
    Resolved(TransactionId),
}

/// A consent of the configuration that a flow has used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// The flow; it uses one consent at most.
    pub flow: FlowKey,
    /// Which consent.
    pub rule: String,
    /// How much of it, in minor units.
    pub quantity: u64,
    /// When.
    pub at: Timestamp,
}

/// The first pause before something undelivered or unresolved is tried again, in milliseconds. Each pause is as long as
/// it has been tried for by then.
pub const FIRST_PAUSE_MS: u64 = 1000;
/// The longest pause, in milliseconds: an hour.
pub const LONGEST_PAUSE_MS: u64 = 60 * 60 * 1000;

/// A transaction whose notary was asked and has not been heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// Its id.
    pub transaction: TransactionId,
    /// Its bytes, with all signatures but the notary's.
    pub bytes: Vec<u8>,
    /// Who has to have it if it is final, encoded by the caller.
    pub told: Vec<u8>,
    /// When the notary was asked, for the last time.
    pub at: Timestamp,
    /// What came of it.
    pub reason: String,
}

/// A flow that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFlow {
    /// Its id.
    pub flow: FlowKey,
    /// Its name.
    pub name: String,
    /// The version of its code.
    pub version: u32,
    /// What it was started with.
    pub arguments: Vec<u8>,
    /// Who started it.
    pub origin: Vec<u8>,
    /// What its random numbers come from.
    pub seed: [u8; 32],
    /// When it began.
    pub at: Timestamp,
}

/// A verified transaction and what it does to the vault.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Its id.
    pub id: TransactionId,
    /// Its bytes, signatures included.
    pub bytes: Vec<u8>,
    /// Its inputs, those that are not in the vault too.
    pub consumed: Vec<StateRef>,
    /// Those of its outputs that concern this node.
    pub produced: Vec<Produced>,
    /// When; raised to the time of the transaction recorded before when the clock went back, so that
    /// the order of recording is the order of time.
    pub at: Timestamp,
}

/// An output that concerns this node.
#[derive(Debug, Clone, PartialEq)]
pub struct Produced {
    /// Its place among the outputs; below 2^20.
    pub index: u32,
    /// The state.
    pub state: State,
    /// What the contract says of it.
    pub summary: Summary,
}

/// Whether a flow that has not ended goes on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Mark {
    /// It does.
    #[default]
    Running,
    /// A person paused it.
    Paused,
    /// It waits for a person.
    Held {
        /// Why.
        reason: String,
    },
}
