//! The authorities of a network: root, identity manager, network map's key.

mod error;
mod register;

use crate::certificate::{Certificate, CertificateError, CertificatePath, SerialNumber};
use crate::files::{self, Access, FileError};
use crate::issue::{self, Authority, IssueError};
use crate::moment::{self, to_date};
use crate::pem;
use crate::request::Request;
use crate::role::Role;
use crate::signer::Signer;
use crate::trust::Trust;
use rcgen::{CertificateRevocationListParams, Issuer, KeyIdMethod, RevokedCertParams};
use register::Register;
use std::fs::File;
use std::path::{Path, PathBuf};
use tally_contracts::{Name, Timestamp};
use tally_crypto::SigningKey;
use tally_crypto::keystore::{KeyFile, ScryptCost};

pub use error::AuthorityError;
pub use register::{Entry, Reason, Revocation};

const REGISTER: &str = "register.json";
const ROOT_REGISTER: &str = "root-register.json";
const MAX_PATH_FILE_BYTES: usize = 64 * 1024;

/// The network's root. Its key is needed to make or revoke an identity manager and a network map's
/// key, and to sign the list of those revoked; keep it off line.
#[derive(Debug)]
pub struct Root {
    directory: PathBuf,
    certificate: Certificate,
    key: SigningKey,
}

impl Root {
    /// Makes a root in `directory`: `root.key`, encrypted, `root.pem`, and the register
    /// `root-register.json` of what it certifies.
    ///
    /// # Errors
    /// [`AuthorityError`]; among others when there is one already.
    pub fn create(
        directory: &Path,
        name: &Name,
        passphrase: &[u8],
        cost: ScryptCost,
        now: Timestamp,
        lifetime_ms: u64,
    ) -> Result<Self, AuthorityError> {
        files::create_directory(directory)?;
        let key = generate()?;
        let certificate = issue::root(name, &key, now, lifetime_ms)?;
        KeyFile::write(&directory.join("root.key"), &key, passphrase, cost)?;
        let text = pem::encode_certificate(certificate.der());
        Register::default().write(&directory.join(ROOT_REGISTER))?;
        files::create(&directory.join("root.pem"), text.as_bytes(), Access::Public)?;
        Ok(Self { directory: directory.into(), certificate, key })
    }

    /// Opens the root in `directory`.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn open(directory: &Path, passphrase: &[u8]) -> Result<Self, AuthorityError> {
        let certificate = read_certificate(&directory.join("root.pem"))?;
        Trust::new(certificate.der())?;
        let key = KeyFile::read(&directory.join("root.key"), passphrase)?;
        belongs(&certificate, &key)?;
        Ok(Self { directory: directory.into(), certificate, key })
    }

    /// The root's certificate, to be given to every node by a channel it believes.
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    fn certify(
        &self,
        role: Role,
        name: &Name,
        key: &SigningKey,
        now: Timestamp,
        lifetime_ms: u64,
    ) -> Result<CertificatePath, AuthorityError> {
        let authority = Authority { certificate: &self.certificate, key: &self.key };
        let certificate = issue::certificate(role, name, &Signer::new(key), &authority, now, lifetime_ms)?;
        // Known to the register before anybody else: else it could not be revoked.
        self.change(|register| register.add(&certificate, now))?;
        Ok(CertificatePath::new(vec![certificate])?)
    }

    /// Changes the register, for this process alone.
    fn change<T>(&self, change: impl FnOnce(&mut Register) -> T) -> Result<(T, Register), AuthorityError> {
        let _lock = lock(&self.directory, "root.lock")?;
        let path = self.directory.join(ROOT_REGISTER);
        let mut register = Register::read(&path)?;
        let result = change(&mut register);
        register.write(&path)?;
        Ok((result, register))
    }

    /// Revokes every certificate that this root gave to `name`: an identity manager, a network map's
    /// key. [`Root::revocation_list`] then has to be published.
    ///
    /// # Errors
    /// [`AuthorityError`]; among others when there is nothing to revoke.
    pub fn revoke(&self, name: &Name, reason: Reason, now: Timestamp) -> Result<(), AuthorityError> {
        match self.change(|register| register.revoke(name, reason, now))? {
            (true, _) => Ok(()),
            (false, _) => Err(AuthorityError::NothingToRevoke { name: name.clone() }),
        }
    }

    /// A new list of everything that the root revoked so far (DER), of a higher number than the one
    /// before. The next one is promised within `valid_ms`.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn revocation_list(&self, now: Timestamp, valid_ms: u64) -> Result<Vec<u8>, AuthorityError> {
        let (number, register) = self.change(Register::next_list)?;
        revocation_list(&register, number, &self.certificate, &self.key, now, valid_ms)
    }
}

/// Signs requests of nodes, and the list of revoked certificates. Keeps a register, so that no name
/// is given to two keys and no key to two names.
#[derive(Debug)]
pub struct Manager {
    directory: PathBuf,
    path: CertificatePath,
    root: Name,
    key: SigningKey,
    register: Register,
    /// Held as long as the manager is open.
    _lock: File,
}

