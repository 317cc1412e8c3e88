//! Key stores, version 3 (Web3 Secret Storage Definition): a private key under a password, in the form
//! that geth, Besu's tools, ethers and viem read and write.
//!
//! Keys are derived by scrypt (RFC 7914) or PBKDF2 with HMAC-SHA-256 (RFC 8018), the private key is
//! encrypted by AES-128 in counter mode (NIST SP 800-38A) and the password checked by a Keccak-256
//! over the other half of the derived key and the ciphertext. The crates for this format are not
//! maintained; this is the format on the primitives of crates that are.

use crate::key::{KeyFault, NodeKey};
use aes::Aes128;
use aes::cipher::{KeyIvInit, StreamCipher};
use alloy_primitives::{Address, hex, keccak256};
use ctr::Ctr128BE;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The largest file that is read; common ones have 500 bytes.
const LARGEST_FILE: u64 = 16 << 10;
/// Memory that a file may ask of scrypt: twice the common 2^18 blocks of 8.
const MOST_MEMORY: u64 = 512 << 20;
/// Memory times passes that a file may ask of scrypt, which bounds the time to some ten seconds.
const MOST_WORK: u64 = 2 << 30;
/// Iterations that a file may ask of PBKDF2, which bounds the time likewise.
const MOST_ITERATIONS: u32 = 10_000_000;
const LONGEST_SALT: usize = 256;

/// How the key is derived from the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Derivation {
    /// scrypt: `n` blocks of `128 * r` bytes of memory, `p` times.
    Scrypt {
        /// Blocks, a power of two.
        n: u32,
        /// Size of a block.
        r: u32,
        /// Passes.
        p: u32,
    },
    /// PBKDF2 with HMAC-SHA-256 and so many iterations.
    Pbkdf2 {
        /// Iterations.
        c: u32,
    },
}

impl Derivation {
    /// What geth and Besu's tools write: 256 MiB of memory, about a second.
    pub const STANDARD: Self = Self::Scrypt { n: 1 << 18, r: 8, p: 1 };
    /// What geth writes with `--lightkdf`: 4 MiB, a few milliseconds times six. For development accounts.
    pub const LIGHT: Self = Self::Scrypt { n: 1 << 12, r: 8, p: 6 };

    /// Whether this is little enough to be asked for by a file.
    fn check(self) -> Result<(), KeystoreFault> {
        match self {
            Self::Scrypt { n, r, p } => {
                let memory = 128_u64.checked_mul(u64::from(n)).and_then(|bytes| bytes.checked_mul(r.into()));
                let work = memory.and_then(|bytes| bytes.checked_mul(p.into()));
                let bounded = memory.is_some_and(|memory| memory <= MOST_MEMORY)
                    && work.is_some_and(|work| work <= MOST_WORK);
                // The conditions of RFC 7914 section 2.
                let sensible = n.is_power_of_two() && n > 1 && r > 0 && p > 0;
                if bounded && sensible { Ok(()) } else { Err(KeystoreFault::Cost) }
            }
            Self::Pbkdf2 { c } if c > 0 && c <= MOST_ITERATIONS => Ok(()),
            Self::Pbkdf2 { .. } => Err(KeystoreFault::Cost),
        }
    }

    fn derive(self, password: &[u8], salt: &[u8]) -> Result<Zeroizing<[u8; 32]>, KeystoreFault> {
        self.check()?;
        let mut derived = Zeroizing::new([0; 32]);
        match self {
            Self::Scrypt { n, r, p } => {
                let log_n = u8::try_from(n.trailing_zeros()).map_err(|_| KeystoreFault::Cost)?;
                let params = scrypt::Params::new(log_n, r, p).map_err(|_| KeystoreFault::Cost)?;
                scrypt::scrypt(password, salt, &params, derived.as_mut_slice())
                    .map_err(|_| KeystoreFault::Cost)?;
            }
            Self::Pbkdf2 { c } => {
                pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, c, derived.as_mut_slice());
            }
        }
        Ok(derived)
    }
}

/// The salt, the initial counter and the name of a new key store: fresh random bytes.
#[derive(Debug, Clone, Copy)]
pub struct Nonces {
    /// For the derivation.
    pub salt: [u8; 32],
    /// The first counter block.
    pub iv: [u8; 16],
    /// The `id` of the store.
    pub id: [u8; 16],
}

impl Nonces {
    /// From the operating system.
    ///
    /// # Errors
    /// [`KeyFault::Randomness`] when it gives none.
    pub fn generate() -> Result<Self, KeyFault> {
        let mut nonces = Self { salt: [0; 32], iv: [0; 16], id: [0; 16] };
        for part in [&mut nonces.salt[..], &mut nonces.iv[..], &mut nonces.id[..]] {
            getrandom::fill(part).map_err(|error| KeyFault::Randomness(error.to_string()))?;
        }
        Ok(nonces)
    }
}

