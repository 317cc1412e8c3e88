//! What messaging needs to know about certificates.

use std::sync::Arc;

use tally_contracts::Name;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use crate::error::Cause;

/// The certificates of this node and how it judges those of others.
///
/// The configurations are asked for at every new connection, so an implementation may replace them while the
/// node runs (a new revocation list, a renewed certificate); connections made before end with
/// [`Messaging::renew`](crate::Messaging::renew).
///
/// Both configurations must demand and verify the other side's certificate and offer TLS 1.3 only. Messaging
/// switches session resumption off in both: a resumed session (RFC 8446, section 2.2) verifies no certificate,
/// so a peer could outlive its revocation by it.
pub trait Tls: Send + Sync + 'static {
    /// For connections from peers.
    fn server(&self) -> Arc<ServerConfig>;
    /// For connections to peers.
    fn client(&self) -> Arc<ClientConfig>;
    /// The TLS server name that a peer's certificate must be valid for.
    fn server_name(&self, peer: &Name) -> ServerName<'static>;
    /// The name that a verified chain (end entity first) speaks for.
    ///
    /// # Errors
    /// When the certificate names no member of the network; the text is shown to an operator.
    fn peer_name(&self, chain: &[CertificateDer<'_>]) -> Result<Name, Cause>;
}

/// The client configuration of the next connection.
pub(crate) fn client(tls: &dyn Tls) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&tls.client());
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// The server configuration of the next connection.
pub(crate) fn server(tls: &dyn Tls) -> Arc<ServerConfig> {
    let mut config = ServerConfig::clone(&tls.server());
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Arc::new(config)
}
