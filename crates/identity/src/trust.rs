//! Whom a node believes: the network's root, less what was revoked.

use crate::certificate::{Certificate, CertificateError, CertificatePath};
use crate::moment::{Utc, to_unix};
use crate::revocation::{RevocationError, Revocations};
use crate::role::Role;
use arc_swap::ArcSwap;
use rustls::pki_types::{SignatureVerificationAlgorithm, TrustAnchor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tally_contracts::{Name, NetworkId, PublicKey, Timestamp};
use webpki::{EndEntityCert, KeyUsage};

/// Makes the id of a network out of its root's public key.
const NETWORK_KEY: &[u8; 32] = b"tallystick network id v1        ";

/// The algorithms with which certificates may be signed.
pub(crate) static SIGNATURES: &[&dyn SignatureVerificationAlgorithm] =
    &[webpki::ring::ED25519, webpki::ring::ECDSA_P256_SHA256, webpki::ring::ECDSA_P384_SHA384];

/// A revocation list may be this much younger than the clock of the machine that reads it.
const CLOCK_TOLERANCE_MS: u64 = 10 * 60 * 1000;

/// How long a revocation list still counts after the next one was due, where the network's
/// parameters say nothing else: seven days, in milliseconds.
pub const REVOCATION_GRACE_MS: u64 = crate::moment::days(7);

/// The network's root and the revocation lists in force, one for each authority that has one.
///
/// Clones share the lists: [`Trust::install`] on one is seen by all, among them the TLS
/// configurations that were made with it, from their next handshake on.
#[derive(Debug, Clone)]
pub struct Trust {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: Certificate,
    anchor: TrustAnchor<'static>,
    lists: ArcSwap<Lists>,
    grace_ms: AtomicU64,
}

#[derive(Debug, Clone, Default)]
struct Lists {
    /// One for each authority.
    lists: Vec<Arc<Revocations>>,
    /// Counts the changes.
    generation: u64,
}

impl Lists {
    fn of(&self, authority: &Certificate) -> Option<&Arc<Revocations>> {
        self.lists.iter().find(|list| list.is_of(authority))
    }
}

/// A path that leads to the root, is valid and not revoked: the subject is who it says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The subject.
    pub name: Name,
    /// Its key.
    pub key: PublicKey,
}

impl Trust {
    /// Trusts `root` (DER), which the caller has from a source it believes.
    ///
    /// # Errors
    /// [`CertificateError`] when it is not a certificate for the role of a root, signed by itself.
    pub fn new(root: &[u8]) -> Result<Self, CertificateError> {
        let root = Certificate::parse(root)?;
        if root.role() != Role::Root {
            return Err(CertificateError::WrongRole {
                subject: root.subject().clone(),
                expected: Role::Root,
                found: root.role(),
            });
        }
        root.check_signature(&root)?;
        let anchor = webpki::anchor_from_trusted_cert(root.der())
            .map_err(|source| CertificateError::Path { subject: root.subject().clone(), source })?
            .to_owned();
        Ok(Self {
            inner: Arc::new(Inner {
                root,
                anchor,
                lists: ArcSwap::default(),
                grace_ms: AtomicU64::new(REVOCATION_GRACE_MS),
            }),
        })
    }

    /// The root's certificate.
    pub fn root(&self) -> &Certificate {
        &self.inner.root
    }

    /// The network's id: the hash of its root's public key. A root whose certificate is renewed with
    /// the same key stays that of the same network.
    pub fn network(&self) -> NetworkId {
        NetworkId::from_hash(tally_crypto::keyed(NETWORK_KEY, self.inner.root.key_der()))
    }

