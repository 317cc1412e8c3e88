//! What members send each other.

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{DecodeError, decode, encode};

use crate::Request;

/// A message between members. Who sent it is for the connection to say.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// Of the round engine.
    Round {
        /// The kind of message.
        code: u8,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Requests that wait at the sender, and of which the others may not know.
    Forward(Vec<Request>),
    /// Asks for decided batches from this height on.
    Fetch {
        /// The first one wanted.
        from: u64,
    },
    /// Decided batches with the seals of a quorum, ascending without gaps.
    Batches(Vec<Vec<u8>>),
}

impl Message {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a message of `limit` bytes at most.
    ///
    /// # Errors
    /// The bytes are too many, or no message.
    pub fn from_bytes(bytes: &[u8], limit: usize) -> Result<Self, DecodeError> {
        decode("a message between members of a notary", bytes, limit)
    }
}
