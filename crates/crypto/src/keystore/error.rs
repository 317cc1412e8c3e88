//! What can be wrong with a key file, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why a key file was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The operating system refused.
    #[error("cannot {action} key file {}", path.display())]
    Io {
        /// The key file.
        path: PathBuf,
        /// What was tried, as a verb with the file as its object.
        action: &'static str,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
    /// The operating system gave no randomness for salt and file name.
    #[error("the operating system's random source failed")]
    Randomness(#[source] getrandom::Error),
    /// A key is not overwritten by mistake.
    #[error("{} exists already; choose another name, or replace it on purpose", path.display())]
    Exists {
        /// The key file.
        path: PathBuf,
    },
    /// A directory, pipe or device.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What was to be the key file.
        path: PathBuf,
    },
    /// Others than the owner may read or change the file.
    #[error("key file {} has mode {mode:04o}, open to others than its owner; run chmod 600 on it", path.display())]
    PermissionsTooOpen {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// No key is that large.
    #[error("{} is larger than the {limit} bytes a key file may have", path.display())]
    TooLarge {
        /// What was to be the key file.
        path: PathBuf,
        /// Limit in bytes.
        limit: u64,
    },
    /// The bytes are not those of a key file, whatever the passphrase.
    #[error("{} is not an encrypted Ed25519 key in PKCS#8 PEM form", path.display())]
    Malformed {
        /// What was to be the key file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: Malformation,
    },
    /// The passphrase does not decrypt the key (or the encrypted part was damaged: the cipher
    /// cannot tell the two apart).
    #[error("wrong passphrase for key file {}", path.display())]
    WrongPassphrase {
        /// The key file.
        path: PathBuf,
    },
    /// A key under an empty passphrase is not encrypted.
    #[error("the passphrase for key file {} is empty", path.display())]
    EmptyPassphrase {
        /// The key file to be.
        path: PathBuf,
    },
    /// The cost asked for is outside what a key file may ask of its reader.
    #[error("scrypt cost log_n = {log_n}, p = {p} is outside log_n 1 to 20, p 1 to 64")]
    Cost {
        /// Logarithm of the memory cost.
        log_n: u8,
        /// Parallelisation parameter.
        p: u16,
    },
}

impl KeyFileError {
    pub(super) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.into(), action, source }
    }
}

/// What is wrong with the bytes of a key file.
#[derive(Debug, thiserror::Error)]
pub enum Malformation {
    /// Not text, so not PEM.
    #[error("not PEM: byte {0} is not UTF-8 text")]
    NotText(usize),
    /// PEM, but of something else.
    #[error("the PEM label is {0:?}, expected \"ENCRYPTED PRIVATE KEY\"")]
    Label(String),
    /// Not PEM, or not the ASN.1 that belongs into it, or an algorithm that is not supported.
    #[error("not a PKCS#8 document")]
    Document(#[source] pkcs8::Error),
    /// The file asks for more work than a key file reasonably does.
    #[error("deriving the key from the passphrase would take too much memory or time")]
    Cost,
    /// The key inside is of another kind.
    #[error("the key's algorithm is {0}, expected Ed25519 (1.3.101.112)")]
    Algorithm(pkcs8::ObjectIdentifier),
    /// An Ed25519 key is 32 bytes (RFC 8410 section 7).
    #[error("the private key is not an octet string of 32 bytes")]
    Seed,
    /// The file names a public key that is not the private key's: it was damaged or put together
    /// from two.
    #[error("the public key in the file does not belong to the private key")]
    PublicKey,
}
