//! Certificates and paths of them, read strictly.
//!
//! A [`Certificate`] that parses has a role of this network, and the constraints and usages of that
//! role; a [`CertificatePath`] that parses has the right roles in the right order and names that fit.
//! Whether it is signed by the network's root, valid now and not revoked is
//! [`Trust::verify`](crate::Trust::verify)'s to say.

mod error;
mod path;

use crate::role::{ROLE_OID, Role};
use crate::{moment, name, signer};
use rustls::pki_types::CertificateDer;
use std::fmt;
use tally_contracts::{Name, PublicKey, Timestamp};
use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::Oid;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::{SubjectPublicKeyInfo, X509Version};

pub use error::{CertificateError, Malformation, Validity};
pub use path::CertificatePath;

/// Largest certificate taken; those made here have about 700 bytes.
pub const MAX_CERTIFICATE_BYTES: usize = 8 * 1024;

/// A certificate of this network: what it says, not whether that is true.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    role: Role,
    subject: Name,
    issuer: Name,
    serial: SerialNumber,
    not_before: Timestamp,
    not_after: Timestamp,
    /// SubjectPublicKeyInfo, encoded.
    key: Vec<u8>,
}

impl Certificate {
    /// Reads a DER certificate (RFC 5280 section 4.1).
    ///
    /// # Errors
    /// [`CertificateError`] when the bytes are no certificate of one of this network's roles, or
    /// one whose constraints and usages are not those of its role.
    pub fn parse(der: &[u8]) -> Result<Self, CertificateError> {
        if der.len() > MAX_CERTIFICATE_BYTES {
            return Err(CertificateError::TooLarge { bytes: der.len() });
        }
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|_| malformed(Malformation::NotX509))?;
        if !rest.is_empty() {
            return Err(malformed(Malformation::TrailingBytes));
        }
        if certificate.version() != X509Version::V3 {
            return Err(malformed(Malformation::Version));
        }
        let role = role(&certificate)?;
        let subject = name::from_x509(certificate.subject()).map_err(CertificateError::Subject)?;
        let issuer = name::from_x509(certificate.issuer()).map_err(CertificateError::Issuer)?;
        constraints(&certificate, role, &subject)?;
        let validity = certificate.validity();
        let time = |seconds| moment::from_seconds(seconds).ok_or_else(|| malformed(Malformation::Time));
        Ok(Self {
            role,
            subject,
            issuer,
            serial: SerialNumber::from_der(certificate.raw_serial())?,
            not_before: time(validity.not_before.timestamp())?,
            not_after: time(validity.not_after.timestamp())?,
            key: certificate.public_key().raw.to_vec(),
            der: CertificateDer::from(der.to_vec()),
        })
    }

    /// The role that the certificate gives its subject.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Whom the certificate is about.
    pub const fn subject(&self) -> &Name {
        &self.subject
    }

    /// Who is said to have signed it.
    pub const fn issuer(&self) -> &Name {
        &self.issuer
    }

    /// Its number among those of its issuer.
    pub const fn serial(&self) -> &SerialNumber {
        &self.serial
    }

    /// First moment of its validity, in whole seconds.
    pub const fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// Last second of its validity.
    pub const fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// The bytes (DER).
    pub const fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The subject's key as the ledger writes it.
    ///
    /// # Errors
    /// [`CertificateError::Key`] when it is neither an Ed25519 nor a P-256 key.
    pub fn public_key(&self) -> Result<PublicKey, CertificateError> {
        let refuse = || CertificateError::Key { subject: self.subject.clone(), role: self.role };
        let (_, key) = SubjectPublicKeyInfo::from_der(&self.key).map_err(|_| refuse())?;
        signer::public_key(&key).ok_or_else(refuse)
    }

    /// The subject's key, encoded as a SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7).
    pub fn key_der(&self) -> &[u8] {
        &self.key
    }

    /// Whether `time` lies within the validity.
    ///
    /// # Errors
    /// [`CertificateError::NotYetValid`], [`CertificateError::Expired`].
    pub fn check_time(&self, time: Timestamp) -> Result<(), CertificateError> {
        let validity = || {
            Box::new(error::Validity {
                subject: self.subject.clone(),
                role: self.role,
                not_before: self.not_before,
                not_after: self.not_after,
                clock: time,
            })
        };
        if time < self.not_before {
            return Err(CertificateError::NotYetValid(validity()));
        }
        // `notAfter` is inclusive, in whole seconds.
        if time.as_millis() / 1000 > self.not_after.as_millis() / 1000 {
            return Err(CertificateError::Expired(validity()));
        }
        Ok(())
    }

    /// Checks that `issuer`'s key made this certificate's signature.
    ///
    /// # Errors
    /// [`CertificateError::UnknownIssuer`] when the issuer is called otherwise,
    /// [`CertificateError::Signature`] when the signature is by another key.
    pub fn check_signature(&self, issuer: &Self) -> Result<(), CertificateError> {
        if self.issuer != issuer.subject || self.role.issuer() != issuer.role {
            return Err(CertificateError::UnknownIssuer {
                subject: self.subject.clone(),
                issuer: self.issuer.clone(),
                expected: issuer.subject.clone(),
            });
        }
        let refuse = || CertificateError::Signature {
            subject: self.subject.clone(),
            role: self.role,
            by: issuer.subject.clone(),
        };
        let (_, certificate) = X509Certificate::from_der(&self.der).map_err(|_| refuse())?;
        let (_, key) = SubjectPublicKeyInfo::from_der(&issuer.key).map_err(|_| refuse())?;
        // The parser lets a signature of a fraction of a byte pass.
        if certificate.signature_value.unused_bits != 0 {
            return Err(refuse());
        }
        certificate.verify_signature(Some(&key)).map_err(|_| refuse())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("role", &self.role)
            .field("subject", &self.subject)
            .field("serial", &self.serial)
            .finish_non_exhaustive()
    }
}

