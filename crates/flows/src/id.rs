//! Names of flows and of the sessions between them.

use std::fmt;
use std::str::FromStr;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tally_contracts::Name;
use tally_crypto::{hash, keyed};

/// Sixteen bytes that are not hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an identifier of 32 hexadecimal digits")]
pub struct IdError(String);

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let wrong = || IdError(text.chars().take(64).collect());
                if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(wrong());
                }
                let mut bytes = [0; 16];
                for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
                    let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
                    *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
                }
                Ok(Self(bytes))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text: std::borrow::Cow<'de, str> = Deserialize::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

identifier! {
    /// One run of one flow at one node. Shown as 32 hexadecimal digits.
    FlowId
}

identifier! {
    /// The conversation of two flows at two nodes; both use the same identifier.
    SessionId
}

impl FlowId {
    /// The flow that a client's request starts: the same request names the same flow, so that asking twice
    /// starts once.
    pub fn of_request(client: &str, request: &str) -> Self {
        let mut text = Vec::with_capacity(client.len() + request.len() + 32);
        text.extend_from_slice(b"tallystick.flow.request\0");
        text.extend_from_slice(&(client.len() as u64).to_le_bytes());
        text.extend_from_slice(client.as_bytes());
        text.extend_from_slice(request.as_bytes());
        Self(first_half(hash(&text).as_bytes()))
    }

    /// The flow that answers a session which `peer` opened.
    pub fn of_session(peer: &Name, session: SessionId) -> Self {
        let mut text = b"tallystick.flow.session\0".to_vec();
        text.extend_from_slice(&session.0);
        text.extend_from_slice(peer.to_string().as_bytes());
        Self(first_half(hash(&text).as_bytes()))
    }
}

impl SessionId {
    /// The `index`th session that the flow with this `seed` opens. Nobody who lacks the seed can guess it.
    pub(crate) fn derive(seed: &[u8; 32], index: u32) -> Self {
        let mut text = b"tallystick.session\0".to_vec();
        text.extend_from_slice(&index.to_le_bytes());
        Self(first_half(keyed(seed, &text).as_bytes()))
    }

    /// What the answering flow calls the session when both flows are of one node: there the sender's name does not say
    /// which of the two a message is for.
    pub(crate) fn answering(self) -> Self {
        let mut text = b"tallystick.session.answering\0".to_vec();
        text.extend_from_slice(&self.0);
        Self(first_half(hash(&text).as_bytes()))
    }
}

fn first_half(bytes: &[u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    half
}
