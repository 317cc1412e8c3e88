//! Making certificates.

use crate::certificate::{Certificate, CertificateError};
use crate::moment::to_date;
use crate::role::{Role, role_oid};
use crate::signer::Signer;
use crate::{moment, name};
use rcgen::{
    CertificateParams, CustomExtension, DnType, GeneralSubtree, Issuer, NameConstraints, PublicKeyData,
    SanType, SerialNumber,
};
use tally_contracts::{Name, Timestamp};
use tally_crypto::SigningKey;

/// Certificates are valid from an hour before they are made, so that a node whose clock is a little
/// behind takes them.
const CLOCK_TOLERANCE_MS: u64 = 60 * 60 * 1000;

/// How long certificates are valid from the moment of their making, in milliseconds. None outlives
/// the one that signed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// The root and the network map's certificate.
    pub root_ms: u64,
    /// The identity manager.
    pub manager_ms: u64,
    /// A node's authority, and the two certificates below it.
    pub node_ms: u64,
}

impl Default for Lifetimes {
    /// Twenty, ten and five years.
    fn default() -> Self {
        Self { root_ms: moment::days(7305), manager_ms: moment::days(3652), node_ms: moment::days(1826) }
    }
}

/// Why a certificate was not made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The X.509 library refused.
    #[error("the certificate cannot be made")]
    Encoding(#[from] rcgen::Error),
    /// The operating system gave no randomness for a serial number.
    #[error("the operating system's random source failed")]
    Randomness(#[source] getrandom::Error),
    /// What was made is not what this crate reads.
    #[error("the certificate would be refused")]
    Refused(#[from] CertificateError),
}

/// An authority about to sign: its certificate and the key of it.
pub(crate) struct Authority<'a> {
    pub(crate) certificate: &'a Certificate,
    pub(crate) key: &'a SigningKey,
}

/// Makes the root: signed by itself.
pub(crate) fn root(
    name: &Name,
    key: &SigningKey,
    now: Timestamp,
    lifetime_ms: u64,
) -> Result<Certificate, IssueError> {
    let params =
        params(Role::Root, name, moment::before(now, CLOCK_TOLERANCE_MS), moment::after(now, lifetime_ms))?;
    Ok(Certificate::parse(params.self_signed(&Signer::new(key))?.der())?)
}

/// Makes a certificate for `key` under `authority`.
pub(crate) fn certificate(
    role: Role,
    subject: &Name,
    key: &impl PublicKeyData,
    authority: &Authority<'_>,
    now: Timestamp,
    lifetime_ms: u64,
) -> Result<Certificate, IssueError> {
    certificate_since(role, subject, key, authority, now, lifetime_ms, Timestamp::EPOCH)
}

/// As [`certificate`], valid from `since` on where that is later.
pub(crate) fn certificate_since(
    role: Role,
    subject: &Name,
    key: &impl PublicKeyData,
    authority: &Authority<'_>,
    now: Timestamp,
    lifetime_ms: u64,
    since: Timestamp,
) -> Result<Certificate, IssueError> {
    let above = authority.certificate;
    let not_before = moment::before(now, CLOCK_TOLERANCE_MS).max(above.not_before()).max(since);
    let not_after = moment::after(now, lifetime_ms).min(above.not_after());
    let params = params(role, subject, not_before, not_after)?;
    let issuer = issuer(above);
    let certificate = params.signed_by(key, &Issuer::from_params(&issuer, Signer::new(authority.key)))?;
    Ok(Certificate::parse(certificate.der())?)
}

/// What rcgen needs to know of an issuer.
pub(crate) fn issuer(certificate: &Certificate) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name::to_x509(certificate.subject());
    params.key_usages = certificate.role().key_usages();
    params
}

pub(crate) fn params(
    role: Role,
    subject: &Name,
    not_before: Timestamp,
    not_after: Timestamp,
) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.not_before = to_date(not_before);
    params.not_after = to_date(not_after);
    params.serial_number = Some(serial()?);
    params.distinguished_name = name::to_x509(subject);
    params.is_ca = role.basic_constraints();
    params.key_usages = role.key_usages();
    params.extended_key_usages = role.extended_key_usages();
    params.use_authority_key_identifier_extension = true;
    if role == Role::Tls {
        params.subject_alt_names = vec![SanType::DnsName(name::host(subject).try_into()?)];
    }
    if role == Role::NodeAuthority {
        // For programs that know nothing of roles: this authority can sign for one host only.
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName(name::host(subject))],
            excluded_subtrees: Vec::new(),
        });
    }
    let code = vec![0x02, 0x01, role.code()];
    params.custom_extensions = vec![CustomExtension::from_oid_content(&role_oid(), code)];
    debug_assert!(params.distinguished_name.get(&DnType::OrganizationName).is_some());
    Ok(params)
}

/// A random number of 16 bytes (RFC 5280 section 4.1.2.2 asks for uniqueness), positive in DER and
/// with a first byte other than zero.
fn serial() -> Result<SerialNumber, IssueError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(IssueError::Randomness)?;
    bytes[0] = bytes[0] & 0x3f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}
