//! Which certificates the root or an identity manager has revoked (RFC 5280 section 5).

use crate::certificate::{Certificate, CertificateError, SerialNumber};
use crate::moment;
use crate::role::Role;
use std::collections::BTreeSet;
use tally_contracts::{Name, Timestamp};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Largest revocation list taken: room for some 400,000 certificates.
pub const MAX_REVOCATION_LIST_BYTES: usize = 16 * 1024 * 1024;

/// Why a list of revoked certificates is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// Not a version 2 CRL in DER with a number.
    #[error("not a certificate revocation list: {0}")]
    Malformed(&'static str),
    /// Larger than any list should be.
    #[error("a revocation list of {bytes} bytes is larger than the {MAX_REVOCATION_LIST_BYTES} allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Another authority's list.
    #[error("the revocation list is of {issuer}, expected {expected}")]
    Issuer {
        /// Whose list it is.
        issuer: String,
        /// Whose it should be.
        expected: Name,
    },
    /// Not signed by the authority.
    #[error("the signature on the revocation list is not by the key of {by}: it is altered")]
    Signature {
        /// Whose signature it should carry.
        by: Name,
    },
    /// The authority's own certificate is refused.
    #[error("the certificate of the identity manager that signed the revocation list is refused")]
    Manager(#[source] CertificateError),
    /// An older list would undo revocations.
    #[error("revocation list number {got} is older than number {have}, which is in force")]
    Older {
        /// Its number.
        got: u64,
        /// The number in force.
        have: u64,
    },
    /// Made in the future.
    #[error("the revocation list is of {made}, and this machine's clock says {clock}; set the clock")]
    Future {
        /// When it was made, RFC 3339.
        made: String,
        /// What the clock says, RFC 3339.
        clock: String,
    },
}

/// A list of revoked certificates whose signature is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocations {
    issuer: Name,
    /// SubjectPublicKeyInfo of the issuer: two authorities may have one name in turn.
    key: Vec<u8>,
    number: u64,
    made: Timestamp,
    next: Timestamp,
    revoked: BTreeSet<SerialNumber>,
}

impl Revocations {
    /// Reads a DER list of `authority`, an identity manager or the root, whose own certificate the
    /// caller has verified ([`Trust::install`](crate::Trust::install) does both).
    ///
    /// # Errors
    /// [`RevocationError`].
    pub(crate) fn parse(der: &[u8], authority: &Certificate) -> Result<Self, RevocationError> {
        if der.len() > MAX_REVOCATION_LIST_BYTES {
            return Err(RevocationError::TooLarge { bytes: der.len() });
        }
        let malformed = RevocationError::Malformed;
        let (rest, list) =
            CertificateRevocationList::from_der(der).map_err(|_| malformed("not a CRL in DER"))?;
        if !rest.is_empty() {
            return Err(malformed("bytes follow it"));
        }
        // The parser above is lax where nothing is signed; this one is not, and it refuses delta and
        // indirect lists.
        webpki::BorrowedCertRevocationList::from_der(der)
            .and_then(|list| list.to_owned())
            .map_err(|_| malformed("not a complete version 2 CRL"))?;
        let issuer = crate::name::from_x509(list.issuer()).ok();
        if issuer.as_ref() != Some(authority.subject()) || !revokes(authority.role()) {
            return Err(RevocationError::Issuer {
                issuer: issuer.map_or_else(|| list.issuer().to_string(), |name| name.to_string()),
                expected: authority.subject().clone(),
            });
        }
        let signature = || RevocationError::Signature { by: authority.subject().clone() };
        let (_, key) = SubjectPublicKeyInfo::from_der(authority.key_der()).map_err(|_| signature())?;
        // The parser lets a signature of a fraction of a byte pass.
        if list.signature_value.unused_bits != 0 {
            return Err(signature());
        }
        list.verify_signature(&key).map_err(|_| signature())?;
        for extension in list.extensions() {
            let known = matches!(
                extension.parsed_extension(),
                ParsedExtension::CRLNumber(_) | ParsedExtension::AuthorityKeyIdentifier(_)
            );
            if !known {
                return Err(malformed(
                    "an extension that this network does not use (a partial or indirect list)",
                ));
            }
        }
        let number = list.crl_number().ok_or(malformed("it has no number"))?;
        let number = u64::try_from(number.clone()).map_err(|_| malformed("its number is too large"))?;
        let time = |seconds| moment::from_seconds(seconds).ok_or(malformed("it has a time before 1970"));
        let mut revoked = BTreeSet::new();
        for entry in list.iter_revoked_certificates() {
            let serial =
                SerialNumber::from_der(entry.raw_serial()).map_err(|_| malformed("a serial number"))?;
            revoked.insert(serial);
        }
        Ok(Self {
            issuer: authority.subject().clone(),
            key: authority.key_der().to_vec(),
            number,
            made: time(list.last_update().timestamp())?,
            next: time(
                list.next_update().ok_or(malformed("it does not say when the next one comes"))?.timestamp(),
            )?,
            revoked,
        })
    }

    /// Whose certificates the list is about.
    pub const fn issuer(&self) -> &Name {
        &self.issuer
    }

    /// Its number; a later list has a higher one.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// When it was made.
    pub const fn made(&self) -> Timestamp {
        self.made
    }

    /// By when the next one was promised: after that, this one may be out of date.
    pub const fn next(&self) -> Timestamp {
        self.next
    }

    /// How many certificates are revoked.
    pub fn len(&self) -> usize {
        self.revoked.len()
    }

    /// Whether no certificate is revoked.
    pub fn is_empty(&self) -> bool {
        self.revoked.is_empty()
    }

    /// Whether the list is that of `authority`: of its name and its key.
    pub(crate) fn is_of(&self, authority: &Certificate) -> bool {
        self.issuer == *authority.subject() && self.key == authority.key_der()
    }

    /// Whether another list is of the same authority.
    pub(crate) fn same_issuer(&self, other: &Self) -> bool {
        self.issuer == other.issuer && self.key == other.key
    }

    /// Whether `certificate`, which the list's authority signed, is revoked.
    pub(crate) fn contains(&self, certificate: &Certificate) -> bool {
        self.revoked.contains(certificate.serial())
    }
}

/// Which authorities have lists of revoked certificates.
pub(crate) const fn revokes(role: Role) -> bool {
    matches!(role, Role::Root | Role::IdentityManager)
}
