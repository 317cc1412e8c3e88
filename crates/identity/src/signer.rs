//! Keys of the ledger as keys of X.509, and back.

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PublicKeyData, SignatureAlgorithm};
use tally_contracts::PublicKey;
use tally_crypto::SigningKey;
use tally_crypto::scheme::CompressedPoint;
use x509_parser::x509::SubjectPublicKeyInfo;

/// An Ed25519 key that signs certificates, requests and revocation lists.
pub(crate) struct Signer<'a> {
    key: &'a SigningKey,
    public: tally_crypto::PublicKey,
}

impl<'a> Signer<'a> {
    pub(crate) fn new(key: &'a SigningKey) -> Self {
        Self { key, public: key.public_key() }
    }
}

impl PublicKeyData for Signer<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl rcgen::SigningKey for Signer<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.key.sign(message).as_bytes().to_vec())
    }
}

/// A public key that was read from a certificate or a request.
pub(crate) struct ForeignKey {
    algorithm: &'static SignatureAlgorithm,
    bytes: Vec<u8>,
}

impl ForeignKey {
    /// An Ed25519 or P-256 key; none of another kind.
    pub(crate) fn new(key: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
        let algorithm = match public_key(key)? {
            PublicKey::Ed25519(_) => &PKCS_ED25519,
            PublicKey::P256(_) => &PKCS_ECDSA_P256_SHA256,
            PublicKey::Secp256k1(_) | PublicKey::Composite(_) => return None,
        };
        Some(Self { algorithm, bytes: key.subject_public_key.data.to_vec() })
    }
}

impl PublicKeyData for ForeignKey {
    fn der_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

/// id-Ed25519 (RFC 8410 section 3).
const ED25519: [u8; 3] = [0x2b, 0x65, 0x70];
/// id-ecPublicKey (RFC 5480 section 2.1.1).
const EC_PUBLIC_KEY: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// secp256r1 (RFC 5480 section 2.1.1.1), which is P-256.
const P256: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// The key as the ledger writes it: Ed25519, or an uncompressed point of P-256.
pub(crate) fn public_key(key: &SubjectPublicKeyInfo<'_>) -> Option<PublicKey> {
    let bytes: &[u8] = &key.subject_public_key.data;
    if key.subject_public_key.unused_bits != 0 {
        return None;
    }
    let algorithm = key.algorithm.algorithm.as_bytes();
    if algorithm == ED25519 && key.algorithm.parameters.is_none() {
        return <[u8; 32]>::try_from(bytes)
            .ok()
            .map(|bytes| tally_crypto::PublicKey::from_bytes(bytes).into());
    }
    let curve = key.algorithm.parameters.as_ref()?.as_oid().ok()?;
    if algorithm != EC_PUBLIC_KEY || curve.as_bytes() != P256 {
        return None;
    }
    // SEC 1 section 2.3.3: 4, x, y; the compressed form has y's parity.
    let (&4, point) = bytes.split_first()? else { return None };
    let (x, y) = point.split_at_checked(32)?;
    let y = <[u8; 32]>::try_from(y).ok()?;
    let mut compressed = [0; 33];
    compressed[0] = 2 | (y[31] & 1);
    compressed[1..].copy_from_slice(x);
    CompressedPoint::from_bytes(compressed).map(PublicKey::P256)
}
