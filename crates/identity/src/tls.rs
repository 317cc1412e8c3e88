//! TLS 1.3 between nodes, and between a node and its clients.
//!
//! Between nodes both sides show a certificate for the role [`Role::Tls`], which must lead to the
//! network's root, be valid and not revoked; the client also sees that the server is the peer it
//! meant. Sessions between nodes are not resumed: a resumed one would be believed without its
//! certificate being looked at again. There is no early data (RFC 8446 section 8), which could be
//! replayed.

mod verifier;

use crate::certificate::{CertificateError, CertificatePath};
use crate::moment;
use crate::name;
use crate::node::Identity;
use crate::role::Role;
use crate::trust::Trust;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;
use tally_contracts::{Name, Timestamp};
use verifier::Verifier;

pub use verifier::refusal;

/// Application protocol (RFC 7301) of messages between nodes.
pub const PEER_PROTOCOL: &[u8] = b"tally-peer/1";
/// Application protocol of gRPC: HTTP/2.
pub const RPC_PROTOCOL: &[u8] = b"h2";

/// The configurations of one node's connections.
///
/// They hold the node's [`Trust`], so that a revocation list installed there counts from the next
/// handshake on; connections that stand already are to be checked with [`Tls::recheck`].
#[derive(Debug, Clone)]
pub struct Tls {
    trust: Trust,
    clock: Arc<dyn TimeProvider>,
    peer_server: Arc<ServerConfig>,
    peer_client: Arc<ClientConfig>,
    rpc_server: Arc<ServerConfig>,
}

impl Tls {
    /// The configurations of `identity`, by the operating system's clock.
    ///
    /// # Errors
    /// [`rustls::Error`] when the library refuses the key or the protocol version.
    pub fn new(identity: &Identity) -> Result<Self, rustls::Error> {
        Self::with_clock(identity, Arc::new(DefaultTimeProvider))
    }

    /// As [`Tls::new`], with a clock of the caller's.
    ///
    /// # Errors
    /// As [`Tls::new`].
    pub fn with_clock(identity: &Identity, clock: Arc<dyn TimeProvider>) -> Result<Self, rustls::Error> {
        let trust = identity.trust().clone();
        let own = || Arc::new(SingleCertAndKey::from(identity.tls_key().as_ref().clone()));
        let provider = provider();
        let verifier = Arc::new(Verifier::new(trust.clone(), &provider));

        let mut peer_server = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::clone(&clock))
            .with_protocol_versions(VERSIONS)?
            .with_client_cert_verifier(Arc::clone(&verifier) as _)
            .with_cert_resolver(own());
        peer_server.alpn_protocols = vec![PEER_PROTOCOL.to_vec()];
        peer_server.session_storage = Arc::new(NoServerSessionStorage {});
        peer_server.send_tls13_tickets = 0;
        peer_server.max_early_data_size = 0;

        let mut peer_client = ClientConfig::builder_with_details(Arc::clone(&provider), Arc::clone(&clock))
            .with_protocol_versions(VERSIONS)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(own());
        peer_client.alpn_protocols = vec![PEER_PROTOCOL.to_vec()];
        peer_client.resumption = Resumption::disabled();
        peer_client.enable_early_data = false;

        let mut rpc_server = ServerConfig::builder_with_details(provider, Arc::clone(&clock))
            .with_protocol_versions(VERSIONS)?
            .with_no_client_auth()
            .with_cert_resolver(own());
        rpc_server.alpn_protocols = vec![RPC_PROTOCOL.to_vec()];
        rpc_server.max_early_data_size = 0;

        Ok(Self {
            trust,
            clock,
            peer_server: Arc::new(peer_server),
            peer_client: Arc::new(peer_client),
            rpc_server: Arc::new(rpc_server),
        })
    }

    /// For connections that other nodes open to this one: both sides show a certificate.
    pub fn peer_server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.peer_server)
    }

    /// For connections that this node opens to others: both sides show a certificate. The server
    /// name to expect is [`server_name`](crate::server_name) of the peer.
    pub fn peer_client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.peer_client)
    }

    /// For connections of this node's clients, who show no certificate but a password.
    pub fn rpc_server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.rpc_server)
    }

    /// Checks the certificates of a connection that stands already: whether they would still be
    /// believed now, after a new revocation list or by the time.
    ///
    /// # Errors
    /// [`CertificateError`]: close the connection.
    pub fn recheck(&self, certificates: &[CertificateDer<'_>]) -> Result<Name, CertificateError> {
        let path = CertificatePath::parse(certificates)?;
        let now = self.clock.current_time().map_or(Timestamp::from_millis(0), moment::from_unix);
        Ok(self.trust.verify(&path, Role::Tls, now)?.name)
    }
}

/// For clients of the node `expected`: trusts `trust`'s root, shows no certificate. The server
/// name to connect to is [`server_name`](crate::server_name) of the node, whatever its address.
///
/// # Errors
/// [`rustls::Error`] when the library refuses the protocol version.
pub fn rpc_client(trust: &Trust) -> Result<Arc<ClientConfig>, rustls::Error> {
    rpc_client_with_clock(trust, Arc::new(DefaultTimeProvider))
}

/// As [`rpc_client`], with a clock of the caller's.
///
/// # Errors
/// As [`rpc_client`].
pub fn rpc_client_with_clock(
    trust: &Trust,
    clock: Arc<dyn TimeProvider>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = provider();
    let verifier = Arc::new(Verifier::new(trust.clone(), &provider));
    let mut config = ClientConfig::builder_with_details(provider, clock)
        .with_protocol_versions(VERSIONS)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![RPC_PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    Ok(Arc::new(config))
}

/// The name in certificates that a finished handshake has verified (the peer's own first).
///
/// # Errors
/// [`CertificateError`] when they are not the path of a TLS certificate; this checks no signature.
pub fn peer_name(certificates: &[CertificateDer<'_>]) -> Result<Name, CertificateError> {
    let path = CertificatePath::parse(certificates)?;
    let leaf = path.leaf();
    if leaf.role() != Role::Tls {
        return Err(CertificateError::WrongRole {
            subject: leaf.subject().clone(),
            expected: Role::Tls,
            found: leaf.role(),
        });
    }
    Ok(leaf.subject().clone())
}

static VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Whether `server` is the host name of `name`.
fn is_host(name: &Name, server: &ServerName<'_>) -> bool {
    matches!(server, ServerName::DnsName(host) if host.as_ref().eq_ignore_ascii_case(&name::host(name)))
}

fn timestamp(now: UnixTime) -> Timestamp {
    moment::from_unix(now)
}

#[cfg(test)]
mod tests;