    /// Checks that `path` gives its subject the role `role` at the time `now`: signatures up to the
    /// root, validity, constraints, and that nothing on it is revoked.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn verify(
        &self,
        path: &CertificatePath,
        role: Role,
        now: Timestamp,
    ) -> Result<Verified, CertificateError> {
        self.check_form(path, role)?;
        let lists = self.inner.lists.load();
        for (certificate, issuer) in self.issued(path) {
            if lists.of(issuer).is_some_and(|list| list.contains(certificate)) {
                return Err(CertificateError::Revoked {
                    subject: certificate.subject().clone(),
                    role: certificate.role(),
                    serial: certificate.serial().clone(),
                });
            }
        }
        let verified = self.check_signatures(path, now)?;
        self.check_lists(&lists, path, role, now)?;
        Ok(verified)
    }

    /// Each certificate of the path with its issuer's.
    fn issued<'a>(
        &'a self,
        path: &'a CertificatePath,
    ) -> impl Iterator<Item = (&'a Certificate, &'a Certificate)> {
        let issuers = path.certificates()[1..].iter().chain([&self.inner.root]);
        path.certificates().iter().zip(issuers)
    }

    /// Whether what the authorities on the path revoked is known, and new enough. That a list is
    /// overdue stops new connections alone: who is on the map, and what was signed, stays believed.
    fn check_lists(
        &self,
        lists: &Lists,
        path: &CertificatePath,
        role: Role,
        now: Timestamp,
    ) -> Result<(), CertificateError> {
        let some_manager = lists.lists.iter().any(|list| !list.is_of(&self.inner.root));
        for (_, issuer) in self.issued(path) {
            match lists.of(issuer) {
                Some(list) if role == Role::Tls && self.is_overdue(list, now) => {
                    return Err(CertificateError::Overdue {
                        issuer: list.issuer().clone(),
                        due: list.next(),
                    });
                }
                None if issuer.role() == Role::IdentityManager && some_manager => {
                    return Err(CertificateError::NoRevocationList { issuer: issuer.subject().clone() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the next list was due so long ago that nothing new rests on this one.
    fn is_overdue(&self, list: &Revocations, now: Timestamp) -> bool {
        let grace = self.inner.grace_ms.load(Ordering::Relaxed);
        now.as_millis() > list.next().as_millis().saturating_add(grace)
    }

    /// How long a list counts after the next one was due, as the network's parameters say.
    pub(crate) fn set_grace(&self, grace_ms: u64) {
        self.inner.grace_ms.store(grace_ms, Ordering::Relaxed);
    }

    /// Checks that `path` once gave its subject the role `role`: signatures and constraints up to
    /// the root, validity at the moment from which the subject's certificate was valid. That it
    /// expired or was revoked since is no hindrance: it was certified all the same.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn verify_past(&self, path: &CertificatePath, role: Role) -> Result<Verified, CertificateError> {
        self.check_form(path, role)?;
        self.check_signatures(path, path.leaf().not_before())
    }

    /// Role and issuer, as the certificates name them.
    fn check_form(&self, path: &CertificatePath, role: Role) -> Result<(), CertificateError> {
        let (leaf, top, root) = (path.leaf(), path.top(), &self.inner.root);
        if leaf.role() != role {
            return Err(CertificateError::WrongRole {
                subject: leaf.subject().clone(),
                expected: role,
                found: leaf.role(),
            });
        }
        if top.issuer() != root.subject() {
            return Err(CertificateError::UnknownIssuer {
                subject: top.subject().clone(),
                issuer: top.issuer().clone(),
                expected: root.subject().clone(),
            });
        }
        Ok(())
    }

    /// Validity at `now`, signatures and constraints.
    fn check_signatures(&self, path: &CertificatePath, now: Timestamp) -> Result<Verified, CertificateError> {
        let Inner { root, anchor, .. } = &*self.inner;
        let leaf = path.leaf();
        root.check_time(now)?;
        for certificate in path.certificates() {
            certificate.check_time(now)?;
        }
        let key = leaf.public_key()?;
        if leaf.role().path_length().is_some() {
            // RFC 5280's algorithm as webpki has it is for end entities only.
            let issuers = path.certificates()[1..].iter().chain([root]);
            for (certificate, issuer) in path.certificates().iter().zip(issuers) {
                certificate.check_signature(issuer)?;
            }
        } else {
            standard(path, anchor, now, root.subject())?;
        }
        Ok(Verified { name: leaf.subject().clone(), key })
    }

    /// Puts a newer revocation list (DER) of `manager` into force. Lists of other authorities stay:
    /// no identity manager undoes what another revoked.
    ///
    /// # Errors
    /// [`RevocationError`]; the list in force stays. A list with the number of the one in force is
    /// accepted.
    pub fn install(
        &self,
        list: &[u8],
        manager: &Certificate,
        now: Timestamp,
    ) -> Result<Arc<Revocations>, RevocationError> {
        let path = CertificatePath::new(vec![manager.clone()]).map_err(RevocationError::Manager)?;
        // The manager's own certificate may have expired since it signed; the list still holds.
        let when = now.clamp(manager.not_before(), manager.not_after().max(manager.not_before()));
        self.verify(&path, Role::IdentityManager, when).map_err(RevocationError::Manager)?;
        self.put(Revocations::parse(list, manager)?, now)
    }

    /// Puts a newer revocation list (DER) of the root into force: of identity managers and keys of
    /// network maps.
    ///
    /// # Errors
    /// As [`Trust::install`].
    pub fn install_root(&self, list: &[u8], now: Timestamp) -> Result<Arc<Revocations>, RevocationError> {
        self.put(Revocations::parse(list, &self.inner.root)?, now)
    }

    fn put(&self, list: Revocations, now: Timestamp) -> Result<Arc<Revocations>, RevocationError> {
        if list.made().as_millis() > now.as_millis().saturating_add(CLOCK_TOLERANCE_MS) {
            return Err(RevocationError::Future {
                made: Utc(list.made()).to_string(),
                clock: Utc(now).to_string(),
            });
        }
        let list = Arc::new(list);
        let mut older = None;
        self.inner.lists.rcu(|current| {
            let have = current.lists.iter().position(|have| have.same_issuer(&list));
            let number = have.map(|index| current.lists[index].number());
            older = number.filter(|have| *have > list.number());
            if older.is_some() || have.is_some_and(|index| *current.lists[index] == *list) {
                return Arc::clone(current);
            }
            let mut next = Lists::clone(current);
            next.generation += 1;
            match have {
                Some(index) => next.lists[index] = Arc::clone(&list),
                None => next.lists.push(Arc::clone(&list)),
            }
            Arc::new(next)
        });
        match older {
            Some(have) => Err(RevocationError::Older { got: list.number(), have }),
            None => Ok(list),
        }
    }

    /// The lists in force, one for each authority; none before the first is installed.
    pub fn revocations(&self) -> Vec<Arc<Revocations>> {
        self.inner.lists.load().lists.clone()
    }

    /// Counts the changes of the lists in force.
    pub(crate) fn generation(&self) -> u64 {
        self.inner.lists.load().generation
    }
}

/// RFC 5280 section 6.
fn standard(
    path: &CertificatePath,
    anchor: &TrustAnchor<'static>,
    now: Timestamp,
    root: &Name,
) -> Result<(), CertificateError> {
    let leaf = path.leaf();
    let refuse = |source| match source {
        webpki::Error::InvalidSignatureForPublicKey | webpki::Error::UnknownIssuer => {
            // webpki does not say whose signature it is.
            let altered = path
                .certificates()
                .windows(2)
                .find(|pair| pair[0].check_signature(&pair[1]).is_err())
                .map_or((path.top(), root), |pair| (&pair[0], pair[1].subject()));
            CertificateError::Signature {
                subject: altered.0.subject().clone(),
                role: altered.0.role(),
                by: altered.1.clone(),
            }
        }
        source => CertificateError::Path { subject: leaf.subject().clone(), source },
    };
    let der = path.to_der();
    let end = EndEntityCert::try_from(&der[0]).map_err(refuse)?;
    let purpose = match leaf.role().private_purpose() {
        // webpki asks the authorities on the path as well, which have no purposes; that the leaf has
        // this one, `Certificate::parse` has seen to.
        Some(purpose) => KeyUsage::required_if_present(purpose),
        // As is client authentication.
        None => KeyUsage::server_auth(),
    };
    end.verify_for_usage(
        SIGNATURES,
        std::slice::from_ref(anchor),
        &der[1..],
        to_unix(now),
        purpose,
        None,
        None,
    )
    .map_err(refuse)?;
    Ok(())
}

#[cfg(test)]
mod tests;
