//! The key that names a node, and the file that keeps it.

use crate::file::create_private;
use alloy_primitives::{Address, B256, Signature, U256, hex, keccak256};
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use zeroize::Zeroizing;

/// A key file holds 64 hex digits, a prefix and a line end; longer files are not read.
const LARGEST_FILE: u64 = 256;

/// A node's public key on secp256k1: 64 bytes, the coordinates of a point on the curve (SEC 1
/// section 2.3.3, uncompressed, without the leading 4). This is what an enode URL names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; 64]);

impl NodeId {
    /// The key of these bytes.
    ///
    /// # Errors
    /// [`NotOnCurve`] when no private key has this public key.
    pub fn new(bytes: [u8; 64]) -> Result<Self, NotOnCurve> {
        let id = Self(bytes);
        id.point().map(|_| id)
    }

    /// The 64 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }

    /// The account that has this key (Yellow Paper, appendix F): the last 20 bytes of the Keccak-256
    /// of the key. The address of a node is that of its validator.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::from_slice(&keccak256(self.0)[12..])
    }

    /// Whether `signature` (r‖s, low s as in BIP 62) over `digest` was made by this key.
    #[must_use]
    pub fn verifies(&self, digest: &B256, signature: &[u8; 64]) -> bool {
        let (Ok(point), Ok(signature)) = (self.point(), secp256k1::ecdsa::Signature::from_compact(signature))
        else {
            return false;
        };
        SECP256K1.verify_ecdsa(Message::from_digest(digest.0), &signature, &point).is_ok()
    }

    fn point(&self) -> Result<PublicKey, NotOnCurve> {
        let mut uncompressed = [4; 65];
        uncompressed[1..].copy_from_slice(&self.0);
        PublicKey::from_byte_array_uncompressed(uncompressed).map_err(|_| NotOnCurve)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({self})")
    }
}

impl FromStr for NodeId {
    type Err = NodeIdError;

    /// 128 hex digits, with or without `0x`.
    fn from_str(text: &str) -> Result<Self, NodeIdError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let mut bytes = [0; 64];
        if digits.len() != 128 {
            return Err(NodeIdError::Length { found: digits.len() });
        }
        hex::decode_to_slice(digits.as_bytes(), &mut bytes).map_err(|_| NodeIdError::Digits)?;
        Ok(Self::new(bytes)?)
    }
}

/// 64 bytes that are no point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the public key is no point of the curve secp256k1")]
pub struct NotOnCurve;

/// Why a text is no public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeIdError {
    /// Not 128 digits.
    #[error("a public key has 128 hex digits, this one has {found} characters")]
    Length {
        /// Characters found.
        found: usize,
    },
    /// Something else than hex digits.
    #[error("a public key has hex digits only")]
    Digits,
    /// No point of the curve.
    #[error(transparent)]
    NotOnCurve(#[from] NotOnCurve),
}

/// A node's private key. It is not printed, and it is overwritten in memory when dropped.
pub struct NodeKey {
    secret: SecretKey,
    id: NodeId,
}

impl NodeKey {
    /// The key of these bytes.
    ///
    /// # Errors
    /// [`KeyFault::Range`] when they are zero or not less than the order of the curve.
    pub fn new(secret: &[u8; 32]) -> Result<Self, KeyFault> {
        let secret = SecretKey::from_byte_array(*secret).map_err(|_| KeyFault::Range)?;
        let mut id = [0; 64];
        id.copy_from_slice(&PublicKey::from_secret_key_global(&secret).serialize_uncompressed()[1..]);
        Ok(Self { secret, id: NodeId(id) })
    }

    /// A fresh key, from the operating system's randomness.
    ///
    /// # Errors
    /// [`KeyFault::Randomness`] when the operating system gives none.
    pub fn generate() -> Result<Self, KeyFault> {
        loop {
            let mut bytes = Zeroizing::new([0; 32]);
            getrandom::fill(bytes.as_mut_slice()).map_err(|error| KeyFault::Randomness(error.to_string()))?;
            // One draw in 2^128 is out of range.
            if let Ok(key) = Self::new(&bytes) {
                return Ok(key);
            }
        }
    }