/// Encrypts a key: the contents of a key store.
///
/// # Errors
/// [`KeystoreFault::Cost`] when the derivation asks for more than [`Keystore::parse`] would take.
pub fn encrypt(
    key: &NodeKey,
    password: &[u8],
    derivation: Derivation,
    nonces: &Nonces,
) -> Result<String, KeystoreFault> {
    let derived = derivation.derive(password, &nonces.salt)?;
    let mut ciphertext = key.secret_bytes().to_vec();
    apply_keystream(&derived, &nonces.iv, &mut ciphertext);
    let mac = mac(&derived, &ciphertext);
    let salt = Hex(nonces.salt.to_vec());
    let (kdf, kdfparams) = match derivation {
        Derivation::Scrypt { n, r, p } => {
            ("scrypt", Params { dklen: 32, n: Some(n), r: Some(r), p: Some(p), c: None, prf: None, salt })
        }
        Derivation::Pbkdf2 { c } => {
            let prf = Some("hmac-sha256".to_owned());
            ("pbkdf2", Params { dklen: 32, n: None, r: None, p: None, c: Some(c), prf, salt })
        }
    };
    let store = Store {
        address: Some(hex::encode(key.address())),
        crypto: Crypto {
            cipher: "aes-128-ctr".to_owned(),
            cipherparams: CipherParams { iv: Hex(nonces.iv.to_vec()) },
            ciphertext: Hex(ciphertext),
            kdf: kdf.to_owned(),
            kdfparams,
            mac: Hex(mac.to_vec()),
        },
        id: Some(uuid(nonces.id)),
        version: 3,
    };
    serde_json::to_string_pretty(&store).map(|text| text + "\n").map_err(KeystoreFault::Json)
}

/// A key store that has been read and not unlocked.
#[derive(Debug, Clone)]
pub struct Keystore {
    /// The address that it states, if it does; the key is checked against it.
    pub address: Option<Address>,
    /// How the key is derived from the password; within the bounds of this module.
    pub derivation: Derivation,
    salt: Vec<u8>,
    iv: [u8; 16],
    ciphertext: [u8; 32],
    mac: [u8; 32],
}

impl Keystore {
    /// Reads the contents of a key store.
    ///
    /// # Errors
    /// [`KeystoreFault`]; among them [`KeystoreFault::Cost`] when unlocking would take more than 512 MiB
    /// or some ten seconds.
    pub fn parse(text: &[u8]) -> Result<Self, KeystoreFault> {
        if text.len() as u64 > LARGEST_FILE {
            return Err(KeystoreFault::Large);
        }
        let Store { crypto, version, address, .. } =
            serde_json::from_slice(text).map_err(KeystoreFault::Json)?;
        if version != 3 {
            return Err(KeystoreFault::Version { found: version });
        }
        if crypto.cipher != "aes-128-ctr" {
            return Err(KeystoreFault::Cipher { found: crypto.cipher });
        }
        let Params { dklen, n, r, p, c, prf, salt } = crypto.kdfparams;
        let derivation = match (crypto.kdf.as_str(), n, r, p, c, prf.as_deref()) {
            ("scrypt", Some(n), Some(r), Some(p), _, _) => Derivation::Scrypt { n, r, p },
            ("pbkdf2", _, _, _, Some(c), Some("hmac-sha256")) => Derivation::Pbkdf2 { c },
            _ => return Err(KeystoreFault::Derivation),
        };
        derivation.check()?;
        if dklen != 32 {
            return Err(KeystoreFault::Length { field: "dklen", expected: 32, found: dklen as usize });
        }
        let salt = salt.0;
        if salt.len() > LONGEST_SALT {
            return Err(KeystoreFault::Length { field: "salt", expected: LONGEST_SALT, found: salt.len() });
        }
        Ok(Self {
            address: address.map(|text| text.parse()).transpose().map_err(|_| KeystoreFault::Address)?,
            derivation,
            salt,
            iv: array("iv", &crypto.cipherparams.iv.0)?,
            ciphertext: array("ciphertext", &crypto.ciphertext.0)?,
            mac: array("mac", &crypto.mac.0)?,
        })
    }

    /// Decrypts the key.
    ///
    /// # Errors
    /// [`KeystoreFault::Password`] when the password is wrong or the file was changed;
    /// [`KeystoreFault::Key`] and [`KeystoreFault::Address`] when it was made wrong.
    pub fn unlock(&self, password: &[u8]) -> Result<NodeKey, KeystoreFault> {
        let derived = self.derivation.derive(password, &self.salt)?;
        // Neither is secret to whoever has the file, so the comparison may take its time.
        if mac(&derived, &self.ciphertext) != self.mac {
            return Err(KeystoreFault::Password);
        }
        let mut secret = Zeroizing::new(self.ciphertext);
        apply_keystream(&derived, &self.iv, secret.as_mut_slice());
        let key = NodeKey::new(&secret).map_err(KeystoreFault::Key)?;
        if self.address.is_some_and(|stated| stated != key.address()) {
            return Err(KeystoreFault::Address);
        }
        Ok(key)
    }
}

