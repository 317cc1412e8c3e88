//! Consistency: proof that the operator's log was only ever appended to between two signed heads.

use crate::keys::Keys;
use crate::witness::{HeadCosignature, WitnessError};
use serde::{Deserialize, Serialize};
use tally_crypto::log::{LogHash, SignedTreeHead, verify_consistency};
use tally_crypto::{Hash, SignatureError};

/// Two signed heads of one log and the proof that the later one extends the earlier one (RFC 9162 section 2.1.4).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consistency {
    /// The earlier head.
    pub first: SignedTreeHead,
    /// The later head.
    pub second: SignedTreeHead,
    /// The hashes between, in the order of RFC 9162; each 32 bytes in hexadecimal.
    pub path: Vec<Hash>,
    /// Of witnesses on the earlier head.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_cosignatures: Vec<HeadCosignature>,
    /// Of witnesses on the later head.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub second_cosignatures: Vec<HeadCosignature>,
}

/// Why two heads are not shown to be of one log.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConsistencyError {
    /// A head is not the operator's.
    #[error("the operator did not sign the tree head of {size} records")]
    Head {
        /// How many records the head is of.
        size: u64,
        /// What is wrong with its signature.
        #[source]
        source: SignatureError,
    },
    /// Fewer institutions than the keys ask for have cosigned a head, or a cosignature is false.
    #[error("a tree head is not witnessed")]
    Witnesses(#[from] WitnessError),
    /// The clock went back between them: one of them is of another log.
    #[error("the later tree head, of {second} ms, is older than the earlier one, of {first} ms")]
    Time {
        /// When the earlier one was signed, in milliseconds since the Unix epoch.
        first: u64,
        /// When the later one was signed, in milliseconds since the Unix epoch.
        second: u64,
    },
    /// The later log does not begin with the earlier one, or the proof does not show it.
    #[error("it is not shown that the later log begins with the earlier one")]
    Path(#[source] tally_crypto::ProofError),
    /// It is about another head than the one at hand.
    #[error("it is not about the tree head of {size} records that is at hand")]
    OtherHead {
        /// How many records the head at hand is of.
        size: u64,
    },
}

impl Consistency {
    /// Checks that both heads are the network's operator's, that the later log begins with the whole
    /// of the earlier one, and that as many institutions as the keys ask for have cosigned each head.
    ///
    /// # Errors
    /// When either is not shown.
    pub fn verify(&self, keys: &Keys) -> Result<(), ConsistencyError> {
        let signed = |head: &SignedTreeHead| {
            let size = head.head.size;
            head.verify(&keys.network.0, &keys.operator)
                .map(|_| ())
                .map_err(|source| ConsistencyError::Head { size, source })
        };
        signed(&self.first)?;
        signed(&self.second)?;
        keys.witnessed(&self.first.head, &self.first_cosignatures)?;
        keys.witnessed(&self.second.head, &self.second_cosignatures)?;
        let (first, second) = (&self.first.head, &self.second.head);
        let path: Vec<LogHash> = self.path.iter().map(|hash| *hash.as_bytes()).collect();
        verify_consistency(first.size, &first.root, second.size, &second.root, &path)
            .map_err(ConsistencyError::Path)?;
        if second.timestamp_ms < first.timestamp_ms {
            let (first, second) = (first.timestamp_ms, second.timestamp_ms);
            return Err(ConsistencyError::Time { first, second });
        }
        Ok(())
    }

    /// As [`Self::verify`], for two heads that are at hand, such as those of two proofs: that they are of one log.
    ///
    /// # Errors
    /// As [`Self::verify`], and [`ConsistencyError::OtherHead`] when it is about other heads.
    pub fn joins(
        &self,
        one: &SignedTreeHead,
        other: &SignedTreeHead,
        keys: &Keys,
    ) -> Result<(), ConsistencyError> {
        for head in [one, other] {
            // What a head says is its size, root and time; several signatures may say the same.
            if ![&self.first, &self.second].iter().any(|shown| shown.head == head.head) {
                return Err(ConsistencyError::OtherHead { size: head.head.size });
            }
        }
        self.verify(keys)
    }
}
