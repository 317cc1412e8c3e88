//! Why an authority refuses, and what to do about it.

use crate::certificate::CertificateError;
use crate::files::FileError;
use crate::issue::IssueError;
use crate::pem::PemError;
use crate::role::Role;
use std::path::PathBuf;
use tally_contracts::Name;
use tally_crypto::keystore::KeyFileError;

/// Why an authority did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file of the authority's directory.
    #[error("a file of the authority")]
    File(#[from] FileError),
    /// A key file.
    #[error("the authority's key")]
    Key(#[from] KeyFileError),
    /// A file of certificates.
    #[error("{}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: PemError,
    },
    /// A certificate of the authority's own.
    #[error("the authority's own certificate is refused")]
    Certificate(#[from] CertificateError),
    /// A certificate was not made.
    #[error("the certificate was not made")]
    Issue(#[from] IssueError),
    /// A key was not made.
    #[error("no key could be made")]
    Generate(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The register is damaged.
    #[error("the register {} is damaged; restore it from a backup", path.display())]
    Register {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// Another process is at work on the register.
    #[error("another process uses the register in {}; wait until it is done", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The name is another's.
    #[error(
        "{name} is refused: {holder} holds that name with another key since {since}; revoke that certificate first if the key was lost"
    )]
    NameTaken {
        /// The name in the request.
        name: Name,
        /// The name as it is registered; it may differ in letter case or spacing.
        holder: Name,
        /// When it was issued, RFC 3339.
        since: String,
    },
    /// The name is one of the network's own authorities'.
    #[error("{name} is refused: it is the name of the network's {role}")]
    NameReserved {
        /// The name in the request.
        name: Name,
        /// Whose name it is.
        role: Role,
    },
    /// The key is another's.
    #[error("the request of {name} is refused: its key is that of {holder}")]
    KeyTaken {
        /// The name in the request.
        name: Name,
        /// Who has that key.
        holder: Name,
    },
    /// The key was revoked.
    #[error("the request of {name} is refused: its key was revoked; make a new one")]
    KeyRevoked {
        /// The name in the request.
        name: Name,
    },
    /// The request's key is none that certificates are made for.
    #[error("the key in the request of {name} is neither Ed25519 nor P-256")]
    UnsupportedKey {
        /// The name in the request.
        name: Name,
    },
    /// Nothing to revoke.
    #[error("{name} has no certificate that could be revoked")]
    NothingToRevoke {
        /// The name.
        name: Name,
    },
}
