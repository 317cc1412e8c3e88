//! What messaging needs to know about certificates.

use std::sync::Arc;

use tally_contracts::Name;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use crate::error::Cause;

/// The certificates of this node and how it judges those of others.
///
/// The configurations are asked for at every new connection, so an implementation may replace them while the
/// node runs (a new revocation list, a renewed certificate); connections made before end with
/// [`Messaging::renew`](crate::Messaging::renew).
///
/// Both configurations must demand and verify the other side's certificate and offer TLS 1.3 only.
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
