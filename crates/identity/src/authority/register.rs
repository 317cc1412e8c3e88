//! Which names an authority has given to which keys.

use super::AuthorityError;
use crate::certificate::{Certificate, SerialNumber};
use crate::files::{self, Access};
use crate::moment::Utc;
use rcgen::RevocationReason;
use serde::{Deserialize, Serialize};
use std::path::Path;
use tally_contracts::{Name, Timestamp};

const MAX_FILE_BYTES: usize = 256 * 1024 * 1024;

/// A certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Whose it is.
    pub name: Name,
    /// Its number.
    pub serial: SerialNumber,
    /// The key it is for: a SubjectPublicKeyInfo, hexadecimal.
    pub key: String,
    /// When it was issued, milliseconds since the Unix epoch.
    pub issued_ms: u64,
    /// Last second of its validity, milliseconds since the Unix epoch.
    pub not_after_ms: u64,
    /// When and why it was revoked, if it was.
    pub revoked: Option<Revocation>,
}

/// When and why a certificate was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The reason.
    pub reason: Reason,
}

/// Why a certificate is revoked (RFC 5280 section 5.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Someone else may have the key, or nobody has it any more.
    KeyCompromise,
    /// The institution is called or belongs otherwise now.
    AffiliationChanged,
    /// Another certificate takes its place.
    Superseded,
    /// The institution left the network.
    CessationOfOperation,
    /// The network excluded the institution.
    PrivilegeWithdrawn,
    /// Not told.
    Unspecified,
}

impl Reason {
    pub(super) const fn to_x509(self) -> RevocationReason {
        match self {
            Self::KeyCompromise => RevocationReason::KeyCompromise,
            Self::AffiliationChanged => RevocationReason::AffiliationChanged,
            Self::Superseded => RevocationReason::Superseded,
            Self::CessationOfOperation => RevocationReason::CessationOfOperation,
            Self::PrivilegeWithdrawn => RevocationReason::PrivilegeWithdrawn,
            Self::Unspecified => RevocationReason::Unspecified,
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Register {
    /// Number of the last revocation list made.
    list_number: u64,
    entries: Vec<Entry>,
}

impl Register {
    pub(super) fn read(path: &Path) -> Result<Self, AuthorityError> {
        let bytes = files::read(path, MAX_FILE_BYTES, Access::Private)?;
        serde_json::from_slice(&bytes)
            .map_err(|source| AuthorityError::Register { path: path.into(), source })
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), AuthorityError> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|source| AuthorityError::Register { path: path.into(), source })?;
        Ok(files::replace(path, &bytes, Access::Private)?)
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether `name` may have a certificate for the key (encoded).
    pub(super) fn admit(&self, name: &Name, key: &[u8]) -> Result<(), AuthorityError> {
        let key = hex(key);
        for entry in &self.entries {
            if entry.key == key && entry.revoked.is_some() {
                return Err(AuthorityError::KeyRevoked { name: name.clone() });
            }
            if entry.key == key && entry.name != *name {
                return Err(AuthorityError::KeyTaken { name: name.clone(), holder: entry.name.clone() });
            }
            let same = entry.name == *name && entry.key == key;
            if entry.revoked.is_none() && !same && alike(&entry.name, name) {
                return Err(AuthorityError::NameTaken {
                    name: name.clone(),
                    holder: entry.name.clone(),
                    since: Utc(Timestamp::from_millis(entry.issued_ms)).to_string(),
                });
            }
        }
        Ok(())
    }

    pub(super) fn add(&mut self, certificate: &Certificate, now: Timestamp) {
        self.entries.push(Entry::new(certificate, now));
    }

    /// Marks the certificates of `name`; whether there was one to mark.
    pub(super) fn revoke(&mut self, name: &Name, reason: Reason, now: Timestamp) -> bool {
        let mut any = false;
        for entry in self.entries.iter_mut().filter(|entry| entry.name == *name && entry.revoked.is_none()) {
            entry.revoked = Some(Revocation { at_ms: now.as_millis(), reason });
            any = true;
        }
        any
    }

    /// The number of the next revocation list.
    pub(super) fn next_list(&mut self) -> u64 {
        self.list_number += 1;
        self.list_number
    }
}

/// Whether a reader could take one name for the other: X.500 compares without regard to letter case
/// and repeated spaces (RFC 5280 section 7.1), the ledger does not.
pub(super) fn alike(a: &Name, b: &Name) -> bool {
    let fold = |name: &Name| {
        let text = name.to_string().to_lowercase();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    a == b || fold(a) == fold(b)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs
        .iter()
        .map(|pair| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()
        })
        .collect()
}
