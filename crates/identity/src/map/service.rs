//! The network map as a service over HTTP.
//!
//! | request | answer |
//! | --- | --- |
//! | `POST /v1/node-infos` | takes a node's info; 200, or why not |
//! | `GET /v1/index` | the hash (BLAKE3) of everything the map holds, with number and time, signed by the network map's key |
//! | `GET /v1/objects/{hash}` | what has that hash: revocation lists, parameters, node infos, certificates |
//!
//! Everything is signed, and whoever asks verifies it; the index says of what age it is. So over plain
//! HTTP somebody on the way can withhold, and read who asks for what; over TLS, read no more. A refusal is JSON:
//! `{"code": .., "message": ..}`.

use super::index::{Index, SignedIndex};
use super::secured::{self, Secured};
use super::{MapError, NetworkMap};
use crate::authority::NetworkMapKey;
use crate::files::FileError;
use crate::info::{InfoError, MAX_NODE_INFO_BYTES, SignedNodeInfo};
use crate::pem;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tally_contracts::Timestamp;
use tally_crypto::Hash;

/// An index is signed anew when its contents change, and when it is of this age.
const INDEX_AGE_MS: u64 = 60 * 1000;
/// How often an index request may have the folder read again.
const RESCAN: Duration = Duration::from_secs(1);

/// Why the service refuses.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
}

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone)]
struct Service {
    map: Arc<NetworkMap>,
    clock: Clock,
    key: Arc<NetworkMapKey>,
    told: Arc<Mutex<Told>>,
}

/// What was told last.
#[derive(Default)]
struct Told {
    scanned: Option<Instant>,
    index: Option<SignedIndex>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("map", &self.map).finish_non_exhaustive()
    }
}

/// The service's routes over `map`, which is one [from a folder](NetworkMap::from_folder); `key`
/// signs what it tells. What is changed in the folder (new parameters, a new revocation list) is
/// seen within a second of a request for the index.
pub fn router(map: Arc<NetworkMap>, key: Arc<NetworkMapKey>, clock: Clock) -> Router {
    Router::new()
        .route("/v1/node-infos", post(publish))
        .route("/v1/index", get(index))
        .route("/v1/objects/{hash}", get(object))
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "not-found", "there is nothing at this path") })
        .layer(DefaultBodyLimit::max(MAX_NODE_INFO_BYTES))
        .with_state(Service { map, clock, key, told: Arc::default() })
}

/// Answers requests at `listener` until `shutdown` is ready, then lets those in progress end.
///
/// # Errors
/// [`std::io::Error`] of the listener.
pub async fn serve(
    listener: tokio::net::TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(shutdown).await
}

/// What a service needs for TLS: files of its certificates and of their key (PEM). The key's file has mode 0600.
///
/// # Errors
/// [`MapError::Tls`] and [`MapError::File`] when one is of no use.
pub fn tls(certificates: &std::path::Path, key: &std::path::Path) -> Result<Arc<ServerConfig>, MapError> {
    secured::configuration(certificates, key)
}

/// As [`serve`], over TLS 1.3.
///
/// # Errors
/// [`std::io::Error`] of the listener.
pub async fn serve_over_tls(
    listener: tokio::net::TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(Secured::new(listener, tls)?, router).with_graceful_shutdown(shutdown).await
}

async fn publish(State(service): State<Service>, body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too-large",
                &format!("a node info has at most {MAX_NODE_INFO_BYTES} bytes"),
            );
        }
        Err(error) => return refuse(StatusCode::BAD_REQUEST, "unreadable", &error.body_text()),
    };
    blocking(move || {
        let now = (service.clock)();
        let published = SignedNodeInfo::decode(&body)
            .map_err(MapError::from)
            .and_then(|info| service.map.publish(&info, now));
        match published {
            Ok(()) => StatusCode::OK.into_response(),
            Err(error) => refuse_map(&error),
        }
    })
    .await
}

