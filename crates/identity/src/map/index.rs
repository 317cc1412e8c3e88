//! What a network map service holds at one moment, signed with the network map's key.
//!
//! Everything else that the service tells is named here by its hash. So whoever stands between a
//! node and the service can show neither an old list of revoked certificates nor an old node info
//! for longer than [`MAX_AGE_MS`], and never one that is older than what the node has seen.

use crate::authority::NetworkMapKey;
use crate::certificate::{CertificateError, CertificatePath};
use crate::moment::{Utc, days};
use crate::role::Role;
use crate::trust::Trust;
use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{Name, Signature, Timestamp};
use tally_crypto::Hash;

/// Largest index taken: room for 100,000 nodes and 400,000 former identities.
pub(super) const MAX_INDEX_BYTES: usize = 32 * (100_000 + 400_000) + 64 * 1024;
/// An index that was signed longer ago is not taken from a service, in milliseconds.
pub const MAX_AGE_MS: u64 = days(1) / 24;
/// An index may be this much younger than the clock of the machine that reads it.
const CLOCK_TOLERANCE_MS: u64 = 10 * 60 * 1000;

const MAGIC: &[u8; 8] = b"tlyindx2";
const DOMAIN: &[u8; 32] = b"tallystick network map index v2 ";

/// Everything that a network map holds, by BLAKE3.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(super) struct Contents {
    /// The root's revocation list.
    pub(super) root_list: Hash,
    /// Certificate (PEM) and revocation list of each identity manager.
    pub(super) managers: Vec<(Hash, Hash)>,
    /// The network parameters.
    pub(super) parameters: Hash,
    /// Those that are announced and come into force later.
    pub(super) announced: Option<Hash>,
    /// The nodes' infos, by the nodes' names.
    pub(super) infos: Vec<Hash>,
    /// The certificates of former identities.
    pub(super) former: Vec<Hash>,
}

/// An index without its signature.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(super) struct Index {
    /// A later index has a higher one.
    pub(super) number: u64,
    /// When it was signed.
    pub(super) made: Timestamp,
    pub(super) contents: Contents,
}

/// Why an index is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// Not an index.
    #[error("not the index of a network map: {0}")]
    Malformed(String),
    /// The certificate of whoever signed it is refused.
    #[error("the certificate on the index of the network map is refused")]
    Certificate(#[from] CertificateError),
    /// Not signed by the network map.
    #[error("the signature on the index of the network map is not by the key of {by}: it is altered")]
    Signature {
        /// Whose signature it should carry.
        by: Name,
    },
    /// A newer one was seen.
    #[error(
        "the index of the network map has number {got}, but number {have} was seen: somebody shows an old network map"
    )]
    Older {
        /// Its number.
        got: u64,
        /// The highest number seen.
        have: u64,
    },
    /// Signed long ago.
    #[error(
        "the index of the network map was signed at {made}, and this machine's clock says {clock}: somebody shows an old network map, or the clock is wrong"
    )]
    Stale {
        /// When it was signed, RFC 3339.
        made: String,
        /// What the clock says, RFC 3339.
        clock: String,
    },
}

#[derive(BorshSerialize, BorshDeserialize)]
struct Envelope {
    content: Vec<u8>,
    path: Vec<Vec<u8>>,
    signature: Signature,
}

/// An index with the signature on it, whose form is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignedIndex {
    index: Index,
    content: Vec<u8>,
    path: CertificatePath,
    signature: Signature,
}

impl SignedIndex {
    pub(super) fn sign(key: &NetworkMapKey, index: Index) -> Self {
        let content = tally_contracts::encode(&index);
        let signature = key.key().sign(message(&content).as_bytes()).into();
        Self { index, content, path: key.path().clone(), signature }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let malformed = |error: std::io::Error| IndexError::Malformed(error.to_string());
        if bytes.len() > MAX_INDEX_BYTES {
            return Err(IndexError::Malformed(format!("{} bytes are too many", bytes.len())));
        }
        let rest = bytes
            .strip_prefix(MAGIC)
            .ok_or_else(|| IndexError::Malformed("it does not begin as one".into()))?;
        let Envelope { content, path, signature } = borsh::from_slice(rest).map_err(malformed)?;
        let index: Index = borsh::from_slice(&content).map_err(malformed)?;
        Ok(Self { index, content, path: CertificatePath::parse(&path)?, signature })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let envelope = Envelope {
            content: self.content.clone(),
            path: self.path.to_der().iter().map(|der| der.to_vec()).collect(),
            signature: self.signature,
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(tally_contracts::encode(&envelope));
        bytes
    }

    /// What is signed; not believed yet.
    pub(super) const fn unverified(&self) -> &Index {
        &self.index
    }

    /// Checks that the network map's key signed this lately, and nothing newer was seen than
    /// `have`, the highest number.
    pub(super) fn verify(&self, trust: &Trust, have: u64, now: Timestamp) -> Result<&Index, IndexError> {
        let by = trust.verify(&self.path, Role::NetworkMap, now)?;
        by.key
            .verify(message(&self.content).as_bytes(), &self.signature)
            .map_err(|_| IndexError::Signature { by: by.name })?;
        let Index { number, made, .. } = self.index;
        if number < have {
            return Err(IndexError::Older { got: number, have });
        }
        let ahead = made.as_millis().saturating_sub(now.as_millis());
        let behind = now.as_millis().saturating_sub(made.as_millis());
        if ahead > CLOCK_TOLERANCE_MS || behind > MAX_AGE_MS {
            return Err(IndexError::Stale { made: Utc(made).to_string(), clock: Utc(now).to_string() });
        }
        Ok(&self.index)
    }
}

/// What the network map signs.
fn message(content: &[u8]) -> Hash {
    tally_crypto::keyed(DOMAIN, content)
}
