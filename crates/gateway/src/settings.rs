//! How a gateway behaves: what its operator sets.

use crate::access::AuditLog;
use crate::references::References;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use utoipa::ToSchema;

/// What a gateway is told by its operator.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How it answers over HTTP.
    pub http: HttpSection,
    /// How payment messages are read.
    pub messages: MessagesSection,
    /// By participant id.
    pub institutions: Vec<Institution>,
    /// With which it serves; without it, on loopback only.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Settings {
    /// Whether it may listen on that address: others than this machine reach it with TLS only.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_listen(&self, address: SocketAddr) -> Result<(), NoTls> {
        if self.tls.is_none() && !address.ip().is_loopback() { Err(NoTls(address)) } else { Ok(()) }
    }

    /// The scheme of its URL.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Others than this machine could reach a gateway, and there is no TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0} is not on loopback, and there is no TLS: set http.tls.certificate and http.tls.key in network.toml"
)]
pub struct NoTls(pub SocketAddr);

/// What only a gateway needs to know of a participant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Institution {
    /// What it is.
    pub kind: ParticipantKind,
    /// The alias of the account that payments without an account go to or come from; without it they are
    /// refused.
    pub unidentified_account: Option<String>,
}

/// What happens when a message's control sum does not fit its payments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlSum {
    /// The message is refused with AM10.
    #[default]
    Check,
    /// The payments are made all the same.
    Ignore,
}

/// `[messages]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessagesSection {
    /// See [`ControlSum`].
    pub control_sum: ControlSum,
}

/// `[http]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSection {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The largest request body, in bytes.
    pub max_body_bytes: usize,
    /// How long a client may take to send its request.
    pub request_timeout_ms: u64,
    /// How long a request waits for durable outcomes before it says that they are pending.
    pub answer_timeout_ms: u64,
    /// How many connections are served at once.
    pub max_connections: usize,
    /// Who may come in; a relative name is in the network's directory.
    pub access: PathBuf,
    /// Where administrative acts are recorded; a relative name is in the network's directory.
    pub audit: PathBuf,
    /// The secret from which references are derived, the same at all gateways of a network; a relative name is in the
    /// network's directory.
    pub references: PathBuf,
    /// With what to serve TLS; without it, on loopback only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSection>,
}

/// `[http.tls]`: files in PEM form; relative names are in the network's directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// The server's certificate, with those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of the authorities whose client certificates are taken; without them, tokens alone are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<PathBuf>,
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            max_body_bytes: 32 << 20,
            request_timeout_ms: 10_000,
            answer_timeout_ms: 30_000,
            max_connections: 1024,
            access: PathBuf::from("access.toml"),
            audit: PathBuf::from(AuditLog::FILE),
            references: PathBuf::from(References::FILE),
            tls: None,
        }
    }
}

/// What a participant is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParticipantKind {
    /// Issues central-bank money; the others hold settlement accounts there.
    CentralBank,
    /// A commercial bank.
    Bank,
    /// Issues e-money.
    EMoneyIssuer,
    /// Holds securities; the others hold settlement accounts in them there.
    Depository,
}
