//! Keys and signatures of several schemes under one type: Ed25519 (the default), ECDSA over
//! secp256k1 and ECDSA over P-256.
//!
//! The flows ledger stores and compares keys by their bytes, so each key and each signature has
//! one form: Ed25519 as in [`crate::sign`]; ECDSA keys as compressed points (SEC 1 section 2.3.3),
//! ECDSA signatures as `r` then `s`, 32 big-endian bytes each, with `s` at most half of the group
//! order. Of the two values of `s` that satisfy the ECDSA equation the high one is refused,
//! because anybody could make it out of the low one and so change a signed record without a key.

mod encoding;

use crate::sign::RandomnessError;
use crate::{Hash, sign};
use std::fmt;
use zeroize::Zeroizing;

pub use encoding::ParseError;

/// Which signature algorithm a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Scheme {
    /// Ed25519 by the rules of ZIP-215 (see [`crate::sign`]).
    #[default]
    Ed25519,
    /// ECDSA over secp256k1 (SEC 2 section 2.4.1) with SHA-256; nonces by RFC 6979.
    Secp256k1,
    /// ECDSA over P-256 (FIPS 186-5) with SHA-256; nonces by RFC 6979.
    P256,
}

impl Scheme {
    /// Every scheme there is.
    pub const ALL: [Self; 3] = [Self::Ed25519, Self::Secp256k1, Self::P256];

    /// The name that key and signature texts begin with.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ed25519 => "ed25519",
            Self::Secp256k1 => "secp256k1",
            Self::P256 => "p256",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A public key as it was received: its bytes may or may not encode a point, which [`verify`]
/// finds out.
///
/// Text and serde form: `ed25519:` and hexadecimal digits. Borsh form: a byte for the scheme, then
/// 32 bytes (Ed25519, composite) or 33 (ECDSA).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PublicKey {
    /// An Ed25519 key.
    Ed25519(sign::PublicKey),
    /// A compressed point of secp256k1.
    Secp256k1(CompressedPoint),
    /// A compressed point of P-256.
    P256(CompressedPoint),
    /// A commitment to several keys, and to how many of them have to sign. No signature is by it:
    /// what it stands for has to be revealed, and the signatures of those keys count.
    Composite(Hash),
}

/// A point of a Weierstrass curve as it was received: 2 or 3, then the x coordinate
/// (SEC 1 section 2.3.3). The x coordinate may or may not belong to a point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompressedPoint([u8; 33]);

impl CompressedPoint {
    /// Wraps the bytes; `None` unless the first is 2 or 3.
    pub fn from_bytes(bytes: [u8; 33]) -> Option<Self> {
        matches!(bytes[0], 2 | 3).then_some(Self(bytes))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 33] {
        &self.0
    }
}

impl PublicKey {
    /// The scheme of the key; none of a composite key.
    pub const fn scheme(&self) -> Option<Scheme> {
        match self {
            Self::Ed25519(_) => Some(Scheme::Ed25519),
            Self::Secp256k1(_) => Some(Scheme::Secp256k1),
            Self::P256(_) => Some(Scheme::P256),
            Self::Composite(_) => None,
        }
    }

    /// Whether it is a commitment to other keys, by which nothing is signed.
    pub const fn is_composite(&self) -> bool {
        matches!(self, Self::Composite(_))
    }

    /// The bytes of the key without its scheme: 32 or 33.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Ed25519(key) => key.as_bytes(),
            Self::Secp256k1(point) | Self::P256(point) => point.as_bytes(),
            Self::Composite(commitment) => commitment.as_bytes(),
        }
    }

    /// Checks that `signature` is by this key over `message`; the same as [`verify`].
    ///
    /// # Errors
    /// [`VerifyError`] says what is wrong.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), VerifyError> {
        verify(self, message, signature)
    }
}

impl From<sign::PublicKey> for PublicKey {
    fn from(key: sign::PublicKey) -> Self {
        Self::Ed25519(key)
    }
}

/// A signature as it was received.
///
/// Text and serde form: `ed25519:` and 128 hexadecimal digits. Borsh form: a byte for the scheme,
/// then 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signature {
    /// An Ed25519 signature.
    Ed25519(sign::Signature),
    /// `r` and `s` of ECDSA over secp256k1.
    Secp256k1([u8; 64]),
    /// `r` and `s` of ECDSA over P-256.
    P256([u8; 64]),
}

