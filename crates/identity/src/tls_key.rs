//! The key of a node's TLS certificate: P-256, because every TLS library takes it, Ed25519 not.
//!
//! In the same form as [`tally_crypto::keystore`] gives Ed25519 keys: PKCS#8 `ENCRYPTED PRIVATE KEY`
//! PEM with scrypt and AES-256-CBC; `openssl pkey -in FILE` understands it.

use crate::files::{self, Access, FileError};
use pkcs8::pkcs5::pbes2::{Kdf, Parameters};
use pkcs8::pkcs5::{self, scrypt};
use pkcs8::{EncryptedPrivateKeyInfoRef, LineEnding, PrivateKeyInfoRef, SecretDocument};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::SigningKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tally_crypto::keystore::ScryptCost;
use zeroize::Zeroizing;

const LABEL: &str = "ENCRYPTED PRIVATE KEY";
/// An encrypted P-256 key takes about 550 bytes.
const MAX_FILE_BYTES: usize = 16 * 1024;
/// RFC 7914's recommended block size, and the one that [`ScryptCost`] speaks of.
const SCRYPT_R: u32 = 8;
/// What a file may ask of its reader, as in the key store: 1 GiB of memory, a few seconds.
const MAX_SCRYPT_N: u64 = 1 << 20;
const MAX_SCRYPT_WORK: u64 = 1 << 24;

/// Why a TLS key was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum TlsKeyError {
    /// The file.
    #[error("the TLS key's file")]
    File(#[from] FileError),
    /// Not an encrypted P-256 key.
    #[error("{} is not an encrypted P-256 key in PKCS#8 PEM form: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// The passphrase does not decrypt the key, or the file was damaged: the cipher cannot tell the
    /// two apart.
    #[error("wrong passphrase for key file {}", path.display())]
    WrongPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// A key under an empty passphrase is not encrypted.
    #[error("the passphrase for key file {} is empty", path.display())]
    EmptyPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// The cost asked for is outside what a key file may ask of its reader.
    #[error("scrypt cost {0:?} is outside what a key file may ask")]
    Cost(ScryptCost),
    /// The key could not be made.
    #[error("a P-256 key cannot be made")]
    Generate(#[source] rcgen::Error),
    /// The operating system gave no randomness for the salt.
    #[error("the operating system's random source failed")]
    Randomness(#[source] getrandom::Error),
}

/// A P-256 key. Unlike an Ed25519 key of the key store, its private part is not wiped from memory
/// when dropped: it lives in rcgen and, as long as the node runs, in ring.
pub(crate) struct TlsKey {
    pair: KeyPair,
}

impl TlsKey {
    pub(crate) fn generate() -> Result<Self, TlsKeyError> {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(TlsKeyError::Generate)?;
        Ok(Self { pair })
    }

    /// The public part, for a certificate.
    pub(crate) const fn public(&self) -> &KeyPair {
        &self.pair
    }

    /// The key as rustls signs with it.
    pub(crate) fn to_rustls(&self) -> Result<Arc<dyn SigningKey>, rustls::Error> {
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.pair.serialized_der()));
        rustls::crypto::ring::sign::any_ecdsa_type(&der)
    }

    /// Writes the key to a new file, mode 0600.
    pub(crate) fn write(&self, path: &Path, passphrase: &[u8], cost: ScryptCost) -> Result<(), TlsKeyError> {
        if passphrase.is_empty() {
            return Err(TlsKeyError::EmptyPassphrase { path: path.into() });
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(TlsKeyError::Randomness)?;
        let [salt, iv] = [0, 1].map(|half| random.as_chunks::<16>().0[half]);
        let refused = |_| TlsKeyError::Cost(cost);
        let scrypt = scrypt::Params::new(cost.log_n, SCRYPT_R, cost.p.into()).map_err(refused)?;
        if !bearable(1_u64.checked_shl(cost.log_n.into()).unwrap_or(0), 8, cost.p) {
            return Err(TlsKeyError::Cost(cost));
        }
        let malformed = |reason| TlsKeyError::Malformed { path: path.into(), reason };
        let parameters = Parameters::generate_scrypt_aes256cbc(scrypt, &salt, iv)
            .map_err(|_| malformed("its parameters cannot be encoded"))?;
        let text = PrivateKeyInfoRef::try_from(self.pair.serialized_der())
            .and_then(|info| info.encrypt_with_params(parameters, passphrase))
            .and_then(|document| Ok(document.to_pem(LABEL, LineEnding::LF)?))
            .map_err(|_| malformed("it cannot be encrypted"))?;
        Ok(files::create(path, text.as_bytes(), Access::Private)?)
    }

    /// Reads the key in a file.
    pub(crate) fn read(path: &Path, passphrase: &[u8]) -> Result<Self, TlsKeyError> {
        let malformed = |reason| TlsKeyError::Malformed { path: path.into(), reason };
        let text = files::read(path, MAX_FILE_BYTES, Access::Private)?;
        let text = std::str::from_utf8(&text).map_err(|_| malformed("not text"))?;
        let (label, document) =
            SecretDocument::from_pem(text.trim_ascii()).map_err(|_| malformed("not PEM"))?;
        if label != LABEL {
            return Err(malformed("its PEM label is not ENCRYPTED PRIVATE KEY"));
        }
        let encrypted = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
            .map_err(|_| malformed("not an encrypted PKCS#8 key"))?;
        let Some(Kdf::Scrypt(scrypt)) = encrypted.encryption_algorithm.pbes2().map(|params| &params.kdf)
        else {
            return Err(malformed("the passphrase is not strengthened by scrypt"));
        };
        if !bearable(scrypt.cost_parameter, scrypt.block_size, scrypt.parallelization) {
            return Err(malformed("deriving the key would take too much memory or time"));
        }
        let wrong = || TlsKeyError::WrongPassphrase { path: path.into() };
        let decrypted = encrypted.decrypt(passphrase).map_err(|error| match error {
            // A wrong key leaves wrong padding or, one time in 256, right padding around noise.
            pkcs8::Error::EncryptedPrivateKey(pkcs5::Error::DecryptFailed) | pkcs8::Error::Asn1(_) => wrong(),
            _ => malformed("an algorithm that is not supported"),
        })?;
        let der = Zeroizing::new(decrypted.as_bytes().to_vec());
        PrivateKeyInfoRef::try_from(der.as_slice()).map_err(|_| wrong())?;
        let der = PrivatePkcs8KeyDer::from(der.as_slice());
        // ring checks that the public key in the file belongs to the private one.
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256)
            .map_err(|_| malformed("the key inside is not a P-256 key, or damaged"))?;
        Ok(Self { pair })
    }
}

/// Whether scrypt with these parameters stays within the memory and time a key file may take.
fn bearable(n: u64, r: u16, p: u16) -> bool {
    n.is_power_of_two()
        && n > 1
        && n <= MAX_SCRYPT_N
        && (1..=32).contains(&r)
        && (1..=64).contains(&p)
        && n * u64::from(r) * u64::from(p) <= MAX_SCRYPT_WORK
}
