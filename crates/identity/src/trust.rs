//! Whom a node believes: the network's root, less what was revoked.

use crate::certificate::{Certificate, CertificateError, CertificatePath};
use crate::moment::{Utc, to_unix};
use crate::revocation::{RevocationError, Revocations};
use crate::role::Role;
use arc_swap::ArcSwapOption;
use rustls::pki_types::{SignatureVerificationAlgorithm, TrustAnchor};
use std::sync::Arc;
use tally_contracts::{Name, PublicKey, Timestamp};
use webpki::{EndEntityCert, KeyUsage};

/// The algorithms with which certificates may be signed.
pub(crate) static SIGNATURES: &[&dyn SignatureVerificationAlgorithm] =
    &[webpki::ring::ED25519, webpki::ring::ECDSA_P256_SHA256, webpki::ring::ECDSA_P384_SHA384];

/// A revocation list may be this much younger than the clock of the machine that reads it.
const CLOCK_TOLERANCE_MS: u64 = 10 * 60 * 1000;

/// The network's root and the revocation list in force.
///
/// Clones share the list: [`Trust::install`] on one is seen by all, among them the TLS
/// configurations that were made with it, from their next handshake on.
#[derive(Debug, Clone)]
pub struct Trust {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: Certificate,
    anchor: TrustAnchor<'static>,
    revocations: ArcSwapOption<Revocations>,
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
        Ok(Self { inner: Arc::new(Inner { root, anchor, revocations: ArcSwapOption::empty() }) })
    }

    /// The root's certificate.
    pub fn root(&self) -> &Certificate {
        &self.inner.root
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
        if let Some(revocations) = &*self.inner.revocations.load() {
            for certificate in path.certificates() {
                if revocations.contains(certificate) {
                    return Err(CertificateError::Revoked {
                        subject: certificate.subject().clone(),
                        role: certificate.role(),
                        serial: certificate.serial().clone(),
                    });
                }
            }
        }
        self.check_signatures(path, now)
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

    /// Puts a newer revocation list (DER) into force, signed by `manager`.
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
        let list = Revocations::parse(list, manager)?;
        if list.made().as_millis() > now.as_millis().saturating_add(CLOCK_TOLERANCE_MS) {
            return Err(RevocationError::Future {
                made: Utc(list.made()).to_string(),
                clock: Utc(now).to_string(),
            });
        }
        let list = Arc::new(list);
        let mut older = None;
        self.inner.revocations.rcu(|current| {
            older = current.as_ref().map(|current| current.number()).filter(|have| *have > list.number());
            if older.is_some() { current.clone() } else { Some(Arc::clone(&list)) }
        });
        match older {
            Some(have) => Err(RevocationError::Older { got: list.number(), have }),
            None => Ok(list),
        }
    }

    /// The list in force; none before the first is installed.
    pub fn revocations(&self) -> Option<Arc<Revocations>> {
        self.inner.revocations.load_full()
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
