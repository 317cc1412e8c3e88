//! What a certificate may be used for.
//!
//! Each role has its place in the chain, its key usage and its extended key usage, so that no
//! certificate can stand for one of another role: a standard verifier is stopped by path length and
//! usages, this crate by the role that a private extension names.

use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose};
use std::fmt;

/// The arc of this project's object identifiers: `1.2.840.113556.1.8000.2554` and a random UUID,
/// Microsoft's scheme for identifiers that need no registration.
const ARC: [u64; 14] =
    [1, 2, 840, 113_556, 1, 8000, 2554, 46_324, 21_327, 37_185, 58_893, 53_439, 8_698_523, 10_043_573];

/// Place of a certificate in a network's chain; the value of the private extension `ROLE_OID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The network's trust anchor.
    Root,
    /// Signs the certificates of nodes' authorities, and the list of revoked ones.
    IdentityManager,
    /// Signs the network parameters.
    NetworkMap,
    /// A node's own authority: signs the node's legal identity and TLS certificates only.
    NodeAuthority,
    /// Signs transactions and node infos.
    LegalIdentity,
    /// Authenticates connections.
    Tls,
    /// Signs as a notary, and nothing else: the legal identity of the same node does not.
    NotaryService,
}

impl Role {
    /// Every role there is.
    pub const ALL: [Self; 7] = [
        Self::Root,
        Self::IdentityManager,
        Self::NetworkMap,
        Self::NodeAuthority,
        Self::LegalIdentity,
        Self::Tls,
        Self::NotaryService,
    ];

    /// The value of the private extension.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Root => 1,
            Self::IdentityManager => 2,
            Self::NetworkMap => 3,
            Self::NodeAuthority => 4,
            Self::LegalIdentity => 5,
            Self::Tls => 6,
            Self::NotaryService => 7,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.code() == code)
    }

    /// Whose signature a certificate of this role carries.
    pub const fn issuer(self) -> Self {
        match self {
            Self::Root | Self::IdentityManager | Self::NetworkMap => Self::Root,
            Self::NodeAuthority => Self::IdentityManager,
            Self::LegalIdentity | Self::Tls | Self::NotaryService => Self::NodeAuthority,
        }
    }

    /// How many authorities may follow below (RFC 5280 section 4.2.1.9); `None` for no authority.
    pub(crate) const fn path_length(self) -> Option<u8> {
        match self {
            Self::Root => Some(2),
            Self::IdentityManager => Some(1),
            Self::NodeAuthority => Some(0),
            Self::NetworkMap | Self::LegalIdentity | Self::Tls | Self::NotaryService => None,
        }
    }

    pub(crate) fn basic_constraints(self) -> IsCa {
        match self.path_length() {
            Some(length) => IsCa::Ca(BasicConstraints::Constrained(length)),
            None => IsCa::ExplicitNoCa,
        }
    }

    pub(crate) fn key_usages(self) -> Vec<KeyUsagePurpose> {
        match self {
            Self::Root | Self::IdentityManager => {
                vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign]
            }
            Self::NodeAuthority => vec![KeyUsagePurpose::KeyCertSign],
            Self::LegalIdentity | Self::NotaryService => {
                vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::ContentCommitment]
            }
            Self::NetworkMap | Self::Tls => vec![KeyUsagePurpose::DigitalSignature],
        }
    }

    /// The bits of [`Role::key_usages`] as x509-parser counts them: bit n of RFC 5280 section 4.2.1.3
    /// is `1 << n`.
    pub(crate) const fn key_usage_bits(self) -> u16 {
        const DIGITAL_SIGNATURE: u16 = 1;
        const CONTENT_COMMITMENT: u16 = 1 << 1;
        const KEY_CERT_SIGN: u16 = 1 << 5;
        const CRL_SIGN: u16 = 1 << 6;
        match self {
            Self::Root | Self::IdentityManager => KEY_CERT_SIGN | CRL_SIGN,
            Self::NodeAuthority => KEY_CERT_SIGN,
            Self::LegalIdentity | Self::NotaryService => DIGITAL_SIGNATURE | CONTENT_COMMITMENT,
            Self::NetworkMap | Self::Tls => DIGITAL_SIGNATURE,
        }
    }

    pub(crate) fn extended_key_usages(self) -> Vec<ExtendedKeyUsagePurpose> {
        match self {
            Self::Root | Self::IdentityManager | Self::NodeAuthority => Vec::new(),
            Self::LegalIdentity => vec![ExtendedKeyUsagePurpose::Other(arcs(2, 1))],
            Self::NetworkMap => vec![ExtendedKeyUsagePurpose::Other(arcs(2, 2))],
            Self::NotaryService => vec![ExtendedKeyUsagePurpose::Other(arcs(2, 3))],
            Self::Tls => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        }
    }

    /// The private purpose of the roles that have one, encoded.
    pub(crate) const fn private_purpose(self) -> Option<&'static [u8]> {
        match self {
            Self::LegalIdentity => Some(&LEGAL_IDENTITY_PURPOSE),
            Self::NetworkMap => Some(&NETWORK_MAP_PURPOSE),
            Self::NotaryService => Some(&NOTARY_SERVICE_PURPOSE),
            _ => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::IdentityManager => "identity manager",
            Self::NetworkMap => "network map",
            Self::NodeAuthority => "node authority",
            Self::LegalIdentity => "legal identity",
            Self::Tls => "TLS",
            Self::NotaryService => "notary service",
        })
    }
}

/// The object identifier of the role extension; its value is an INTEGER.
pub(crate) fn role_oid() -> Vec<u64> {
    arcs(1, 1)
}

fn arcs(kind: u64, number: u64) -> Vec<u64> {
    ARC.into_iter().chain([kind, number]).collect()
}

/// Contents octets (X.690 section 8.19) of the role extension's identifier.
pub(crate) const ROLE_OID: [u8; 36] = encoded(1, 1);
const LEGAL_IDENTITY_PURPOSE: [u8; 36] = encoded(2, 1);
const NETWORK_MAP_PURPOSE: [u8; 36] = encoded(2, 2);
const NOTARY_SERVICE_PURPOSE: [u8; 36] = encoded(2, 3);

const fn encoded(kind: u8, number: u8) -> [u8; 36] {
    [
        0x2a, 0x86, 0x48, 0x86, 0xf7, 0x14, 0x01, 0xbe, 0x40, 0x93, 0x7a, 0x82, 0xe9, 0x74, 0x81, 0xa6, 0x4f,
        0x82, 0xa2, 0x41, 0x83, 0xcc, 0x0d, 0x83, 0xa1, 0x3f, 0x84, 0x92, 0xf5, 0x1b, 0x84, 0xe5, 0x81, 0x35,
        kind, number,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::der_parser::Oid;

    #[test]
    fn encoded_identifiers_are_those_of_the_arcs() {
        for (kind, number) in [(1, 1), (2, 1), (2, 2), (2, 3)] {
            let oid = Oid::from(&arcs(kind.into(), number.into())).expect("valid arcs");
            assert_eq!(oid.as_bytes(), encoded(kind, number));
        }
    }

    #[test]
    fn every_role_has_its_own_code_and_an_authority_above() {
        for role in Role::ALL {
            assert_eq!(Role::from_code(role.code()), Some(role));
            assert!(role.issuer().path_length().is_some(), "{role}");
        }
        assert_eq!(Role::from_code(0), None);
        assert_eq!(Role::from_code(8), None);
    }
}