impl Manager {
    /// Makes an identity manager under `root` in `directory`: `manager.key`, encrypted,
    /// `manager.pem`, and the register `register.json`.
    ///
    /// # Errors
    /// [`AuthorityError`]; among others when there is one already.
    pub fn create(
        directory: &Path,
        root: &Root,
        name: &Name,
        passphrase: &[u8],
        cost: ScryptCost,
        now: Timestamp,
        lifetime_ms: u64,
    ) -> Result<Self, AuthorityError> {
        files::create_directory(directory)?;
        let key = generate()?;
        let path = root.certify(Role::IdentityManager, name, &key, now, lifetime_ms)?;
        KeyFile::write(&directory.join("manager.key"), &key, passphrase, cost)?;
        write_path(&directory.join("manager.pem"), &path)?;
        let lock = lock(directory, "register.lock")?;
        let register = Register::default();
        register.write(&directory.join(REGISTER))?;
        Ok(Self {
            directory: directory.into(),
            root: root.certificate.subject().clone(),
            path,
            key,
            register,
            _lock: lock,
        })
    }

    /// Opens the manager in `directory`, for this process alone.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn open(directory: &Path, passphrase: &[u8]) -> Result<Self, AuthorityError> {
        let lock = lock(directory, "register.lock")?;
        let path = read_path(&directory.join("manager.pem"))?;
        expect_role(path.leaf(), Role::IdentityManager)?;
        let key = KeyFile::read(&directory.join("manager.key"), passphrase)?;
        belongs(path.leaf(), &key)?;
        let register = Register::read(&directory.join(REGISTER))?;
        let root = path.leaf().issuer().clone();
        Ok(Self { directory: directory.into(), path, root, key, register, _lock: lock })
    }

    /// The manager's certificate, as the path under the root.
    pub const fn path(&self) -> &CertificatePath {
        &self.path
    }

    /// The manager's certificate.
    pub fn certificate(&self) -> &Certificate {
        self.path.leaf()
    }

    /// Every certificate issued, oldest first.
    pub fn entries(&self) -> &[Entry] {
        self.register.entries()
    }

    /// Makes the certificate of a node's authority, valid for `lifetime_ms` from `now`. Whether the
    /// request comes from whom it names is for the operator to find out; that its sender has the
    /// key, [`Request`] has checked.
    ///
    /// The same name and key may be certified again, for renewal.
    ///
    /// # Errors
    /// [`AuthorityError`]: when the name, or one that differs in letter case or spacing only, is
    /// held with another key; when the key is another's or was revoked.
    pub fn issue(
        &mut self,
        request: &Request,
        now: Timestamp,
        lifetime_ms: u64,
    ) -> Result<CertificatePath, AuthorityError> {
        let name = request.name();
        for (own, role) in [(self.path.subject(), Role::IdentityManager), (&self.root, Role::Root)] {
            if register::alike(own, name) {
                return Err(AuthorityError::NameReserved { name: name.clone(), role });
            }
        }
        self.register.admit(name, request.key_der())?;
        let key =
            request.foreign_key().ok_or_else(|| AuthorityError::UnsupportedKey { name: name.clone() })?;
        let authority = Authority { certificate: self.path.leaf(), key: &self.key };
        let certificate = issue::certificate(Role::NodeAuthority, name, &key, &authority, now, lifetime_ms)?;
        // Known to the register before anybody else: else it could not be revoked.
        let mut register = self.register.clone();
        register.add(&certificate, now);
        register.write(&self.directory.join(REGISTER))?;
        self.register = register;
        Ok(self.path.extended(certificate)?)
    }

    /// Revokes every certificate of `name`. [`Manager::revocation_list`] then has to be published.
    ///
    /// # Errors
    /// [`AuthorityError`]; among others when there is nothing to revoke.
    pub fn revoke(&mut self, name: &Name, reason: Reason, now: Timestamp) -> Result<(), AuthorityError> {
        let mut register = self.register.clone();
        if !register.revoke(name, reason, now) {
            return Err(AuthorityError::NothingToRevoke { name: name.clone() });
        }
        register.write(&self.directory.join(REGISTER))?;
        self.register = register;
        Ok(())
    }

    /// A new list of everything revoked so far (DER), of a higher number than the one before. The
    /// next one is promised within `valid_ms`.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn revocation_list(&mut self, now: Timestamp, valid_ms: u64) -> Result<Vec<u8>, AuthorityError> {
        let mut register = self.register.clone();
        let number = register.next_list();
        register.write(&self.directory.join(REGISTER))?;
        self.register = register;
        revocation_list(&self.register, number, self.path.leaf(), &self.key, now, valid_ms)
    }
}

