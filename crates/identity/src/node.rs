//! A node's own keys and certificates, in files of one directory.
//!
//! | file | what |
//! | --- | --- |
//! | `root.pem` | the network's root, which the node trusts |
//! | `request.csr` | what the identity manager is asked to sign |
//! | `node-authority.key`, `.pem` | the node's own authority, needed to make or renew the other two only |
//! | `identity.key`, `.pem` | the legal identity: signs transactions |
//! | `identity-next.key`, `.pem` | the next one, while it is rotated |
//! | `former-MS.key`, `.pem` | a former one, and until when it was the present one, in milliseconds |
//! | `tls.key`, `.pem` | connections |
//! | `notary.key`, `.pem` | the notary's service, where the node has one: signs as a notary |
//! | `voter.key` | votes in a clustered notary, where the node is a member of one |

use crate::authority::{self, AuthorityError, belongs};
use crate::certificate::{Certificate, CertificateError, CertificatePath};
use crate::files::{self, Access, FileError};
use crate::issue::{self, Authority, IssueError};
use crate::pem;
use crate::request::{MAX_REQUEST_BYTES, Request, RequestError};
use crate::role::Role;
use crate::signer::Signer;
use crate::tls_key::{TlsKey, TlsKeyError};
use crate::trust::{Trust, Verified};
use rustls::sign::CertifiedKey;
use std::path::Path;
use std::sync::Arc;
use tally_consensus::SecretKey;
use tally_contracts::{Name, Party, SigningKey, Timestamp};
use tally_crypto::derive_key;
use tally_crypto::keystore::{KeyFile, KeyFileError, ScryptCost};
use zeroize::Zeroizing;

mod rotation;

pub use rotation::Former;

const ROOT: &str = "root.pem";
const REQUEST: &str = "request.csr";
const AUTHORITY: &str = "node-authority";
const LEGAL_IDENTITY: &str = "identity";
const NEXT: &str = "identity-next";
const FORMER: &str = "former-";
const TLS: &str = "tls";
const NOTARY: &str = "notary";
const VOTER: &str = "voter";
/// Makes the voting key out of what its file holds.
const VOTING: &str = "tallystick clustered notary voting key v1";

