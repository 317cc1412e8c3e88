//! Rotation: a new key for the same legal identity. The former one stays in the directory, because states name it.
//!
//! Each step leaves files from which the next one follows, so that a rotation which was cut off is completed by running
//! it again:
//!
//! 1. `identity-next.key` is made, and `identity-next.pem` with the certificate for it;
//! 2. `identity.pem` and `identity.key` are copied to `former-MS.pem` and `former-MS.key`;
//! 3. `identity-next.key` becomes `identity.key`;
//! 4. `identity-next.pem` becomes `identity.pem`.
//!
//! From the first step to the last the directory is nobody's identity: [`Identity::load`](super::Identity::load) refuses
//! it.

use super::{AUTHORITY, FORMER, IdentityError, LEGAL_IDENTITY, NEXT, NodeKeys, ROOT, key};
use crate::authority::{self, belongs};
use crate::certificate::{CertificateError, CertificatePath};
use crate::files::{self, Access};
use crate::issue::{self, Authority};
use crate::pem;
use crate::role::Role;
use crate::signer::Signer;
use crate::trust::Trust;
use std::path::Path;
use tally_contracts::{Name, Party, SigningKey, Timestamp};
use tally_crypto::keystore::{KeyFile, ScryptCost};

/// Most bytes of a key file.
const MAX_KEY_BYTES: usize = 64 << 10;

/// A key that a legal identity had before.
#[derive(Debug, Clone)]
pub struct Former {
    /// Name and key.
    pub party: Party,
    /// The key.
    pub key: SigningKey,
    /// When it was given up.
    pub until: Timestamp,
}

