//! What can go wrong with a network map.

use super::index::IndexError;
use crate::certificate::CertificateError;
use crate::files::FileError;
use crate::info::InfoError;
use crate::parameters::ParametersError;
use crate::pem::PemError;
use crate::revocation::RevocationError;

/// Why a network map was not read, refreshed or published to.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// A file of the folder or cache.
    #[error("a file of the network map")]
    File(#[from] FileError),
    /// The identity manager's certificate is refused.
    #[error("the identity manager's certificate in the network map is refused")]
    Manager(#[from] PemError),
    /// The identity manager's certificate is refused.
    #[error("the identity manager's certificate in the network map is refused")]
    ManagerCertificate(#[from] CertificateError),
    /// The certificates of an identity of the past are refused.
    #[error("the certificates of a former identity in the network map are refused")]
    Former(#[source] PemError),
    /// The index of a network map service is refused.
    #[error("what the network map service tells is refused")]
    Index(#[from] IndexError),
    /// A network has identity managers.
    #[error("the network map has no identity manager")]
    NoManager,
    /// The revocation list is refused.
    #[error("a revocation list of the network map is refused")]
    Revocations(#[from] RevocationError),
    /// The parameters are refused.
    #[error("the network map's parameters are refused")]
    Parameters(#[from] ParametersError),
    /// A node info is refused.
    #[error("the node info is refused")]
    Info(#[from] InfoError),
    /// The service's address is none.
    #[error(
        "{url:?} is not the address of a network map service; expected http://host:port, or https://host:port with a file of the authorities to believe"
    )]
    Url {
        /// What was given.
        url: String,
    },
    /// The authorities of a service over TLS, or its certificate or key.
    #[error("{} cannot be used for TLS: {reason}", path.display())]
    Tls {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The service does not answer.
    #[error("the network map at {url} does not answer; what is known of the network stays in force")]
    Unreachable {
        /// What was asked.
        url: String,
        /// The reason.
        #[source]
        source: Box<ureq::Error>,
    },
    /// The service refuses.
    #[error("the network map refuses ({status} {code}): {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Stable code of the reason.
        code: String,
        /// The reason in words.
        message: String,
    },
    /// The service's answer is not one.
    #[error("the network map at {url} gives an answer that cannot be used: {reason}")]
    Answer {
        /// What was asked.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

/// A node info, a former identity or an identity manager that a refresh left out.
#[derive(Debug)]
pub struct Refused {
    /// Where it is: a file's name, or its hash in the service.
    pub origin: String,
    /// Why.
    pub error: MapError,
}