/// Reads and decrypts a key store.
///
/// # Errors
/// [`KeystoreError`], with the path.
pub fn read(path: &Path, password: &[u8]) -> Result<NodeKey, KeystoreError> {
    let fail = |fault| KeystoreError { path: path.to_owned(), fault };
    let io = |error| fail(KeystoreFault::Io(error));
    let mut text = Vec::new();
    fs::File::open(path).map_err(io)?.take(LARGEST_FILE + 1).read_to_end(&mut text).map_err(io)?;
    Keystore::parse(&text).and_then(|store| store.unlock(password)).map_err(fail)
}

/// The derived key's first half encrypts, in counter mode, which is its own inverse.
fn apply_keystream(derived: &[u8; 32], iv: &[u8; 16], bytes: &mut [u8]) {
    let mut key = [0; 16];
    key.copy_from_slice(&derived[..16]);
    let key = Zeroizing::new(key);
    Ctr128BE::<Aes128>::new((&*key).into(), iv.into()).apply_keystream(bytes);
}

/// Its second half authenticates.
fn mac(derived: &[u8; 32], ciphertext: &[u8]) -> [u8; 32] {
    let mut text = Zeroizing::new(derived[16..].to_vec());
    text.extend_from_slice(ciphertext);
    keccak256(text.as_slice()).0
}

fn array<const N: usize>(field: &'static str, bytes: &[u8]) -> Result<[u8; N], KeystoreFault> {
    bytes.try_into().map_err(|_| KeystoreFault::Length { field, expected: N, found: bytes.len() })
}

/// RFC 9562 section 5.4.
fn uuid(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let digits = hex::encode(random);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[derive(Serialize, Deserialize)]
struct Store {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(alias = "Crypto")]
    crypto: Crypto,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Crypto {
    cipher: String,
    cipherparams: CipherParams,
    ciphertext: Hex,
    kdf: String,
    kdfparams: Params,
    mac: Hex,
}

#[derive(Serialize, Deserialize)]
struct CipherParams {
    iv: Hex,
}

#[derive(Serialize, Deserialize)]
struct Params {
    dklen: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    n: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    r: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    p: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    c: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prf: Option<String>,
    salt: Hex,
}

/// Bytes as hex digits without a prefix.
struct Hex(Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = std::borrow::Cow::<str>::deserialize(deserializer)?;
        hex::decode(digits.as_bytes()).map(Self).map_err(serde::de::Error::custom)
    }
}

/// A key store that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the key store {} cannot be used", path.display())]
pub struct KeystoreError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub fault: KeystoreFault,
}

/// What is wrong with a key store. Nothing of the key or the password is in the text.
#[derive(Debug, thiserror::Error)]
pub enum KeystoreFault {
    /// Larger than any key store.
    #[error("a key store has at most {LARGEST_FILE} bytes")]
    Large,
    /// Not JSON, or a field is missing.
    #[error("the file is no key store of version 3")]
    Json(#[source] serde_json::Error),
    /// Another version.
    #[error("the key store has version {found}; only version 3 is read")]
    Version {
        /// The version found.
        found: u32,
    },
    /// Another cipher.
    #[error("the cipher {found:?} is not known; version 3 has aes-128-ctr")]
    Cipher {
        /// The cipher found.
        found: String,
    },
    /// An unknown derivation, or its parameters are missing.
    #[error("the key is derived neither by scrypt (n, r, p) nor by pbkdf2 (c, prf hmac-sha256)")]
    Derivation,
    /// The derivation's parameters make no sense, or ask for too much.
    #[error("the derivation asks for more than 512 MiB or too much time, or its parameters are invalid")]
    Cost,
    /// A field of a wrong length.
    #[error("{field} has {found} bytes, not {expected}")]
    Length {
        /// The field.
        field: &'static str,
        /// Bytes expected; at most, for a salt.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// The password is wrong, or the file was changed.
    #[error("the password is wrong, or the file is damaged")]
    Password,
    /// What was encrypted is no key.
    #[error("the key store holds no private key")]
    Key(#[source] KeyFault),
    /// The address is not that of the key.
    #[error("the address in the key store is not that of its key")]
    Address,
    /// The file system refused.
    #[error("the file cannot be read")]
    Io(#[source] io::Error),
}

#[cfg(test)]
mod tests;
