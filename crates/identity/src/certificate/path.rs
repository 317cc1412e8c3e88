//! Certificates from a subject's to the one that the root signed.

use super::{Certificate, CertificateError, MAX_CERTIFICATE_BYTES};
use crate::role::Role;
use rustls::pki_types::CertificateDer;
use tally_contracts::{Name, Timestamp};

/// The longest path: leaf, node authority, identity manager. The root is known, not sent.
const MAX_CERTIFICATES: usize = 3;

/// One to three certificates: the subject's first, then each one's issuer's; the last is signed by
/// the root, which is not in the path.
///
/// Roles are in order and names fit (a node's authority stands above certificates of its own name
/// only); signatures, validity and revocation are for [`Trust::verify`](crate::Trust::verify).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificatePath {
    certificates: Vec<Certificate>,
}

impl CertificatePath {
    /// Most bytes of a path on the wire.
    pub const MAX_BYTES: usize = MAX_CERTIFICATES * MAX_CERTIFICATE_BYTES;

    /// Puts certificates together, the subject's first.
    ///
    /// # Errors
    /// [`CertificateError`] when roles or names do not fit.
    pub fn new(certificates: Vec<Certificate>) -> Result<Self, CertificateError> {
        let count = certificates.len();
        if !(1..=MAX_CERTIFICATES).contains(&count) {
            return Err(CertificateError::PathLength { count });
        }
        for (subject, issuer) in certificates.iter().zip(&certificates[1..]) {
            if issuer.role() != subject.role().issuer() {
                return Err(CertificateError::WrongRole {
                    subject: issuer.subject().clone(),
                    expected: subject.role().issuer(),
                    found: issuer.role(),
                });
            }
            if issuer.role() == Role::NodeAuthority && issuer.subject() != subject.subject() {
                return Err(CertificateError::ForeignName {
                    expected: issuer.subject().clone(),
                    found: subject.subject().clone(),
                    role: subject.role(),
                });
            }
            if subject.issuer() != issuer.subject() {
                return Err(CertificateError::UnknownIssuer {
                    subject: subject.subject().clone(),
                    issuer: subject.issuer().clone(),
                    expected: issuer.subject().clone(),
                });
            }
        }
        // What the last one's issuer should be, the root alone is; and the root itself is no path.
        let last = &certificates[count - 1];
        if last.role().issuer() != Role::Root || last.role() == Role::Root {
            return Err(CertificateError::PathLength { count });
        }
        Ok(Self { certificates })
    }

    /// Reads DER certificates, the subject's first.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn parse<B: AsRef<[u8]>>(certificates: &[B]) -> Result<Self, CertificateError> {
        if !(1..=MAX_CERTIFICATES).contains(&certificates.len()) {
            return Err(CertificateError::PathLength { count: certificates.len() });
        }
        Self::new(certificates.iter().map(|der| Certificate::parse(der.as_ref())).collect::<Result<_, _>>()?)
    }

    /// The subject's certificate.
    pub fn leaf(&self) -> &Certificate {
        &self.certificates[0]
    }

    /// Who the path is about.
    pub fn subject(&self) -> &Name {
        self.leaf().subject()
    }

    /// All certificates, the subject's first.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// The certificate that the root signed.
    pub fn top(&self) -> &Certificate {
        &self.certificates[self.certificates.len() - 1]
    }

    /// The path of the subject's issuer; none when that is the root.
    pub fn issuer(&self) -> Option<Self> {
        let certificates = self.certificates.get(1..)?.to_vec();
        if certificates.is_empty() { None } else { Some(Self { certificates }) }
    }

    /// The path of something that this path's subject signed.
    pub(crate) fn extended(&self, leaf: Certificate) -> Result<Self, CertificateError> {
        Self::new(std::iter::once(leaf).chain(self.certificates.iter().cloned()).collect())
    }

    /// The certificates' bytes, as TLS takes them.
    pub fn to_der(&self) -> Vec<CertificateDer<'static>> {
        self.certificates.iter().map(|certificate| certificate.der().clone()).collect()
    }

    /// The last second at which every certificate is valid.
    pub fn not_after(&self) -> Timestamp {
        self.certificates.iter().map(Certificate::not_after).min().unwrap_or(self.leaf().not_after())
    }
}
