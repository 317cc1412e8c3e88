//! Why a certificate is refused, and what to do about it.

use crate::SerialNumber;
use crate::moment::Utc;
use crate::name::NameError;
use crate::role::Role;
use std::fmt;
use tally_contracts::{Name, Timestamp};

/// Why a certificate or a path of certificates is refused.
///
/// Of several faults the first in this order is told: form, roles, names, issuer, revocation,
/// validity, signatures, age of revocation lists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The bytes are no certificate of this network.
    #[error("not a certificate of a Tallystick network")]
    Malformed(#[source] Malformation),
    /// No certificate is that large.
    #[error("a certificate of {bytes} bytes is larger than the {limit} allowed", limit = super::MAX_CERTIFICATE_BYTES)]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The subject is not a name of the ledger.
    #[error("the certificate's subject is not a name")]
    Subject(#[source] NameError),
    /// The issuer is not a name of the ledger.
    #[error("the certificate's issuer is not a name")]
    Issuer(#[source] NameError),
    /// The constraints or usages are not those of the role.
    #[error("the {what} of {subject}'s {role} certificate is not that of its role; have it issued again")]
    Constraint {
        /// Whose certificate it is.
        subject: Name,
        /// The role it claims.
        role: Role,
        /// The extension at fault.
        what: &'static str,
    },
    /// A path has one certificate for each role below the root.
    #[error(
        "{count} certificates in a path; expected 1 to 3, from the subject's to the one that the root signed"
    )]
    PathLength {
        /// How many there are.
        count: usize,
    },
    /// A certificate is of another role than its place asks for.
    #[error("{subject}'s certificate is for the role {found}, not {expected}")]
    WrongRole {
        /// Whose certificate it is.
        subject: Name,
        /// The role needed.
        expected: Role,
        /// The role it has.
        found: Role,
    },
    /// A node's authority signed for another name, or a path was put together from several.
    #[error(
        "the {role} certificate of {found} stands under the authority of {expected}, which may sign for itself only"
    )]
    ForeignName {
        /// The name of the authority.
        expected: Name,
        /// The name of the certificate under it.
        found: Name,
        /// The role of the certificate under it.
        role: Role,
    },
    /// The peer is another than the one that was meant.
    #[error("the certificate is {found}'s, expected {expected}'s")]
    NameMismatch {
        /// Who was meant.
        expected: Name,
        /// Who it is.
        found: Name,
    },
    /// A TLS server's certificate is for another host name than the one that was meant.
    #[error("the certificate is {found}'s, whose host name is not {expected}")]
    HostMismatch {
        /// The host name that was meant.
        expected: String,
        /// Who it is.
        found: Name,
    },
    /// The certificate carries another key than the one that was meant.
    #[error("the {role} certificate of {subject} is for another key")]
    KeyMismatch {
        /// Whose certificate it is.
        subject: Name,
        /// Its role.
        role: Role,
    },
    /// The key is of a kind that the ledger does not take.
    #[error("the key in the {role} certificate of {subject} is neither Ed25519 nor P-256")]
    Key {
        /// Whose certificate it is.
        subject: Name,
        /// Its role.
        role: Role,
    },
    /// The clock stands before the validity.
    #[error("not valid yet: {0}; set the clock if it is wrong, or wait")]
    NotYetValid(Box<Validity>),
    /// The clock stands after the validity.
    #[error("expired: {0}; set the clock if it is wrong, or have the certificate renewed")]
    Expired(Box<Validity>),
    /// The revocation list of an authority on the path is so old that what it revoked since is not
    /// known.
    #[error(
        "the revocation list of {issuer} was due by {}, and by now nothing rests on it any more; its authority has to publish a new one",
        Utc(*due)
    )]
    Overdue {
        /// Whose list it is.
        issuer: Name,
        /// By when the next one was promised.
        due: Timestamp,
    },
    /// There are lists of other identity managers, and none of this one.
    #[error("there is no revocation list of {issuer}, so what it revoked is not known")]
    NoRevocationList {
        /// The identity manager.
        issuer: Name,
    },
    /// The identity manager, or the root, revoked the certificate.
    #[error(
        "the {role} certificate of {subject} (serial {serial}) is revoked; ask the authority that issued it for the reason"
    )]
    Revoked {
        /// Whose certificate it is.
        subject: Name,
        /// Its role.
        role: Role,
        /// Its number.
        serial: SerialNumber,
    },
    /// Signed by someone else than the one that the network trusts.
    #[error("{subject}'s certificate is issued by {issuer}; this network trusts {expected}")]
    UnknownIssuer {
        /// Whose certificate it is.
        subject: Name,
        /// Who is said to have signed it.
        issuer: Name,
        /// Who should have.
        expected: Name,
    },
    /// Not signed by the key of the one who is said to have signed it.
    #[error(
        "the signature on {subject}'s {role} certificate is not by the key of {by}: it is altered, or from another network"
    )]
    Signature {
        /// Whose certificate it is.
        subject: Name,
        /// Its role.
        role: Role,
        /// Whose signature it should carry.
        by: Name,
    },
    /// The standard's path validation (RFC 5280 section 6) refuses the path.
    #[error("the certificate path of {subject} is refused")]
    Path {
        /// Whose path it is.
        subject: Name,
        /// The reason.
        #[source]
        source: webpki::Error,
    },
}

/// What is wrong with the bytes of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformation {
    /// Not an X.509 certificate in DER.
    #[error("not an X.509 certificate in DER")]
    NotX509,
    /// More bytes than the certificate.
    #[error("bytes follow the certificate")]
    TrailingBytes,
    /// Not of version 3.
    #[error("not an X.509 certificate of version 3")]
    Version,
    /// An extension is malformed or there twice.
    #[error("an extension is malformed or there twice")]
    Extension,
    /// The role extension is missing, malformed or of an unknown role.
    #[error("no role of a Tallystick network")]
    NoRole,
    /// The serial number is empty or longer than 20 bytes.
    #[error("the serial number has no or more than 20 bytes")]
    Serial,
    /// A time before 1970.
    #[error("a validity before 1970")]
    Time,
}

/// A certificate's validity beside the time at which it was needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validity {
    /// Whose certificate it is.
    pub subject: Name,
    /// Its role.
    pub role: Role,
    /// First moment.
    pub not_before: Timestamp,
    /// Last second.
    pub not_after: Timestamp,
    /// What the clock of this machine says.
    pub clock: Timestamp,
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, role, not_before, not_after, clock } = self;
        write!(
            f,
            "the {role} certificate of {subject} is valid from {} to {}, and this machine's clock says {}",
            Utc(*not_before),
            Utc(*not_after),
            Utc(*clock)
        )
    }
}
