//! What the operator of a log signs.

use super::LogHash;
use crate::{PublicKey, Signature, SignatureError, SigningKey, verify};
use serde::{Deserialize, Serialize};

/// Keeps a tree head's signature from meaning anything else, and the other way round.
const DOMAIN: &[u8; 32] = b"tallystick 2026 log tree head v1";

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
    /// The bytes that are signed: a domain tag (32), size (8, big-endian), timestamp (8,
    /// big-endian), root (32). One head has one encoding, and two heads never share one.
    pub fn signing_bytes(&self) -> [u8; 80] {
        let mut bytes = [0; 80];
        bytes[..32].copy_from_slice(DOMAIN);
        bytes[32..40].copy_from_slice(&self.size.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes[48..].copy_from_slice(&self.root);
        bytes
    }
}

/// A tree head and its operator's signature; the key says which log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedTreeHead {
    /// What is claimed. Unverified until [`Self::verify`] succeeds.
    pub head: TreeHead,
    /// Over [`TreeHead::signing_bytes`].
    pub signature: Signature,
}

impl SignedTreeHead {
    /// Signs `head`.
    pub fn sign(head: TreeHead, key: &SigningKey) -> Self {
        Self { head, signature: key.sign(&head.signing_bytes()) }
    }

    /// The head, if the log with this key signed it.
    ///
    /// # Errors
    /// [`SignatureError`] when it did not.
    pub fn verify(&self, key: &PublicKey) -> Result<&TreeHead, SignatureError> {
        verify(key, &self.head.signing_bytes(), &self.signature)?;
        Ok(&self.head)
    }
}
