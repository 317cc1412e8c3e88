//! Asking a network map service.

use super::MapError;
use super::index::{MAX_INDEX_BYTES, SignedIndex};
use super::service::Refusal;
use crate::files::{self, Access};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tally_crypto::Hash;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REFUSAL_BYTES: usize = 64 * 1024;
const MAX_AUTHORITIES_BYTES: usize = 1024 * 1024;

/// A connection to a network map service.
#[derive(Debug)]
pub(super) struct Client {
    url: String,
    agent: Agent,
}

impl Client {
    /// `authorities` is a PEM file of who certifies the service, for `https` and for that alone.
    pub(super) fn new(url: &str, authorities: Option<&Path>) -> Result<Self, MapError> {
        let scheme = if authorities.is_some() { "https://" } else { "http://" };
        let host = url.trim_end_matches('/').strip_prefix(scheme);
        if !host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '@', '?', '#', ' '])) {
            return Err(MapError::Url { url: url.into() });
        }
        let mut config = Agent::config_builder();
        if let Some(path) = authorities {
            config = config.tls_config(tls(path)?).https_only(true);
        }
        let agent = config
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .new_agent();
        Ok(Self { url: url.trim_end_matches('/').into(), agent })
    }

    /// The signed index of everything that the service holds.
    pub(super) fn index(&self) -> Result<SignedIndex, MapError> {
        Ok(SignedIndex::decode(&self.get("index", MAX_INDEX_BYTES)?)?)
    }

    /// What has that hash, of `limit` bytes at most.
    pub(super) fn object(&self, hash: Hash, limit: usize) -> Result<Vec<u8>, MapError> {
        let path = format!("objects/{hash}");
        let bytes = self.get(&path, limit)?;
        if tally_crypto::hash(&bytes) == hash {
            return Ok(bytes);
        }
        Err(MapError::Answer { url: self.address(&path), reason: "the bytes have another hash".into() })
    }

    pub(super) fn publish(&self, info: &[u8]) -> Result<(), MapError> {
        let url = self.address("node-infos");
        let response = self.agent.post(&url).content_type("application/octet-stream").send(info);
        self.answer(url, response, MAX_REFUSAL_BYTES).map(drop)
    }

    fn get(&self, path: &str, limit: usize) -> Result<Vec<u8>, MapError> {
        let url = self.address(path);
        let response = self.agent.get(&url).call();
        self.answer(url, response, limit)
    }

    fn answer(
        &self,
        url: String,
        response: Result<Response<Body>, ureq::Error>,
        limit: usize,
    ) -> Result<Vec<u8>, MapError> {
        let unreachable = |source| MapError::Unreachable { url: url.clone(), source: Box::new(source) };
        let mut response = response.map_err(unreachable)?;
        let status = response.status().as_u16();
        let success = response.status().is_success();
        let limit = if success { limit } else { MAX_REFUSAL_BYTES };
        let read =
            response.body_mut().with_config().limit(u64::try_from(limit).unwrap_or(u64::MAX)).read_to_vec();
        let bytes = match read {
            Err(ureq::Error::BodyExceedsLimit(limit)) => {
                return Err(MapError::Answer { url, reason: format!("more than {limit} bytes") });
            }
            read => read.map_err(unreachable)?,
        };
        if success {
            return Ok(bytes);
        }
        let Refusal { code, message } = serde_json::from_slice(&bytes).unwrap_or_else(|_| Refusal {
            code: "unknown".into(),
            message: "the answer does not say why".into(),
        });
        Err(MapError::Refused { status, code, message })
    }

    fn address(&self, path: &str) -> String {
        format!("{}/v1/{path}", self.url)
    }
}

/// Believes the authorities of a PEM file, and no others.
fn tls(path: &Path) -> Result<TlsConfig, MapError> {
    let refuse = |reason: String| MapError::Tls { path: path.into(), reason };
    let pem = files::read(path, MAX_AUTHORITIES_BYTES, Access::Public)?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| refuse(error.to_string()))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(refuse("it has no certificate".into()));
    }
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .build())
}