impl NodeKeys {
    /// Gives the legal identity in `directory` a new key, certified by the node's own authority: the identity manager is
    /// not asked. The present one becomes a former one, given up at `until` or, where the last one was given up later,
    /// just after that. Gives name and new key. After a crash, calling this again completes what was begun; no other key
    /// is made.
    ///
    /// The node must not run. Its new key has to be published before it starts again.
    ///
    /// # Errors
    /// [`IdentityError`]; among others when the certificate of the node's authority has run out at `now`.
    pub fn rotate(
        directory: &Path,
        passphrase: &[u8],
        cost: ScryptCost,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Party, IdentityError> {
        let file = |name: &str, ending: &str| directory.join(format!("{name}.{ending}"));
        let present = match authority::read_path(&file(LEGAL_IDENTITY, "pem")) {
            Err(authority::AuthorityError::File(error)) if error.is_missing() => {
                return Err(IdentityError::NotAccepted);
            }
            path => path?,
        };
        let name = present.subject().clone();
        let next_is_named = file(NEXT, "pem").exists();
        if !next_is_named || file(NEXT, "key").exists() {
            // A wrong passphrase is found before anything is made.
            belongs(present.leaf(), &KeyFile::read(&file(LEGAL_IDENTITY, "key"), passphrase)?)?;
            let next = key(directory, NEXT, passphrase, cost)?;
            if next_is_named {
                belongs(authority::read_path(&file(NEXT, "pem"))?.leaf(), &next)?;
            } else {
                let made = certified(directory, passphrase, &present, &next, now)?;
                files::replace(&file(NEXT, "pem"), pem::encode_path(&made).as_bytes(), Access::Public)?;
            }
            keep(directory, &present, until)?;
            files::rename(&file(NEXT, "key"), &file(LEGAL_IDENTITY, "key"))?;
        }
        let made = authority::read_path(&file(NEXT, "pem"))?;
        let key = KeyFile::read(&file(LEGAL_IDENTITY, "key"), passphrase)?;
        belongs(made.leaf(), &key)?;
        files::rename(&file(NEXT, "pem"), &file(LEGAL_IDENTITY, "pem"))?;
        Ok(Party { name, key: SigningKey::from(key).public_key() })
    }
}

/// Times in certificates are whole seconds.
const SECOND_MS: u64 = 1000;

/// The certificate of the next key. It is valid from a later time on than that of the `present` one, which says to
/// everybody which of the two is the former key.
fn certified(
    directory: &Path,
    passphrase: &[u8],
    present: &CertificatePath,
    next: &tally_crypto::SigningKey,
    now: Timestamp,
) -> Result<CertificatePath, IdentityError> {
    let path = authority::read_path(&directory.join(format!("{AUTHORITY}.pem")))?;
    let trust = Trust::new(authority::read_certificate(&directory.join(ROOT))?.der())?;
    let key = KeyFile::read(&directory.join(format!("{AUTHORITY}.key")), passphrase)?;
    belongs(path.leaf(), &key)?;
    let authority = Authority { certificate: path.leaf(), key: &key };
    let since = present.leaf().not_before().as_millis().saturating_add(SECOND_MS);
    let leaf = issue::certificate_since(
        Role::LegalIdentity,
        present.subject(),
        &Signer::new(next),
        &authority,
        now,
        u64::MAX,
        Timestamp::from_millis(since),
    )?;
    let made = path.extended(leaf)?;
    trust.verify(&made, Role::LegalIdentity, now)?;
    Ok(made)
}

/// Keeps the present pair as a former one, unless that was done.
fn keep(directory: &Path, present: &CertificatePath, until: Timestamp) -> Result<(), IdentityError> {
    let mut last = Timestamp::EPOCH;
    let mut kept = None;
    for (at, path) in certificates(directory)? {
        if path.leaf().key_der() == present.leaf().key_der() {
            kept = Some(at);
        }
        last = last.max(at);
    }
    let file = |at: Timestamp, ending: &str| directory.join(format!("{FORMER}{}.{ending}", at.as_millis()));
    let at = match kept {
        Some(at) => at,
        None => {
            let at = until.max(Timestamp::from_millis(last.as_millis().saturating_add(1)));
            files::create(&file(at, "pem"), pem::encode_path(present).as_bytes(), Access::Public)?;
            at
        }
    };
    if !file(at, "key").exists() {
        let present = directory.join(format!("{LEGAL_IDENTITY}.key"));
        let bytes = zeroize::Zeroizing::new(files::read(&present, MAX_KEY_BYTES, Access::Private)?);
        files::create(&file(at, "key"), &bytes, Access::Private)?;
    }
    Ok(())
}

/// The certificates of the former keys, and until when each was the present one; oldest first.
fn certificates(directory: &Path) -> Result<Vec<(Timestamp, CertificatePath)>, IdentityError> {
    let mut found = Vec::new();
    for name in files::names(directory)? {
        let Some(at) = name.strip_prefix(FORMER).and_then(|rest| rest.strip_suffix(".pem")) else { continue };
        let at = at.parse().map_err(|_| IdentityError::Former { file: name.clone() })?;
        found.push((Timestamp::from_millis(at), authority::read_path(&directory.join(&name))?));
    }
    found.sort_by_key(|(at, _)| *at);
    Ok(found)
}

/// The former keys in the directory, of the node `name`, oldest first. Their certificates may have run out.
pub(super) fn load(directory: &Path, passphrase: &[u8], name: &Name) -> Result<Vec<Former>, IdentityError> {
    let certificates = certificates(directory)?;
    // At the same time, because scrypt takes its time for each.
    std::thread::scope(|scope| {
        let reads: Vec<_> = certificates
            .into_iter()
            .map(|(until, path)| {
                let file = directory.join(format!("{FORMER}{}.key", until.as_millis()));
                (until, path, scope.spawn(move || KeyFile::read(&file, passphrase)))
            })
            .collect();
        reads
            .into_iter()
            .map(|(until, path, read)| {
                let key = super::join(read)?;
                belongs(path.leaf(), &key)?;
                if path.subject() != name {
                    let (expected, found) = (name.clone(), path.subject().clone());
                    return Err(CertificateError::NameMismatch { expected, found }.into());
                }
                let key = SigningKey::from(key);
                let party = Party { name: name.clone(), key: key.public_key() };
                Ok(Former { party, key, until })
            })
            .collect()
    })
}
