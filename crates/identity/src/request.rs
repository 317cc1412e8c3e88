//! Requests for the certificate of a node's authority (PKCS #10, RFC 2986).

use crate::name::{self, NameError};
use crate::signer::{self, ForeignKey, Signer};
use tally_contracts::{Name, PublicKey};
use tally_crypto::SigningKey;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

/// Largest request taken; those made here have about 250 bytes.
pub const MAX_REQUEST_BYTES: usize = 8 * 1024;

const PEM_LABEL: &str = "CERTIFICATE REQUEST";

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not a request in PEM or DER.
    #[error("not a certificate request (PKCS #10): {0}")]
    Malformed(&'static str),
    /// Larger than any request should be.
    #[error("a request of {bytes} bytes is larger than the {MAX_REQUEST_BYTES} allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The subject is not a name of the ledger.
    #[error("the request's subject is not a name")]
    Subject(#[source] NameError),
    /// The key is of a kind that authorities do not have.
    #[error("the key in the request is neither Ed25519 nor P-256")]
    Key,
    /// Whoever sent the request does not show that they have the key in it.
    #[error("the signature on the request of {subject} is not by the key in it: no proof of possession")]
    ProofOfPossession {
        /// The name in the request.
        subject: Name,
    },
}

/// A request whose sender has shown to possess the key in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    der: Vec<u8>,
    name: Name,
    key: PublicKey,
    /// SubjectPublicKeyInfo, encoded.
    key_der: Vec<u8>,
}

impl Request {
    /// A request for `name` and `key`, signed by `key`.
    pub(crate) fn new(name: &Name, key: &SigningKey) -> Result<Self, crate::IssueError> {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = name::to_x509(name);
        let request = params.serialize_request(&Signer::new(key))?;
        Self::parse(request.der()).map_err(|_| rcgen::Error::CouldNotParseCertificationRequest.into())
    }

    /// Reads a request in PEM or DER and checks its signature.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, RequestError> {
        if bytes.len() > MAX_REQUEST_BYTES {
            return Err(RequestError::TooLarge { bytes: bytes.len() });
        }
        let decoded;
        let der = if bytes.starts_with(b"-----BEGIN ") {
            decoded = crate::pem::decode_one(bytes, PEM_LABEL)
                .map_err(|_| RequestError::Malformed("not one PEM block CERTIFICATE REQUEST"))?;
            &decoded
        } else {
            bytes
        };
        let (rest, request) =
            X509CertificationRequest::from_der(der).map_err(|_| RequestError::Malformed("not in DER"))?;
        if !rest.is_empty() {
            return Err(RequestError::Malformed("bytes follow it"));
        }
        let info = &request.certification_request_info;
        let name = name::from_x509(&info.subject).map_err(RequestError::Subject)?;
        let key = signer::public_key(&info.subject_pki).ok_or(RequestError::Key)?;
        // The parser lets a signature of a fraction of a byte pass.
        if request.signature_value.unused_bits != 0 || request.verify_signature().is_err() {
            return Err(RequestError::ProofOfPossession { subject: name });
        }
        Ok(Self { name, key, key_der: info.subject_pki.raw.to_vec(), der: der.to_vec() })
    }

    /// Whom the certificate is to be about.
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// The key it is to carry.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    pub(crate) fn key_der(&self) -> &[u8] {
        &self.key_der
    }

    pub(crate) fn foreign_key(&self) -> Option<ForeignKey> {
        let (_, key) = x509_parser::x509::SubjectPublicKeyInfo::from_der(&self.key_der).ok()?;
        ForeignKey::new(&key)
    }

    /// The request in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The request as PEM text.
    pub fn to_pem(&self) -> String {
        crate::pem::encode(PEM_LABEL, &self.der)
    }
}