/// Number of a certificate among those of its issuer (RFC 5280 section 4.1.2.2): 1 to 20 bytes.
///
/// Text and serde form: hexadecimal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SerialNumber(Vec<u8>);

impl SerialNumber {
    /// Bytes of a positive INTEGER, big-endian.
    pub(crate) fn from_der(bytes: &[u8]) -> Result<Self, CertificateError> {
        match bytes {
            [] => Err(malformed(Malformation::Serial)),
            // One leading zero keeps a positive number positive in DER.
            [0, rest @ ..] if !rest.is_empty() => Self::from_der(rest),
            bytes if bytes.len() <= 20 => Ok(Self(bytes.to_vec())),
            _ => Err(malformed(Malformation::Serial)),
        }
    }

    /// Big-endian, without leading zeros.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for SerialNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SerialNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SerialNumber({self})")
    }
}

fn malformed(source: Malformation) -> CertificateError {
    CertificateError::Malformed(source)
}

fn role(certificate: &X509Certificate<'_>) -> Result<Role, CertificateError> {
    let oid = Oid::new(ROLE_OID.as_slice().into());
    let extension = certificate
        .get_extension_unique(&oid)
        .map_err(|_| malformed(Malformation::Extension))?
        .ok_or_else(|| malformed(Malformation::NoRole))?;
    match extension.value {
        // INTEGER of one byte.
        [0x02, 0x01, code] => Role::from_code(*code).ok_or_else(|| malformed(Malformation::NoRole)),
        _ => Err(malformed(Malformation::NoRole)),
    }
}

/// Checks the certificate's constraints against those of its role.
fn constraints(
    certificate: &X509Certificate<'_>,
    role: Role,
    subject: &Name,
) -> Result<(), CertificateError> {
    let wrong = |what| CertificateError::Constraint { subject: subject.clone(), role, what };
    // Also finds extensions that are there twice.
    certificate.extensions_map().map_err(|_| malformed(Malformation::Extension))?;
    for extension in certificate.iter_extensions() {
        if matches!(extension.parsed_extension(), ParsedExtension::ParseError { .. }) {
            return Err(malformed(Malformation::Extension));
        }
    }
    let basic = certificate
        .basic_constraints()
        .map_err(|_| malformed(Malformation::Extension))?
        .ok_or_else(|| wrong("basic constraints"))?;
    let length = role.path_length().map(u32::from);
    if basic.value.ca != length.is_some() || basic.value.path_len_constraint != length {
        return Err(wrong("basic constraints"));
    }
    let usage = certificate
        .key_usage()
        .map_err(|_| malformed(Malformation::Extension))?
        .ok_or_else(|| wrong("key usage"))?;
    if usage.value.flags != role.key_usage_bits() {
        return Err(wrong("key usage"));
    }
    let purposes = certificate.extended_key_usage().map_err(|_| malformed(Malformation::Extension))?;
    let fits = match purposes.map(|extension| extension.value) {
        None => role.extended_key_usages().is_empty(),
        Some(purposes) => {
            let others = purposes.any
                || purposes.code_signing
                || purposes.email_protection
                || purposes.time_stamping
                || purposes.ocsp_signing;
            let tls = purposes.server_auth && purposes.client_auth;
            let some_tls = purposes.server_auth || purposes.client_auth;
            match (role.private_purpose(), purposes.other.as_slice()) {
                (Some(purpose), [other]) => !others && !some_tls && other.as_bytes() == purpose,
                (None, []) => role == Role::Tls && tls && !others,
                _ => false,
            }
        }
    };
    if !fits {
        return Err(wrong("extended key usage"));
    }
    let names = certificate.subject_alternative_name().map_err(|_| malformed(Malformation::Extension))?;
    let fits = match (role, names.map(|extension| extension.value.general_names.as_slice())) {
        (Role::Tls, Some([GeneralName::DNSName(host)])) => *host == name::host(subject),
        (Role::Tls, _) => false,
        (_, names) => names.is_none(),
    };
    if fits { Ok(()) } else { Err(wrong("subject alternative name")) }
}

#[cfg(test)]
mod tests;