/// The list of everything that is revoked in `register`, signed by the authority.
fn revocation_list(
    register: &Register,
    number: u64,
    certificate: &Certificate,
    key: &SigningKey,
    now: Timestamp,
    valid_ms: u64,
) -> Result<Vec<u8>, AuthorityError> {
    let revoked_certs = register
        .entries()
        .iter()
        .filter_map(|entry| Some((entry, entry.revoked.as_ref()?)))
        .map(|(entry, revocation)| RevokedCertParams {
            serial_number: rcgen::SerialNumber::from_slice(entry.serial.as_bytes()),
            revocation_time: to_date(Timestamp::from_millis(revocation.at_ms)),
            reason_code: Some(revocation.reason.to_x509()),
            invalidity_date: None,
        })
        .collect();
    let list = CertificateRevocationListParams {
        this_update: to_date(now),
        next_update: to_date(moment::after(now, valid_ms.max(1000))),
        crl_number: rcgen::SerialNumber::from(number),
        issuing_distribution_point: None,
        revoked_certs,
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let issuer = issue::issuer(certificate);
    let list =
        list.signed_by(&Issuer::from_params(&issuer, Signer::new(key))).map_err(IssueError::Encoding)?;
    Ok(list.der().to_vec())
}

/// The key that signs the network parameters.
#[derive(Debug)]
pub struct NetworkMapKey {
    path: CertificatePath,
    key: SigningKey,
}

impl NetworkMapKey {
    /// Makes a network map's key under `root` in `directory`: `network-map.key`, encrypted, and
    /// `network-map.pem`.
    ///
    /// # Errors
    /// [`AuthorityError`]; among others when there is one already.
    pub fn create(
        directory: &Path,
        root: &Root,
        name: &Name,
        passphrase: &[u8],
        cost: ScryptCost,
        now: Timestamp,
        lifetime_ms: u64,
    ) -> Result<Self, AuthorityError> {
        files::create_directory(directory)?;
        let key = generate()?;
        let path = root.certify(Role::NetworkMap, name, &key, now, lifetime_ms)?;
        KeyFile::write(&directory.join("network-map.key"), &key, passphrase, cost)?;
        write_path(&directory.join("network-map.pem"), &path)?;
        Ok(Self { path, key })
    }

    /// Opens the key in `directory`.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn open(directory: &Path, passphrase: &[u8]) -> Result<Self, AuthorityError> {
        let path = read_path(&directory.join("network-map.pem"))?;
        expect_role(path.leaf(), Role::NetworkMap)?;
        let key = KeyFile::read(&directory.join("network-map.key"), passphrase)?;
        belongs(path.leaf(), &key)?;
        Ok(Self { path, key })
    }

    /// The key's certificate.
    pub const fn path(&self) -> &CertificatePath {
        &self.path
    }

    pub(crate) const fn key(&self) -> &SigningKey {
        &self.key
    }
}

fn generate() -> Result<SigningKey, AuthorityError> {
    SigningKey::generate().map_err(|error| AuthorityError::Generate(error.into()))
}

pub(crate) fn read_path(path: &Path) -> Result<CertificatePath, AuthorityError> {
    let text = files::read(path, MAX_PATH_FILE_BYTES, Access::Public)?;
    pem::decode_path(&text).map_err(|source| AuthorityError::Pem { path: path.into(), source })
}

pub(crate) fn read_certificate(path: &Path) -> Result<Certificate, AuthorityError> {
    let text = files::read(path, MAX_PATH_FILE_BYTES, Access::Public)?;
    pem::decode_certificate(&text)
        .and_then(|der| Ok(Certificate::parse(&der)?))
        .map_err(|source| AuthorityError::Pem { path: path.into(), source })
}

fn write_path(path: &Path, certificates: &CertificatePath) -> Result<(), FileError> {
    files::create(path, pem::encode_path(certificates).as_bytes(), Access::Public)
}

fn expect_role(certificate: &Certificate, expected: Role) -> Result<(), CertificateError> {
    if certificate.role() == expected {
        return Ok(());
    }
    Err(CertificateError::WrongRole {
        subject: certificate.subject().clone(),
        expected,
        found: certificate.role(),
    })
}

/// Checks that a key file and a certificate were not put together from two.
pub(crate) fn belongs(certificate: &Certificate, key: &SigningKey) -> Result<(), CertificateError> {
    if certificate.public_key()? == key.public_key().into() {
        return Ok(());
    }
    Err(CertificateError::KeyMismatch { subject: certificate.subject().clone(), role: certificate.role() })
}

fn lock(directory: &Path, file: &str) -> Result<File, AuthorityError> {
    let path = directory.join(file);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(FileError::io(&path, "open"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(AuthorityError::Busy { path: directory.into() }),
        Err(std::fs::TryLockError::Error(source)) => Err(FileError::io(&path, "lock")(source).into()),
    }
}

impl Entry {
    fn new(certificate: &Certificate, now: Timestamp) -> Self {
        Self {
            name: certificate.subject().clone(),
            serial: certificate.serial().clone(),
            key: register::hex(certificate.key_der()),
            issued_ms: now.as_millis(),
            not_after_ms: certificate.not_after().as_millis(),
            revoked: None,
        }
    }
}

impl serde::Serialize for SerialNumber {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for SerialNumber {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let bytes = register::unhex(&text).ok_or_else(|| D::Error::custom("not a hexadecimal number"))?;
        Self::from_der(&bytes).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
