//! TLS 1.3 (RFC 8446) between throw-away keys: secrecy and integrity; the [handshake](crate::handshake)
//! inside proves who the nodes are, so there are no certificates to administer.
//!
//! The server shows a raw public key (RFC 7250) that is made when the process starts and that the
//! client believes whatever it is; the client shows none. No early data (section 8) and no resumption:
//! each session has a key exchange of its own, and an exporter value that was never there before.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use std::sync::Arc;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use tokio_rustls::rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, PeerIncompatible, ServerConfig, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The name of the protocol inside (RFC 7301).
const PROTOCOL: &[u8] = b"tally-chain/1";
/// RFC 9266 section 4.2: no context, 32 bytes.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// Both sides' configurations of one process.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) connector: TlsConnector,
}

impl Tls {
    /// Makes the process's throw-away key.
    pub(crate) fn new() -> Result<Self, TlsError> {
        let mut provider = tokio_rustls::rustls::crypto::ring::default_provider();
        // 128 bits come first: the proof of the node's key has no more, and it costs less.
        provider.cipher_suites =
            vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
        let provider = Arc::new(provider);
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
            .map_err(|_| TlsError::Key)?;
        let key = PrivatePkcs8KeyDer::from(document.as_ref().to_vec());
        let key = provider.key_provider.load_private_key(key.into())?;
        let public = key.public_key().ok_or(TlsError::Key)?;
        let shown = CertifiedKey::new(vec![CertificateDer::from(public.to_vec())], key);

        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(shown))));
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.max_early_data_size = 0;

        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyKey(provider)))
            .with_no_client_auth();
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        client.enable_early_data = false;
        client.enable_sni = false;
        Ok(Self { acceptor: Arc::new(server).into(), connector: Arc::new(client).into() })
    }

    /// A name where the library wants one; it is not sent.
    pub(crate) fn server_name() -> ServerName<'static> {
        ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into())
    }
}

/// The value that both ends of a session have and nobody else.
pub(crate) fn exporter<Data>(
    connection: &tokio_rustls::rustls::ConnectionCommon<Data>,
) -> Result<[u8; 32], Error> {
    connection.export_keying_material([0; 32], EXPORTER_LABEL, None)
}

/// Believes any key that has signed the TLS handshake.
#[derive(Debug)]
struct AnyKey(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
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
        let key = SubjectPublicKeyInfoDer::from(certificate.as_ref());
        verify_tls13_signature_with_raw_key(
            message,
            &key,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No throw-away key could be made.
    #[error("no key for TLS could be made")]
    Key,
    /// The library refused the configuration.
    #[error("TLS could not be set up")]
    Library(#[from] Error),
}
