//! How the certificate of the other side is judged.

use super::{is_host, timestamp};
use crate::certificate::{CertificateError, CertificatePath};
use crate::moment::to_unix;
use crate::role::Role;
use crate::trust::{Trust, Verified};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError as TlsCertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, SignatureScheme,
};
use std::sync::Arc;
use tally_contracts::Timestamp;

/// Believes certificates for the role TLS that lead to the root.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(trust: Trust, provider: &CryptoProvider) -> Self {
        Self { trust, algorithms: provider.signature_verification_algorithms }
    }

    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<Verified, CertificateError> {
        // Parsing starts after the count is known to be small.
        let count = intermediates.len().saturating_add(1);
        if count > 3 {
            return Err(CertificateError::PathLength { count });
        }
        let path: Vec<_> = std::iter::once(end_entity).chain(intermediates).collect();
        self.trust.verify(&CertificatePath::parse(&path)?, Role::Tls, now)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verify(end_entity, intermediates, timestamp(now)).map_err(to_rustls)?;
        if !is_host(&verified.name, server_name) {
            let expected = server_name.to_str().into_owned();
            return Err(to_rustls(CertificateError::HostMismatch { expected, found: verified.name }));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A node has one certificate and needs no hint which to show.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(end_entity, intermediates, timestamp(now)).map_err(to_rustls)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// rustls's own errors where it has one, because they decide which alert the other side sees
/// (RFC 8446 section 6.2): its operator reads "certificate expired", not "unknown".
fn to_rustls(error: CertificateError) -> Error {
    let certificate = match &error {
        CertificateError::Malformed(_) | CertificateError::TooLarge { .. } => {
            TlsCertificateError::BadEncoding
        }
        CertificateError::Expired(validity) => TlsCertificateError::ExpiredContext {
            time: to_unix(validity.clock),
            not_after: to_unix(validity.not_after),
        },
        CertificateError::NotYetValid(validity) => TlsCertificateError::NotValidYetContext {
            time: to_unix(validity.clock),
            not_before: to_unix(validity.not_before),
        },
        CertificateError::Revoked { .. } => TlsCertificateError::Revoked,
        CertificateError::UnknownIssuer { .. } => TlsCertificateError::UnknownIssuer,
        CertificateError::Signature { .. } => TlsCertificateError::BadSignature,
        _ => TlsCertificateError::Other(OtherError(Arc::new(error))),
    };
    Error::InvalidCertificate(certificate)
}

/// What this crate had against the other side's certificate, when `error` (of rustls, or an
/// [`std::io::Error`] around it) came from there and rustls has no error of its own for it: a wrong
/// role, a name that does not fit, another peer than the one that was meant.
pub fn refusal<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a CertificateError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(refusal) = error.downcast_ref::<CertificateError>() {
            return Some(refusal);
        }
        next = match (error.downcast_ref::<Error>(), error.downcast_ref::<std::io::Error>()) {
            (Some(Error::InvalidCertificate(TlsCertificateError::Other(OtherError(inner)))), _) => {
                Some(inner.as_ref() as &(dyn std::error::Error + 'static))
            }
            (_, Some(io)) => io.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
            _ => error.source(),
        };
    }
    None
}