async fn index(State(service): State<Service>) -> Response {
    blocking(move || {
        let now = (service.clock)();
        let mut told = service.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.scanned.is_none_or(|scanned| scanned.elapsed() >= RESCAN) {
            told.scanned = Some(Instant::now());
            // What is known stays in force when the folder is refused; clients verify it themselves.
            if let Err(error) = service.map.refresh(now) {
                return refuse_map(&error);
            }
        }
        let contents = service.map.snapshot().contents();
        let last = told.index.as_ref().map(SignedIndex::unverified);
        let age = |index: &Index| now.as_millis().abs_diff(index.made.as_millis());
        if last.is_none_or(|last| last.contents != contents || age(last) >= INDEX_AGE_MS) {
            // The time as a number: it is higher after a restart as well.
            let number = last.map_or(0, |last| last.number + 1).max(now.as_millis());
            told.index = Some(SignedIndex::sign(&service.key, Index { number, made: now, contents }));
        }
        send(Ok(told.index.as_ref().map(SignedIndex::encode).unwrap_or_default()))
    })
    .await
}

async fn object(State(service): State<Service>, Path(hash): Path<String>) -> Response {
    let Ok(hash) = hash.parse::<Hash>() else {
        return refuse(StatusCode::BAD_REQUEST, "not-a-hash", "a hash has 64 hexadecimal digits");
    };
    blocking(move || {
        let snapshot = service.map.snapshot();
        if let Some(bytes) = snapshot.source(&hash) {
            return send(Ok(bytes.to_vec()));
        }
        if let Some(path) = snapshot.path(&hash) {
            return send(Ok(pem::encode_path(path).into_bytes()));
        }
        let unknown = || refuse(StatusCode::NOT_FOUND, "unknown", "there is nothing of this hash");
        let Some(name) = snapshot.name_of_hash(&hash) else { return unknown() };
        match service.map.folder().info(name) {
            // Replaced since the snapshot was taken, or under another file name.
            Ok(bytes) if tally_crypto::hash(&bytes) != hash => unknown(),
            Err(error) if error.is_missing() => unknown(),
            bytes => send(bytes),
        }
    })
    .await
}

fn send(bytes: Result<Vec<u8>, FileError>) -> Response {
    match bytes {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response(),
        Err(error) => refuse_map(&error.into()),
    }
}

/// Files are read and written off the threads that serve connections.
async fn blocking(work: impl FnOnce() -> Response + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(response) => response,
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the service stopped this request"),
    }
}

fn refuse(status: StatusCode, code: &str, message: &str) -> Response {
    (status, axum::Json(Refusal { code: code.into(), message: message.into() })).into_response()
}

fn refuse_map(error: &MapError) -> Response {
    match error {
        MapError::Info(refusal) => refuse(StatusCode::UNPROCESSABLE_ENTITY, code(refusal), &reasons(refusal)),
        // The service's own trouble; paths of its machine are none of the client's business.
        _ => {
            refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the network map's own files are refused")
        }
    }
}

/// The stable code of a refusal.
fn code(error: &InfoError) -> &'static str {
    use crate::CertificateError as C;
    match error {
        InfoError::TooLarge { .. } => "too-large",
        InfoError::Malformed(_) => "malformed",
        InfoError::Address(_) | InfoError::AddressCount { .. } => "address",
        InfoError::PartyMismatch { .. } => "party-mismatch",
        InfoError::Signature { .. } => "signature",
        InfoError::Older { .. } => "older",
        InfoError::NotaryMismatch { .. } => "notary-mismatch",
        InfoError::NotarySignature { .. } => "notary-signature",
        InfoError::TooManyKeys { .. } => "too-many-keys",
        InfoError::FormerKey { .. } => "former-key",
        InfoError::KeyOfAnother { .. } => "key-of-another",
        InfoError::PlatformVersion { .. } => "platform-version",
        InfoError::Certificate(error) => match error {
            C::Expired(_) => "certificate-expired",
            C::NotYetValid(_) => "certificate-not-yet-valid",
            C::Revoked { .. } => "certificate-revoked",
            C::UnknownIssuer { .. } | C::Signature { .. } => "certificate-foreign",
            C::WrongRole { .. } => "certificate-role",
            _ => "certificate",
        },
    }
}

/// An error with its causes.
fn reasons(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