/// Why a node's identity was not made or loaded.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file.
    #[error("a file of the node's identity")]
    File(#[from] FileError),
    /// A key file.
    #[error("a key of the node")]
    Key(#[from] KeyFileError),
    /// The TLS key's file.
    #[error("the node's TLS key")]
    TlsKey(#[from] TlsKeyError),
    /// A file of certificates.
    #[error("a certificate file of the node")]
    Files(#[source] AuthorityError),
    /// A certificate is refused.
    #[error("a certificate of the node is refused")]
    Certificate(#[from] CertificateError),
    /// A certificate was not made.
    #[error("a certificate of the node was not made")]
    Issue(#[from] IssueError),
    /// The request in the directory is damaged.
    #[error("the request in the node's directory is damaged; remove it to make a new one")]
    Request(#[from] RequestError),
    /// The directory is another node's.
    #[error("the directory has the keys of {found}, not of {expected}; choose another directory")]
    OtherNode {
        /// The name asked for.
        expected: Name,
        /// The name in the directory.
        found: Name,
    },
    /// A key was not made.
    #[error("no key could be made")]
    Generate(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// rustls does not take the key.
    #[error("the TLS library does not take the node's key")]
    Tls(#[source] rustls::Error),
    /// A rotation of the legal identity's key has begun and has not ended.
    #[error(
        "the key of the node's legal identity is being rotated: run `tally node rotate` again, which completes it"
    )]
    Unfinished,
    /// A file that is named as a former key's, and is none.
    #[error("{file} is no certificate of a former key of the node")]
    Former {
        /// The file's name.
        file: String,
    },
    /// The identity manager has not answered yet.
    #[error("the node has no certificate yet; have request.csr signed by the identity manager")]
    NotAccepted,
}

impl From<AuthorityError> for IdentityError {
    fn from(error: AuthorityError) -> Self {
        match error {
            AuthorityError::File(error) => Self::File(error),
            AuthorityError::Certificate(error) => Self::Certificate(error),
            other => Self::Files(other),
        }
    }
}

/// Making a node's keys and having them certified.
#[derive(Debug)]
pub struct NodeKeys;

impl NodeKeys {
    /// What guessing a node's passphrase costs: 16 MiB twice. A node starts without anybody at the
    /// keyboard, so its passphrase is random text from a secret store; [`ScryptCost::DEFAULT`], made
    /// for passphrases that people choose, would take most of a second's start for its two keys.
    pub const COST: ScryptCost = ScryptCost { log_n: 14, p: 2 };

    /// Makes the keys of `name` in `directory`, encrypted, and the request for the identity manager,
    /// which is also written to `request.csr`. What is there already is used: calling this again
    /// after a crash goes on where it stopped.
    ///
    /// # Errors
    /// [`IdentityError`]; among others when the directory is another node's.
    pub fn create(
        directory: &Path,
        name: &Name,
        passphrase: &[u8],
        cost: ScryptCost,
    ) -> Result<Request, IdentityError> {
        files::create_directory(directory)?;
        let path = directory.join(REQUEST);
        match files::read(&path, MAX_REQUEST_BYTES, Access::Public) {
            Ok(bytes) => {
                let request = Request::parse(&bytes)?;
                if request.name() != name {
                    let found = request.name().clone();
                    return Err(IdentityError::OtherNode { expected: name.clone(), found });
                }
                return Ok(request);
            }
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error.into()),
        }
        let authority = key(directory, AUTHORITY, passphrase, cost)?;
        key(directory, LEGAL_IDENTITY, passphrase, cost)?;
        let tls = directory.join(format!("{TLS}.key"));
        if !tls.exists() {
            TlsKey::generate()?.write(&tls, passphrase, cost)?;
        }
        let request = Request::new(name, &authority)?;
        files::create(&path, request.to_pem().as_bytes(), Access::Public)?;
        Ok(request)
    }

    /// Makes the key of a notary's service, encrypted, if there is none: a notary signs with a key
    /// of its own, so that its signature is nobody's as owner or issuer. The certificate is made
    /// with the others by [`NodeKeys::accept`], or at once where that was called already.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn create_notary(
        directory: &Path,
        passphrase: &[u8],
        cost: ScryptCost,
        now: Timestamp,
    ) -> Result<(), IdentityError> {
        let notary = key(directory, NOTARY, passphrase, cost)?;
        let accepted = directory.join(format!("{AUTHORITY}.pem"));
        if !accepted.exists() || directory.join(format!("{NOTARY}.pem")).exists() {
            return Ok(());
        }
        let path = authority::read_path(&accepted)?;
        let trust = Trust::new(authority::read_certificate(&directory.join(ROOT))?.der())?;
        let key = KeyFile::read(&directory.join(format!("{AUTHORITY}.key")), passphrase)?;
        belongs(path.leaf(), &key)?;
        let authority = Authority { certificate: path.leaf(), key: &key };
        let role = Role::NotaryService;
        let leaf =
            issue::certificate(role, path.subject(), &Signer::new(&notary), &authority, now, u64::MAX)?;
        let made = path.extended(leaf)?;
        trust.verify(&made, role, now)?;
        let file = directory.join(format!("{NOTARY}.pem"));
        Ok(files::replace(&file, pem::encode_path(&made).as_bytes(), Access::Public)?)
    }

    /// Makes the key with which the node votes as a member of a clustered notary, encrypted, if there
    /// is none. The network's parameters name its address; there is no certificate.
    ///
    /// The file is of the form of the node's other keys. The voting key (secp256k1) is derived from
    /// the 32 bytes in it.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn create_voter(
        directory: &Path,
        passphrase: &[u8],
        cost: ScryptCost,
    ) -> Result<SecretKey, IdentityError> {
        files::create_directory(directory)?;
        voting(key(directory, VOTER, passphrase, cost)?)
    }

    /// The key that [`NodeKeys::create_voter`] made; `None` where there is none.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn voter(directory: &Path, passphrase: &[u8]) -> Result<Option<SecretKey>, IdentityError> {
        let path = directory.join(format!("{VOTER}.key"));
        if path.exists() { Ok(Some(voting(KeyFile::read(&path, passphrase)?)?)) } else { Ok(None) }
    }

    /// Takes what the identity manager answered to the request: `path` (the node's authority, the
    /// manager) under `root` (DER), which the operator has from a source they believe. Makes the
    /// legal identity's and the TLS certificate, and the notary service's where there is a key for
    /// one, valid as long as the authority's.
    ///
    /// With a newer path of the same key this renews all of them.
    ///
    /// # Errors
    /// [`IdentityError`]: when the path does not lead to the root, is for another name or another
    /// key, is not valid at `now`.
    pub fn accept(
        directory: &Path,
        passphrase: &[u8],
        root: &[u8],
        path: &CertificatePath,
        now: Timestamp,
    ) -> Result<(), IdentityError> {
        complete(directory)?;
        let trust = Trust::new(root)?;
        let request =
            Request::parse(&files::read(&directory.join(REQUEST), MAX_REQUEST_BYTES, Access::Public)?)?;
        let verified = trust.verify(path, Role::NodeAuthority, now)?;
        if verified.name != *request.name() {
            let expected = request.name().clone();
            return Err(CertificateError::NameMismatch { expected, found: verified.name }.into());
        }
        let key = KeyFile::read(&directory.join(format!("{AUTHORITY}.key")), passphrase)?;
        belongs(path.leaf(), &key)?;
        let authority = Authority { certificate: path.leaf(), key: &key };
        let Keys { legal, tls, notary } = keys(directory, passphrase)?;
        let make = |role, key: &dyn Fn(Role) -> Result<Certificate, IssueError>| {
            let made = path.extended(key(role)?)?;
            trust.verify(&made, role, now)?;
            Ok::<_, IdentityError>(made)
        };
        let name = &verified.name;
        let legal = make(Role::LegalIdentity, &|role| {
            issue::certificate(role, name, &Signer::new(&legal), &authority, now, u64::MAX)
        })?;
        let tls =
            make(Role::Tls, &|role| issue::certificate(role, name, tls.public(), &authority, now, u64::MAX))?;
        let notary = notary.map(|notary| {
            make(Role::NotaryService, &|role| {
                issue::certificate(role, name, &Signer::new(&notary), &authority, now, u64::MAX)
            })
        });
        let write =
            |file: &str, text: String| files::replace(&directory.join(file), text.as_bytes(), Access::Public);
        write(ROOT, pem::encode_certificate(root))?;
        write(&format!("{AUTHORITY}.pem"), pem::encode_path(path))?;
        write(&format!("{TLS}.pem"), pem::encode_path(&tls))?;
        if let Some(notary) = notary {
            write(&format!("{NOTARY}.pem"), pem::encode_path(&notary?))?;
        }
        // The last one: a directory with it is complete.
        write(&format!("{LEGAL_IDENTITY}.pem"), pem::encode_path(&legal))?;
        Ok(())
    }
}

/// The service of a notary: its certificate and its key.
#[derive(Debug, Clone)]
struct NotaryService {
    party: Party,
    key: SigningKey,
    path: CertificatePath,
}

/// Who this node is: its legal identity with the key to sign, its TLS certificate and key, and whom
/// it trusts.
#[derive(Debug, Clone)]
pub struct Identity {
    party: Party,
    key: SigningKey,
    path: CertificatePath,
    tls_path: CertificatePath,
    tls: Arc<CertifiedKey>,
    notary: Option<NotaryService>,
    former: Vec<Former>,
    trust: Trust,
}

impl Identity {
    /// Loads the identity in `directory`.
    ///
    /// # Errors
    /// [`IdentityError`]: when a file is missing, damaged or open to others, when the passphrase is
    /// wrong, when a certificate is not valid at `now`.
    pub fn load(directory: &Path, passphrase: &[u8], now: Timestamp) -> Result<Self, IdentityError> {
        complete(directory)?;
        let read = |file: &str| authority::read_path(&directory.join(format!("{file}.pem")));
        let path = match read(LEGAL_IDENTITY) {
            Err(AuthorityError::File(error)) if error.is_missing() => return Err(IdentityError::NotAccepted),
            path => path?,
        };
        let tls_path = read(TLS)?;
        let trust = Trust::new(authority::read_certificate(&directory.join(ROOT))?.der())?;
        let verified = trust.verify(&path, Role::LegalIdentity, now)?;
        let tls_verified = trust.verify(&tls_path, Role::Tls, now)?;
        if verified.name != tls_verified.name {
            return Err(
                CertificateError::NameMismatch { expected: verified.name, found: tls_verified.name }.into()
            );
        }
        let Keys { legal: key, tls, notary } = keys(directory, passphrase)?;
        belongs(path.leaf(), &key)?;
        let notary = match notary {
            // A key without a certificate was made for a node that has none yet.
            Some(key) if directory.join(format!("{NOTARY}.pem")).exists() => {
                let path = read(NOTARY)?;
                let Verified { name, key: public } = trust.verify(&path, Role::NotaryService, now)?;
                if name != verified.name {
                    return Err(
                        CertificateError::NameMismatch { expected: verified.name, found: name }.into()
                    );
                }
                belongs(path.leaf(), &key)?;
                Some(NotaryService { party: Party { name, key: public }, key: key.into(), path })
            }
            _ => None,
        };
        let tls = CertifiedKey::new(tls_path.to_der(), tls.to_rustls().map_err(IdentityError::Tls)?);
        tls.keys_match().map_err(IdentityError::Tls)?;
        Ok(Self {
            party: Party { name: verified.name.clone(), key: verified.key },
            key: SigningKey::from(key),
            path,
            tls_path,
            tls: Arc::new(tls),
            notary,
            former: rotation::load(directory, passphrase, &verified.name)?,
            trust,
        })
    }

    /// Name and key.
    pub const fn party(&self) -> &Party {
        &self.party
    }

    /// The name.
    pub const fn name(&self) -> &Name {
        &self.party.name
    }

    /// The legal identity's key.
    pub const fn key(&self) -> &SigningKey {
        &self.key
    }

    /// The keys that the legal identity had before, oldest first.
    pub fn former(&self) -> &[Former] {
        &self.former
    }

    /// The legal identity's certificate, the node's authority's and the identity manager's.
    pub const fn path(&self) -> &CertificatePath {
        &self.path
    }

    /// The TLS certificate, the node's authority's and the identity manager's.
    pub const fn tls_path(&self) -> &CertificatePath {
        &self.tls_path
    }

    /// The TLS certificate and key as rustls takes them.
    pub const fn tls_key(&self) -> &Arc<CertifiedKey> {
        &self.tls
    }

    /// Name and key of the node's notary service, where it has one: the node's name, another key.
    pub fn notary_party(&self) -> Option<&Party> {
        self.notary.as_ref().map(|notary| &notary.party)
    }

    /// The key with which the node signs as a notary, where it has such a service.
    pub fn notary_key(&self) -> Option<&SigningKey> {
        self.notary.as_ref().map(|notary| &notary.key)
    }

    /// The certificate of the node's notary service and those above it.
    pub fn notary_path(&self) -> Option<&CertificatePath> {
        self.notary.as_ref().map(|notary| &notary.path)
    }

    /// Whom this node trusts. Clones share the revocation list.
    pub const fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The last second at which all certificates of the node are valid.
    pub fn not_after(&self) -> Timestamp {
        let own = self.path.not_after().min(self.tls_path.not_after());
        self.notary_path().map_or(own, |path| own.min(path.not_after()))
    }
}

/// # Errors
/// [`IdentityError::Unfinished`].
fn complete(directory: &Path) -> Result<(), IdentityError> {
    let is_there = |ending: &str| directory.join(format!("{NEXT}.{ending}")).exists();
    if is_there("key") || is_there("pem") { Err(IdentityError::Unfinished) } else { Ok(()) }
}

/// The voting key that follows from a key of the key store.
fn voting(key: tally_crypto::SigningKey) -> Result<SecretKey, IdentityError> {
    let secret = SigningKey::from(key).secret();
    let derived = Zeroizing::new(derive_key(VOTING, secret.as_slice()));
    // One derivation in 2^128 is no scalar of the curve.
    SecretKey::from_bytes(&derived).map_err(|error| IdentityError::Generate(error.into()))
}

/// The keys of daily use.
struct Keys {
    legal: tally_crypto::SigningKey,
    tls: TlsKey,
    notary: Option<tally_crypto::SigningKey>,
}

/// Reads the keys of daily use at the same time, because scrypt takes its time for each.
fn keys(directory: &Path, passphrase: &[u8]) -> Result<Keys, IdentityError> {
    let file = |name: &str| directory.join(format!("{name}.key"));
    std::thread::scope(|scope| {
        let tls = scope.spawn(|| TlsKey::read(&file(TLS), passphrase));
        let notary = file(NOTARY);
        let notary = notary.exists().then(|| scope.spawn(move || KeyFile::read(&notary, passphrase)));
        let legal = KeyFile::read(&file(LEGAL_IDENTITY), passphrase);
        let (tls, notary) = (join(tls), notary.map(join));
        Ok(Keys { legal: legal?, tls: tls?, notary: notary.transpose()? })
    })
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The key of that name, made if there is none.
fn key(
    directory: &Path,
    name: &str,
    passphrase: &[u8],
    cost: ScryptCost,
) -> Result<tally_crypto::SigningKey, IdentityError> {
    let path = directory.join(format!("{name}.key"));
    if path.exists() {
        return Ok(KeyFile::read(&path, passphrase)?);
    }
    let key = tally_crypto::SigningKey::generate().map_err(|error| IdentityError::Generate(error.into()))?;
    KeyFile::write(&path, &key, passphrase, cost)?;
    Ok(key)
}

#[cfg(test)]
mod tests;
