//! What the operator of a log signs.

use super::LogHash;
use crate::{PublicKey, Signature, SignatureError, SigningKey, verify};
use serde::{Deserialize, Serialize};

/// Keeps a tree head's signature from meaning anything else, and the other way round.
const DOMAIN: &[u8; 32] = b"tallystick 2026 log tree head v2";

/// The state of a log at one moment (RFC 9162 section 4.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeHead {
    /// Number of entries.
    pub size: u64,
    /// Root over these entries.
    #[serde(with = "crate::hex::array")]
    pub root: LogHash,
    /// When it was made, in milliseconds since the Unix epoch.
    pub timestamp_ms: u64,
}

impl TreeHead {
    /// The bytes that are signed for the log of `network`: a domain tag (32), the network's id
    /// (32), size (8, big-endian), timestamp (8, big-endian), root (32). One head of one network
    /// has one encoding, and two never share one.
    pub fn signing_bytes(&self, network: &[u8; 32]) -> [u8; 112] {
        let mut bytes = [0; 112];
        bytes[..32].copy_from_slice(DOMAIN);
        bytes[32..64].copy_from_slice(network);
        bytes[64..72].copy_from_slice(&self.size.to_be_bytes());
        bytes[72..80].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes[80..].copy_from_slice(&self.root);
        bytes
    }
}

/// A tree head and its operator's signature; network and key say which log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedTreeHead {
    /// What is claimed. Unverified until [`Self::verify`] succeeds.
    pub head: TreeHead,
    /// Over [`TreeHead::signing_bytes`].
    pub signature: Signature,
}

impl SignedTreeHead {
    /// Signs `head` as one of the log of `network`.
    pub fn sign(head: TreeHead, network: &[u8; 32], key: &SigningKey) -> Self {
        Self { head, signature: key.sign(&head.signing_bytes(network)) }
    }

    /// The head, if the holder of `key` signed it for the log of `network`.
    ///
    /// # Errors
    /// [`SignatureError`] when it did not.
    pub fn verify(&self, network: &[u8; 32], key: &PublicKey) -> Result<&TreeHead, SignatureError> {
        verify(key, &self.head.signing_bytes(network), &self.signature)?;
        Ok(&self.head)
    }
}
