//! Ed25519 signatures (RFC 8032), validated by the rules of ZIP-215.
//!
//! RFC 8032 leaves open which odd encodings verify, and implementations differ; on a ledger that
//! is a fork, or a payment that one institution accepts and another refuses. ZIP-215 closes every
//! case: point encodings need not be canonical, `s` must be below the group order, and the
//! equation is the one multiplied by the cofactor. Only under those rules does checking a batch
//! with one equation agree with checking each signature alone.
//! Every signature that RFC 8032 signing makes is valid under them.

mod accumulator;
mod batch;
mod engine;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod keys;

use crate::Hash;
use crate::hex::hex_bytes;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use curve25519_dalek::traits::IsIdentity;
use sha2::{Digest, Sha512};
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub use batch::{BatchVerifier, verify_batch};

/// An Ed25519 public key as it was received: 32 bytes that may or may not encode a point.
///
/// Plain bytes in memory; text and serde form: 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct PublicKey([u8; 32]);

hex_bytes!(PublicKey, 32);

/// An Ed25519 signature as it was received: `R` then `s`.
///
/// Plain bytes in memory; text and serde form: 128 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Signature([u8; 64]);

hex_bytes!(Signature, 64);

impl Signature {
    fn r_bytes(&self) -> &[u8; 32] {
        &self.0.as_chunks::<32>().0[0]
    }

    fn s_bytes(&self) -> &[u8; 32] {
        &self.0.as_chunks::<32>().0[1]
    }

    /// `s`, if it is below the group order (RFC 8032 section 5.1.7; ZIP-215 keeps this rule).
    fn s(&self) -> Option<Scalar> {
        Scalar::from_canonical_bytes(*self.s_bytes()).into()
    }
}

/// A claim to check: `signature` by `key` over the 32 bytes of `message`.
///
/// Plain bytes in memory (128, no padding), so that batches can be cast from a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Signed {
    /// Who is said to have signed.
    pub key: PublicKey,
    /// What is said to have been signed.
    pub message: Hash,
    /// The evidence.
    pub signature: Signature,
}

/// Why a signature does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The public key encodes no point of the curve.
    #[error("the public key is not a point of edwards25519")]
    Key,
    /// The first half of the signature encodes no point of the curve.
    #[error("the signature's R is not a point of edwards25519")]
    R,
    /// The second half of the signature is not below the group order.
    #[error("the signature's s is not below the group order")]
    S,
    /// Well-formed, but not by this key over this message.
    #[error("the signature was not made by this key over this message")]
    Mismatch,
}

/// The operating system gave no randomness to make a key from.
#[derive(Debug, thiserror::Error)]
#[error("the operating system's random source failed")]
pub struct RandomnessError(#[source] getrandom::Error);

/// An Ed25519 private key.
///
/// Wiped from memory when dropped; `Debug` shows the public key only.
///
/// ```
/// use tally_crypto::{SigningKey, verify};
///
/// let key = SigningKey::from_seed([7; 32]);
/// let signature = key.sign(b"pay");
/// assert!(verify(&key.public_key(), b"pay", &signature).is_ok());
/// assert!(verify(&key.public_key(), b"pay twice", &signature).is_err());
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SigningKey {
    seed: [u8; 32],
    scalar: Scalar,
    prefix: [u8; 32],
    #[zeroize(skip)]
    public: PublicKey,
}

impl SigningKey {
    /// A new key from the operating system's randomness.
    ///
    /// # Errors
    /// [`RandomnessError`] when that source fails.
    pub fn generate() -> Result<Self, RandomnessError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(RandomnessError)?;
        Ok(Self::from_seed(*seed))
    }

    /// The key of a 32-byte seed (RFC 8032 section 5.1.5; the "private key" of that text).
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let mut expanded: [u8; 64] = Sha512::digest(seed).into();
        let (halves, _) = expanded.as_chunks::<32>();
        let scalar = Scalar::from_bytes_mod_order(clamp_integer(halves[0]));
        let prefix = halves[1];
        expanded.zeroize();
        let public = PublicKey(EdwardsPoint::mul_base(&scalar).compress().to_bytes());
        Self { seed, scalar, prefix, public }
    }

    /// The seed, for writing the key to a key store.
    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// The key that others verify with.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Signs `message` (RFC 8032 section 5.1.6). Deterministic; in time independent of the key.
    pub fn sign(&self, message: &[u8]) -> Signature {
        let mut nonce: [u8; 64] =
            Sha512::new().chain_update(self.prefix).chain_update(message).finalize().into();
        let mut r = Scalar::from_bytes_mod_order_wide(&nonce);
        let r_bytes = EdwardsPoint::mul_base(&r).compress().to_bytes();
        let s = r + challenge(&r_bytes, &self.public, message) * self.scalar;
        nonce.zeroize();
        r.zeroize();
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&r_bytes);
        signature[32..].copy_from_slice(s.as_bytes());
        Signature(signature)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// `k` of RFC 8032 section 5.1.7, over the encodings as received.
fn challenge(r_bytes: &[u8; 32], key: &PublicKey, message: &[u8]) -> Scalar {
    let digest = Sha512::new().chain_update(r_bytes).chain_update(key.0).chain_update(message).finalize();
    Scalar::from_bytes_mod_order_wide(&digest.into())
}

/// Checks one signature by the rules of ZIP-215.
///
/// # Errors
/// [`SignatureError`] says which part is wrong.
pub fn verify(key: &PublicKey, message: &[u8], signature: &Signature) -> Result<(), SignatureError> {
    let s = signature.s().ok_or(SignatureError::S)?;
    let a = CompressedEdwardsY(key.0).decompress().ok_or(SignatureError::Key)?;
    let r = CompressedEdwardsY(*signature.r_bytes()).decompress().ok_or(SignatureError::R)?;
    let k = challenge(signature.r_bytes(), key, message);
    // 8(sB - kA - R) = 0
    let difference = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &-a, &s) - r;
    if difference.mul_by_cofactor().is_identity() { Ok(()) } else { Err(SignatureError::Mismatch) }
}

#[cfg(test)]
mod tests;
