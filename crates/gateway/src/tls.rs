//! TLS (rustls): 1.2 and 1.3, with client certificates where an authority for them is named.

use crate::settings::TlsSection;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig, crypto::ring};

/// The largest file of certificates or keys that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is too large.
    #[error("{0} is larger than {MAX_BYTES} bytes")]
    TooLong(PathBuf),
    /// A file is not PEM, or has nothing of what is wanted.
    #[error("{path}: no {what} in PEM form")]
    Pem {
        /// Which.
        path: PathBuf,
        /// What is wanted.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<pem::Error>,
    },
    /// A file has no certificate.
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
    /// The certificate and the key do not go together, or are of a kind that is not known.
    #[error("{path} cannot be used")]
    Unusable {
        /// The certificate.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The clients' authorities cannot be used.
    #[error("{path} cannot be used to verify clients")]
    Clients {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: VerifierBuilderError,
    },
}

/// What a server serves TLS with; relative names are in `directory`.
///
/// # Errors
/// When a file cannot be read or used.
pub fn configuration(section: &TlsSection, directory: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let (certificate, key) = (directory.join(&section.certificate), directory.join(&section.key));
    let chain = certificates(&certificate)?;
    let private =
        PrivateKeyDer::from_pem_slice(&read(&key)?).map_err(|error| pem(&key, "private key", error))?;
    let unusable = |source| TlsError::Unusable { path: certificate.clone(), source };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &section.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let path = directory.join(clients);
            let mut roots = RootCertStore::empty();
            for authority in certificates(&path)? {
                roots.add(authority).map_err(|source| TlsError::Unusable { path: path.clone(), source })?;
            }
            // A client without a certificate may still have a token.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|source| TlsError::Clients { path, source })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut configuration = builder.with_single_cert(chain, private).map_err(unusable)?;
    configuration.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(configuration))
}

/// SHA-256 of a certificate in DER form.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}

/// The fingerprint of the first certificate of a PEM file.
///
/// # Errors
/// When it cannot be read or holds none.
pub fn fingerprint_of(path: &Path) -> Result<[u8; 32], TlsError> {
    certificates(path).map(|chain| fingerprint(&chain[0]))
}

/// The certificates of a file; there is one at least.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| pem(path, "certificate", error))?;
    if found.is_empty() {
        return Err(TlsError::Empty(path.to_owned()));
    }
    Ok(found)
}

fn pem(path: &Path, what: &'static str, error: pem::Error) -> TlsError {
    TlsError::Pem { path: path.to_owned(), what, source: Box::new(error) }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
        return Err(TlsError::TooLong(path.to_owned()));
    }
    fs::read(path).map_err(failed)
}
