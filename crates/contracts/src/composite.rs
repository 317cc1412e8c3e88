//! The key of a notary that consists of several members.

use crate::encoding::invalid;
use crate::limits::COMPOSITE_MEMBERS;
use crate::{PublicKey, encode};
use borsh::io::{Error, Read};
use borsh::{BorshDeserialize, BorshSerialize};
use tally_crypto::{Hash, derive_key};

/// What a composite key commits to, revealed: several keys, and how many of them have to sign.
///
/// [`CompositeKey::key`] is the name under which a transaction has it as its notary. The name covers
/// everything here, so that whoever has the transaction and this needs no network map to tell
/// whether the notary attested it.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct CompositeKey {
    threshold: u8,
    /// What the members are beside their keys.
    identity: Hash,
    /// Strictly ascending.
    members: Vec<PublicKey>,
}

/// Keys and a threshold that make no composite key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CompositeKeyError {
    /// No members, or too many.
    #[error("a composite key has 1 to {COMPOSITE_MEMBERS} members, not {0}")]
    Count(usize),
    /// Nobody has to sign, or more than there are.
    #[error("{threshold} of {members} members cannot be asked to sign")]
    Threshold {
        /// How many would have to.
        threshold: usize,
        /// How many there are.
        members: usize,
    },
    /// A member that is there twice, or the members are not in order.
    #[error("the members of the composite key are not in strictly ascending order")]
    Order,
    /// A member is a composite key itself.
    #[error("a member of a composite key is no composite key itself")]
    Nested,
}

impl CompositeKey {
    /// The key of which `threshold` of these members sign, given in any order. `identity` is a hash
    /// over whatever else makes the members what they are; where it changes, so does the key.
    ///
    /// # Errors
    /// [`CompositeKeyError`].
    pub fn new(
        threshold: usize,
        identity: Hash,
        mut members: Vec<PublicKey>,
    ) -> Result<Self, CompositeKeyError> {
        members.sort_unstable();
        Self::checked(threshold, identity, members)
    }

    fn checked(threshold: usize, identity: Hash, members: Vec<PublicKey>) -> Result<Self, CompositeKeyError> {
        let count = members.len();
        if count == 0 || count > COMPOSITE_MEMBERS {
            return Err(CompositeKeyError::Count(count));
        }
        let refused = CompositeKeyError::Threshold { threshold, members: count };
        if threshold == 0 || threshold > count {
            return Err(refused);
        }
        if members.iter().any(PublicKey::is_composite) {
            return Err(CompositeKeyError::Nested);
        }
        if !members.is_sorted_by(|a, b| a < b) {
            return Err(CompositeKeyError::Order);
        }
        let threshold = u8::try_from(threshold).map_err(|_| refused)?;
        Ok(Self { threshold, identity, members })
    }

    /// The commitment: a key derivation (BLAKE3) whose context names protocol, version and purpose,
    /// over the canonical encoding of threshold, identity and members.
    pub fn key(&self) -> PublicKey {
        let commitment = derive_key("tallystick flows composite key v1", &encode(self));
        PublicKey::Composite(Hash::from_bytes(commitment))
    }

    /// How many members have to sign.
    pub fn threshold(&self) -> usize {
        usize::from(self.threshold)
    }

    /// Their keys, strictly ascending.
    pub fn members(&self) -> &[PublicKey] {
        &self.members
    }

    /// Whether the key is a member's.
    pub fn has(&self, key: &PublicKey) -> bool {
        self.members.binary_search(key).is_ok()
    }
}

impl BorshDeserialize for CompositeKey {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let threshold = usize::from(u8::deserialize_reader(reader)?);
        let identity = Hash::deserialize_reader(reader)?;
        let count = usize::try_from(u32::deserialize_reader(reader)?).map_err(invalid)?;
        if count > COMPOSITE_MEMBERS {
            return Err(invalid(CompositeKeyError::Count(count)));
        }
        let members =
            (0..count).map(|_| PublicKey::deserialize_reader(reader)).collect::<Result<Vec<_>, _>>()?;
        Self::checked(threshold, identity, members).map_err(invalid)
    }
}

#[cfg(test)]
mod tests;
