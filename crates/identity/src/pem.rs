//! Certificates and requests as text (RFC 7468).

use crate::certificate::{CertificateError, CertificatePath};
use rustls::pki_types::pem::{PemObject, SectionKind};

const CERTIFICATE: &str = "CERTIFICATE";

/// Why text is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// Not PEM.
    #[error("not PEM text")]
    Malformed,
    /// A block of another kind.
    #[error("the PEM text has a block that is not {expected:?}")]
    Label {
        /// The label it should have.
        expected: &'static str,
    },
    /// No or more blocks than wanted.
    #[error("the PEM text has {count} blocks, expected {expected}")]
    Count {
        /// How many blocks there are.
        count: usize,
        /// How many there should be.
        expected: &'static str,
    },
    /// The certificates are refused.
    #[error("the certificates are refused")]
    Certificate(#[from] CertificateError),
}

fn blocks(text: &[u8], label: &'static str) -> Result<Vec<Vec<u8>>, PemError> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(text)
        .map(|block| match block {
            Ok((SectionKind::Certificate, der)) if label == CERTIFICATE => Ok(der),
            Ok((SectionKind::Csr, der)) if label != CERTIFICATE => Ok(der),
            Ok(_) => Err(PemError::Label { expected: label }),
            Err(_) => Err(PemError::Malformed),
        })
        .collect()
}

/// The only block in `text`.
pub(crate) fn decode_one(text: &[u8], label: &'static str) -> Result<Vec<u8>, PemError> {
    let mut blocks = blocks(text, label)?;
    match (blocks.pop(), blocks.len()) {
        (Some(block), 0) => Ok(block),
        (_, rest) => Err(PemError::Count { count: rest + usize::from(rest > 0), expected: "1" }),
    }
}

/// A path in PEM, the subject's certificate first.
pub(crate) fn decode_path(text: &[u8]) -> Result<CertificatePath, PemError> {
    let blocks = blocks(text, CERTIFICATE)?;
    Ok(CertificatePath::parse(&blocks)?)
}

/// One certificate in PEM.
pub(crate) fn decode_certificate(text: &[u8]) -> Result<Vec<u8>, PemError> {
    decode_one(text, CERTIFICATE)
}

pub(crate) fn encode_path(path: &CertificatePath) -> String {
    path.certificates().iter().map(|certificate| encode(CERTIFICATE, certificate.der())).collect()
}

pub(crate) fn encode_certificate(der: &[u8]) -> String {
    encode(CERTIFICATE, der)
}

/// One block of PEM; lines of 64 characters.
pub(crate) fn encode(label: &'static str, der: &[u8]) -> String {
    use pkcs8::der::pem::{LineEnding, encode_string};
    // Fails for labels that are not printable only.
    encode_string(label, LineEnding::LF, der).unwrap_or_default()
}
