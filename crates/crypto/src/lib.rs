//! Hashes, keys, signatures, batch verification, Merkle trees and proofs, key stores.
//!
//! | module | what it answers |
//! | --- | --- |
//! | [`hash()`], [`keyed`], [`derive_key`], [`hash_many`] | what is this called? (BLAKE3) |
//! | [`merkle`] | does this item belong to that signed batch? (BLAKE3, RFC 9162 shape) |
//! | [`log`] | is this entry in the log, and was the log only ever appended to? (SHA-256, RFC 9162) |
//! | [`sign`] | who said this? (Ed25519, ZIP-215 rules, alone or thousands at once) |
//! | [`scheme`] | the same, when the signer chose another algorithm (ECDSA over secp256k1 or P-256) |
//! | [`keystore`] | where is my key, and who can read it? (PKCS#8, scrypt) |
//!
//! Everything but the two `SigningKey::generate` and [`keystore`] is a pure function of its input.

mod hash;
mod hex;
pub mod keystore;
pub mod log;
mod many;
pub mod merkle;
mod proof;
pub mod scheme;
pub mod sign;

pub use hash::{Hash, derive_key, hash, keyed};
pub use hex::HexError;
pub use many::{hash_many, hash_many_keyed};
pub use proof::ProofError;
pub use sign::{
    BatchVerifier, PublicKey, Signature, SignatureError, Signed, SigningKey, verify, verify_batch,
};