impl Signature {
    /// The scheme of the signature.
    pub const fn scheme(&self) -> Scheme {
        match self {
            Self::Ed25519(_) => Scheme::Ed25519,
            Self::Secp256k1(_) => Scheme::Secp256k1,
            Self::P256(_) => Scheme::P256,
        }
    }

    /// The 64 bytes of the signature without its scheme.
    pub const fn as_bytes(&self) -> &[u8; 64] {
        match self {
            Self::Ed25519(signature) => signature.as_bytes(),
            Self::Secp256k1(bytes) | Self::P256(bytes) => bytes,
        }
    }

    /// Checks that this is by `key` over `message`; the same as [`verify`].
    ///
    /// # Errors
    /// [`VerifyError`] says what is wrong.
    pub fn verify(&self, key: &PublicKey, message: &[u8]) -> Result<(), VerifyError> {
        verify(key, message, self)
    }
}

impl From<sign::Signature> for Signature {
    fn from(signature: sign::Signature) -> Self {
        Self::Ed25519(signature)
    }
}

/// Why a signature does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// Key and signature are of different schemes.
    #[error("the key is of scheme {key}, the signature of scheme {signature}")]
    Scheme {
        /// Scheme of the key.
        key: Scheme,
        /// Scheme of the signature.
        signature: Scheme,
    },
    /// The key is composite.
    #[error("a composite key signs nothing; the keys that it commits to do")]
    Composite,
    /// The Ed25519 rules refuse it.
    #[error("the Ed25519 signature is refused")]
    Ed25519(#[source] sign::SignatureError),
    /// The key is no point of the curve.
    #[error("the public key is not a point of {0}")]
    Key(Scheme),
    /// `r` or `s` is zero or not below the group order.
    #[error("r or s of the {0} signature is out of range")]
    Range(Scheme),
    /// `s` is above half of the group order: someone altered a signature without the key.
    #[error("s of the {0} signature is not in the lower half of the group order")]
    HighS(Scheme),
    /// Well-formed, but not by this key over this message.
    #[error("the {0} signature was not made by this key over this message")]
    Mismatch(Scheme),
}

/// Checks one signature. Time depends on public values only.
///
/// # Errors
/// [`VerifyError`] says what is wrong; of several faults the first in this order: scheme, key,
/// range, high `s`, mismatch.
pub fn verify(key: &PublicKey, message: &[u8], signature: &Signature) -> Result<(), VerifyError> {
    match (key, signature) {
        (PublicKey::Ed25519(key), Signature::Ed25519(signature)) => {
            sign::verify(key, message, signature).map_err(VerifyError::Ed25519)
        }
        (PublicKey::Secp256k1(point), Signature::Secp256k1(signature)) => {
            use k256::ecdsa::signature::Verifier;
            let scheme = Scheme::Secp256k1;
            let key =
                k256::ecdsa::VerifyingKey::from_sec1_bytes(&point.0).map_err(|_| VerifyError::Key(scheme))?;
            let signature =
                k256::ecdsa::Signature::from_slice(signature).map_err(|_| VerifyError::Range(scheme))?;
            if signature.normalize_s() != signature {
                return Err(VerifyError::HighS(scheme));
            }
            key.verify(message, &signature).map_err(|_| VerifyError::Mismatch(scheme))
        }
        (PublicKey::P256(point), Signature::P256(signature)) => {
            use p256::ecdsa::signature::Verifier;
            let scheme = Scheme::P256;
            let key =
                p256::ecdsa::VerifyingKey::from_sec1_bytes(&point.0).map_err(|_| VerifyError::Key(scheme))?;
            let signature =
                p256::ecdsa::Signature::from_slice(signature).map_err(|_| VerifyError::Range(scheme))?;
            if signature.normalize_s() != signature {
                return Err(VerifyError::HighS(scheme));
            }
            key.verify(message, &signature).map_err(|_| VerifyError::Mismatch(scheme))
        }
        _ => Err(key.scheme().map_or(VerifyError::Composite, |key| VerifyError::Scheme {
            key,
            signature: signature.scheme(),
        })),
    }
}

/// The 32 bytes are no private key of the scheme: zero, or not below the group order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the 32 bytes are not a private key of {0}: they must be above zero and below the group order")]
pub struct SecretError(pub Scheme);

