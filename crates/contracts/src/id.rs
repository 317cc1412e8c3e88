//! What things are called: by what they hash to.

use crate::text::as_text;
use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;
use std::str::FromStr;
use tally_crypto::{Hash, HexError};

/// Gives a `struct Id(Hash)` its constructors and its text form, 64 hexadecimal digits.
macro_rules! id {
    ($name:ident) => {
        as_text!($name, "64 hexadecimal digits");

        impl $name {
            /// The id with this hash.
            pub const fn from_hash(hash: Hash) -> Self {
                Self(hash)
            }

            /// The id with these bytes.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(Hash::from_bytes(bytes))
            }

            /// The hash.
            pub const fn hash(&self) -> &Hash {
                &self.0
            }

            /// The bytes of the hash.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                self.0.as_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = HexError;

            fn from_str(text: &str) -> Result<Self, HexError> {
                text.parse().map(Self)
            }
        }
    };
}

/// The id of a transaction: the root over its salted components.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct TransactionId(Hash);

id!(TransactionId);

/// The id of a network: the hash of its root's public key. Each transaction's id covers it, so that
/// nothing that is signed in one network means anything in another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct NetworkId(Hash);

id!(NetworkId);

/// The id of an attachment: the hash of its content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct AttachmentId(Hash);

id!(AttachmentId);

impl AttachmentId {
    /// The id of an attachment with this content.
    pub fn of(content: &[u8]) -> Self {
        Self(tally_crypto::keyed(b"tallystick flows attachment v1  ", content))
    }
}

/// Output number `index` of a transaction. Text and serde form: `<transaction id>:<index>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct StateRef {
    /// The transaction that created the state.
    pub transaction: TransactionId,
    /// Which of its outputs.
    pub index: u32,
}

as_text!(StateRef, "a state reference: 64 hexadecimal digits, a colon and a number");

impl fmt::Display for StateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transaction, self.index)
    }
}

/// The text is not a state reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateRefError {
    /// No colon, or no plain number after it.
    #[error("a state reference is a transaction id, a colon and the number of the output")]
    Form,
    /// What stands before the colon is not a transaction id.
    #[error("the part before the colon is not a transaction id")]
    Transaction(#[source] HexError),
}

impl FromStr for StateRef {
    type Err = StateRefError;

    fn from_str(text: &str) -> Result<Self, StateRefError> {
        let (transaction, index) = text.split_once(':').ok_or(StateRefError::Form)?;
        let plain = index == "0" || !index.starts_with(['0', '+']);
        let index = index.parse().ok().filter(|_| plain).ok_or(StateRefError::Form)?;
        Ok(Self { transaction: transaction.parse().map_err(StateRefError::Transaction)?, index })
    }
}
