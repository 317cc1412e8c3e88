//! What flows of different nodes say to each other.

use borsh::{BorshDeserialize, BorshSerialize};

use crate::{FlowError, SessionId};

/// One message of a session. Each side numbers what it sends from zero, so that a message that comes twice is
/// applied once and one that overtakes another waits.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Message {
    /// The session it belongs to.
    pub session: SessionId,
    /// Its place among what its sender says in this session.
    pub number: u64,
    /// The sender says nothing after this and listens no longer.
    pub last: bool,
    /// What is said.
    pub body: Body,
}

/// The content of a [`Message`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Body {
    /// The first message of the side that opens the session: the flow that asks, so that the one that answers it
    /// is started.
    Open {
        /// The name of the flow that asks.
        flow: String,
        /// Its version.
        version: u32,
        /// What it says first, if it does not begin by listening.
        payload: Option<Vec<u8>>,
    },
    /// A value, encoded by the flow.
    Data(Vec<u8>),
    /// The sender's flow ended well.
    End,
    /// The sender's flow failed.
    Failed(FlowError),
    /// The receiving node ended the session, because it could not keep what came. Written by a node into the journal
    /// of its own flow; refused when a peer sends it.
    Cut(FlowError),
    /// The node at the other end goes on from another database and knows nothing of the session. A node says this to its
    /// own flows, see [`crate::Engine::forget_sessions`].
    Forgotten,
}

/// Bytes from a peer that are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message between flows: {0}")]
pub struct MessageError(String);

impl MessageError {
    /// A message that only the node itself may write.
    pub(crate) fn local() -> Self {
        Self("a peer does not end a session in the name of this node".to_owned())
    }
}

impl Message {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// # Errors
    /// Bytes that are not exactly one message.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        borsh::from_slice(bytes).map_err(|error| MessageError(error.to_string()))
    }
}

/// Writing to memory does not fail, and every type of this crate can be written.
pub(crate) fn encode<T: BorshSerialize + ?Sized>(value: &T) -> Vec<u8> {
    borsh::to_vec(value).expect("a value is written to memory")
}