/// A private key of one of the schemes.
///
/// Wiped from memory when dropped; `Debug` shows the public key only.
///
/// ```
/// use tally_crypto::scheme::{Scheme, SigningKey, verify};
///
/// let key = SigningKey::from_secret(Scheme::P256, &[7; 32])?;
/// let signature = key.sign(b"pay");
/// assert!(verify(&key.public_key(), b"pay", &signature).is_ok());
/// assert!(verify(&key.public_key(), b"pay twice", &signature).is_err());
/// # Ok::<(), tally_crypto::scheme::SecretError>(())
/// ```
#[derive(Clone)]
pub struct SigningKey {
    secret: Secret,
    public: PublicKey,
}

#[derive(Clone)]
enum Secret {
    Ed25519(Box<sign::SigningKey>),
    Secp256k1(Box<k256::ecdsa::SigningKey>),
    P256(Box<p256::ecdsa::SigningKey>),
}

impl SigningKey {
    /// A new key from the operating system's randomness.
    ///
    /// # Errors
    /// [`RandomnessError`] when that source fails.
    pub fn generate(scheme: Scheme) -> Result<Self, RandomnessError> {
        loop {
            let random = sign::SigningKey::generate()?;
            if scheme == Scheme::Ed25519 {
                return Ok(random.into());
            }
            // All but one in 2^32 random strings are keys of P-256, of secp256k1 even more.
            if let Ok(key) = Self::from_secret(scheme, random.seed()) {
                return Ok(key);
            }
        }
    }

    /// The key of 32 secret bytes: the seed (Ed25519, RFC 8032 section 5.1.5) or the big-endian
    /// private scalar (ECDSA).
    ///
    /// # Errors
    /// [`SecretError`] when the bytes are no scalar of the curve; Ed25519 takes any.
    pub fn from_secret(scheme: Scheme, secret: &[u8; 32]) -> Result<Self, SecretError> {
        let refuse = |_| SecretError(scheme);
        match scheme {
            Scheme::Ed25519 => Ok(sign::SigningKey::from_seed(*secret).into()),
            Scheme::Secp256k1 => {
                let key = k256::ecdsa::SigningKey::from_slice(secret).map_err(refuse)?;
                let point = compressed(key.verifying_key().to_sec1_point(true).as_bytes());
                Ok(Self { secret: Secret::Secp256k1(Box::new(key)), public: PublicKey::Secp256k1(point) })
            }
            Scheme::P256 => {
                let key = p256::ecdsa::SigningKey::from_slice(secret).map_err(refuse)?;
                let point = compressed(key.verifying_key().to_sec1_point(true).as_bytes());
                Ok(Self { secret: Secret::P256(Box::new(key)), public: PublicKey::P256(point) })
            }
        }
    }

    /// The 32 secret bytes that [`SigningKey::from_secret`] takes, for writing the key to a key store.
    pub fn secret(&self) -> Zeroizing<[u8; 32]> {
        match &self.secret {
            Secret::Ed25519(key) => Zeroizing::new(*key.seed()),
            Secret::Secp256k1(key) => Zeroizing::new(key.to_bytes().into()),
            Secret::P256(key) => Zeroizing::new(key.to_bytes().into()),
        }
    }

    /// The scheme of the key.
    pub const fn scheme(&self) -> Scheme {
        match &self.secret {
            Secret::Ed25519(_) => Scheme::Ed25519,
            Secret::Secp256k1(_) => Scheme::Secp256k1,
            Secret::P256(_) => Scheme::P256,
        }
    }

    /// The key that others verify with.
    pub const fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Signs `message`. Deterministic (RFC 8032, RFC 6979); in time independent of the key.
    pub fn sign(&self, message: &[u8]) -> Signature {
        match &self.secret {
            Secret::Ed25519(key) => Signature::Ed25519(key.sign(message)),
            Secret::Secp256k1(key) => {
                use k256::ecdsa::signature::Signer;
                let signature: k256::ecdsa::Signature = key.sign(message);
                Signature::Secp256k1(signature.normalize_s().to_bytes().into())
            }
            Secret::P256(key) => {
                use p256::ecdsa::signature::Signer;
                let signature: p256::ecdsa::Signature = key.sign(message);
                Signature::P256(signature.normalize_s().to_bytes().into())
            }
        }
    }
}

impl From<sign::SigningKey> for SigningKey {
    fn from(key: sign::SigningKey) -> Self {
        let public = PublicKey::Ed25519(key.public_key());
        Self { secret: Secret::Ed25519(Box::new(key)), public }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// The bytes of a point that the curve's own code just compressed.
fn compressed(bytes: &[u8]) -> CompressedPoint {
    let mut point = [0; 33];
    point.copy_from_slice(bytes);
    CompressedPoint(point)
}

#[cfg(test)]
mod tests;