    /// Reads a key file: 64 hex digits with or without `0x`, as Besu's `key`; white space at the end is
    /// ignored.
    ///
    /// # Errors
    /// [`KeyError`], with the path and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let fail = |fault| KeyError { path: path.to_owned(), fault };
        let length = fs::metadata(path).map_err(|error| fail(KeyFault::Io(error)))?.len();
        if length > LARGEST_FILE {
            return Err(fail(KeyFault::Length { found: usize::try_from(length).unwrap_or(usize::MAX) }));
        }
        let text = Zeroizing::new(fs::read(path).map_err(|error| fail(KeyFault::Io(error)))?);
        Self::parse(&text).map_err(fail)
    }

    /// Reads the contents of a key file.
    ///
    /// # Errors
    /// [`KeyFault`].
    pub fn parse(text: &[u8]) -> Result<Self, KeyFault> {
        let text = text.trim_ascii_end();
        let digits = text.strip_prefix(b"0x").unwrap_or(text);
        if digits.len() != 64 {
            return Err(KeyFault::Length { found: digits.len() });
        }
        if let Some(place) = digits.iter().position(|digit| !digit.is_ascii_hexdigit()) {
            return Err(KeyFault::Digit { place: place + 1 });
        }
        let mut bytes = Zeroizing::new([0; 32]);
        hex::decode_to_slice(digits, bytes.as_mut_slice())
            .map_err(|_| KeyFault::Length { found: digits.len() })?;
        Self::new(&bytes)
    }

    /// Reads a key file, or makes a key and its file when there is none. The file appears at once with
    /// its contents, readable by its owner only; of two processes that start together both get the
    /// key that came first.
    ///
    /// # Errors
    /// [`KeyError`], with the path and what is wrong with it.
    pub fn read_or_create(path: &Path) -> Result<Self, KeyError> {
        match Self::read(path) {
            Err(KeyError { fault: KeyFault::Io(error), .. }) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        let fail = |fault| KeyError { path: path.to_owned(), fault };
        let key = Self::generate().map_err(fail)?;
        match key.create(path) {
            Ok(()) => Ok(key),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read(path),
            Err(error) => Err(fail(KeyFault::Io(error))),
        }
    }

    /// Writes the key to a new file, readable by its owner only, which appears at once with its contents.
    ///
    /// # Errors
    /// [`io::Error`]; of kind [`io::ErrorKind::AlreadyExists`] when there is such a file, which is left
    /// as it is.
    pub fn create(&self, path: &Path) -> io::Result<()> {
        let text = Zeroizing::new(format!("0x{}\n", hex::encode(self.secret_bytes().as_slice())));
        create_private(path, text.as_bytes())
    }

    /// The public key.
    #[must_use]
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// The node's address, which is that of its validator.
    #[must_use]
    pub fn address(&self) -> Address {
        self.id.address()
    }

    /// The private key, for a key store or another signer. The copy is overwritten when dropped.
    #[must_use]
    pub fn secret_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.secret.secret_bytes())
    }

    /// Signs a digest (ECDSA with the nonce of RFC 6979, low s), so that the signer can be recovered
    /// from the signature: seals, consensus messages and transactions.
    #[must_use]
    pub fn sign_recoverable(&self, digest: &B256) -> Signature {
        let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(digest.0), &self.secret);
        let (recovery, compact) = signature.serialize_compact();
        let (r, s) = compact.split_at(32);
        let odd = i32::from(recovery) & 1 == 1;
        Signature::new(U256::from_be_slice(r), U256::from_be_slice(s), odd)
    }

    /// Signs a digest: r‖s, for one who knows the public key.
    #[must_use]
    pub fn sign(&self, digest: &B256) -> [u8; 64] {
        self.secret.sign_ecdsa(Message::from_digest(digest.0)).serialize_compact()
    }
}

impl Clone for NodeKey {
    fn clone(&self) -> Self {
        Self { secret: self.secret, id: self.id }
    }
}

impl Drop for NodeKey {
    fn drop(&mut self) {
        self.secret.non_secure_erase();
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.address())
    }
}

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the node's key file {} cannot be used", path.display())]
pub struct KeyError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub fault: KeyFault,
}

/// What is wrong with a private key. Nothing of the key is in the text.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    /// Not 64 characters.
    #[error("a private key is 64 hex digits, with or without 0x; there are {found} characters")]
    Length {
        /// Characters found.
        found: usize,
    },
    /// A character that is no hex digit.
    #[error("a private key is 64 hex digits, with or without 0x; character {place} of the 64 is none")]
    Digit {
        /// Which, from 1.
        place: usize,
    },
    /// Zero, or not less than the order of the curve.
    #[error("the number is no private key of the curve secp256k1")]
    Range,
    /// The operating system gives no random numbers.
    #[error("the operating system gives no random numbers: {0}")]
    Randomness(String),
    /// The file system refused.
    #[error("the file cannot be read or written")]
    Io(#[source] io::Error),
}

#[cfg(test)]
mod tests;
