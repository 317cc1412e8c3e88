//! Signatures over messages and block headers, and who made them.

use alloy_primitives::{Address, B256, Signature, keccak256};
use thiserror::Error;

/// A recoverable secp256k1 signature: `r`, `s` and the recovery id (0 or 1), 65 bytes.
///
/// It signs a message or, as a commit seal, a block. Whether it recovers to anybody is only known once
/// [`Keys::recover`] was asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seal([u8; 65]);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seal({})", alloy_primitives::hex::encode(self.0))
    }
}

/// Bytes that are no seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    /// Another length than 65 bytes.
    #[error("a signature of {0} bytes stands where 65 are expected")]
    Length(usize),
    /// A recovery id other than 0 and 1.
    #[error("the recovery id of a signature is {0}; it must be 0 or 1")]
    RecoveryId(u8),
}

impl Seal {
    /// Bytes of a seal on the wire and in extra data.
    pub const LENGTH: usize = 65;

    /// Takes `r ‖ s ‖ recovery id`.
    ///
    /// # Errors
    /// Another length, or a recovery id other than 0 and 1.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, SealError> {
        let bytes: [u8; 65] = bytes.try_into().map_err(|_| SealError::Length(bytes.len()))?;
        match bytes[64] {
            0 | 1 => Ok(Self(bytes)),
            id => Err(SealError::RecoveryId(id)),
        }
    }

    /// `r ‖ s ‖ recovery id`.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 65] {
        &self.0
    }
}

/// The validator's key, and the recovery of other validators' addresses.
///
/// A host implements it over its key store; the simulation over a scheme that costs nothing.
pub trait Keys: Send + Sync {
    /// This node's address as a validator.
    fn address(&self) -> Address;

    /// Signs a hash; `None` when the key store cannot at the moment, and the message is then not sent.
    fn sign(&self, hash: B256) -> Option<Seal>;

    /// Who signed `hash`; `None` when nobody did.
    fn recover(&self, hash: B256, seal: &Seal) -> Option<Address> {
        recover(hash, seal)
    }
}

/// Who made a secp256k1 signature over `hash`; `None` when it is of nobody.
#[must_use]
pub fn recover(hash: B256, seal: &Seal) -> Option<Address> {
    let signature = Signature::from_raw_array(&seal.0).ok()?;
    signature.recover_address_from_prehash(&hash).ok()
}

/// A secp256k1 key held in memory.
#[derive(Clone)]
pub struct SecretKey {
    secret: secp256k1::SecretKey,
    address: Address,
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretKey(of {})", self.address)
    }
}

/// Bytes that are no secp256k1 key: zero, or not below the order of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the bytes are no secp256k1 key: zero, or not below the order of the curve")]
pub struct KeyError;

impl SecretKey {
    /// Takes a big-endian scalar.
    ///
    /// # Errors
    /// The scalar is zero or not below the order of the curve.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let secret = secp256k1::SecretKey::from_byte_array(*bytes).map_err(|_| KeyError)?;
        let public = secp256k1::PublicKey::from_secret_key(secp256k1::SECP256K1, &secret);
        let hash = keccak256(&public.serialize_uncompressed()[1..]);
        Ok(Self { secret, address: Address::from_slice(&hash[12..]) })
    }
}

impl Keys for SecretKey {
    fn address(&self) -> Address {
        self.address
    }

    fn sign(&self, hash: B256) -> Option<Seal> {
        let message = secp256k1::Message::from_digest(hash.0);
        let signature = secp256k1::SECP256K1.sign_ecdsa_recoverable(message, &self.secret);
        let (id, compact) = signature.serialize_compact();
        let mut bytes = [0; 65];
        bytes[..64].copy_from_slice(&compact);
        // Ids 2 and 3 stand for an `r` above the order of the curve, which nobody has ever met.
        bytes[64] = u8::try_from(i32::from(id)).ok()?;
        Seal::from_slice(&bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovers_its_own_signatures() {
        let mut scalar = [0; 32];
        scalar[31] = 1;
        let key = SecretKey::from_bytes(&scalar).unwrap();
        // The well-known address of the private key 1.
        assert_eq!(key.address().to_string(), "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf");
        let hash = keccak256(b"tally");
        let seal = key.sign(hash).unwrap();
        assert_eq!(key.recover(hash, &seal), Some(key.address()));
        assert_ne!(key.recover(keccak256(b"stick"), &seal), Some(key.address()));
        assert_eq!(SecretKey::from_bytes(&[0; 32]).unwrap_err(), KeyError);
    }

    #[test]
    fn refuses_what_is_no_seal() {
        assert_eq!(Seal::from_slice(&[0; 64]), Err(SealError::Length(64)));
        let mut bytes = [1; 65];
        bytes[64] = 27;
        assert_eq!(Seal::from_slice(&bytes), Err(SealError::RecoveryId(27)));
        // r = 0 is in no signature.
        let seal = Seal::from_slice(&[0; 65]).unwrap();
        assert_eq!(recover(B256::ZERO, &seal), None);
    }
}
