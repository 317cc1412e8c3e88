//! The network map as a service over HTTP.
//!
//! | request | answer |
//! | --- | --- |
//! | `POST /v1/node-infos` | takes a node's info; 200, or why not |
//! | `GET /v1/node-infos` | `{"hashes": [..]}`: BLAKE3 of every info, by the nodes' names |
//! | `GET /v1/node-infos/{hash}` | that info |
//! | `GET /v1/former` | `{"hashes": [..]}`: BLAKE3 of the certificates of every identity that left or has another key |
//! | `GET /v1/former/{hash}` | these certificates (PEM) |
//! | `GET /v1/parameters` | the signed network parameters |
//! | `GET /v1/manager`, `GET /v1/revoked` | the identity manager's certificate (PEM), its revocation list (DER) |
//!
//! Everything is signed, and whoever asks verifies it, so plain HTTP does no harm beyond what someone
//! on the way can do anyway: withhold. A refusal is JSON: `{"code": .., "message": ..}`.

use super::{MapError, NetworkMap};
use crate::files::FileError;
use crate::info::{InfoError, MAX_NODE_INFO_BYTES, SignedNodeInfo};
use crate::pem;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tally_contracts::Timestamp;
use tally_crypto::Hash;

/// How often a list request may have the folder read again.
const RESCAN: Duration = Duration::from_secs(1);

/// Hashes of node infos.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hashes {
    pub(super) hashes: Vec<Hash>,
}

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
    scanned: Arc<Mutex<Option<Instant>>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("map", &self.map).finish_non_exhaustive()
    }
}

/// The service's routes over `map`, which is one [from a folder](NetworkMap::from_folder). What is
/// changed in the folder (new parameters, a new revocation list) is seen within a second of a
/// request for the list.
pub fn router(map: Arc<NetworkMap>, clock: Clock) -> Router {
    Router::new()
        .route("/v1/node-infos", get(list).post(publish))
        .route("/v1/node-infos/{hash}", get(info))
        .route("/v1/former", get(former))
        .route("/v1/former/{hash}", get(former_path))
        .route("/v1/parameters", get(|state: State<Service>| file(state, Kind::Parameters)))
        .route("/v1/manager", get(|state: State<Service>| file(state, Kind::Manager)))
        .route("/v1/revoked", get(|state: State<Service>| file(state, Kind::Revoked)))
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "not-found", "there is nothing at this path") })
        .layer(DefaultBodyLimit::max(MAX_NODE_INFO_BYTES))
        .with_state(Service { map, clock, scanned: Arc::new(Mutex::new(None)) })
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

async fn list(State(service): State<Service>) -> Response {
    blocking(move || {
        let due = {
            let mut scanned = service.scanned.lock().unwrap_or_else(PoisonError::into_inner);
            let due = scanned.is_none_or(|scanned| scanned.elapsed() >= RESCAN);
            if due {
                *scanned = Some(Instant::now());
            }
            due
        };
        // What is known stays in force when the folder is refused; clients verify it themselves.
        if due && let Err(error) = service.map.refresh((service.clock)()) {
            return refuse_map(&error);
        }
        axum::Json(Hashes { hashes: service.map.snapshot().hashes().collect() }).into_response()
    })
    .await
}

async fn info(State(service): State<Service>, Path(hash): Path<String>) -> Response {
    let Ok(hash) = hash.parse::<Hash>() else {
        return refuse(StatusCode::BAD_REQUEST, "not-a-hash", "a hash has 64 hexadecimal digits");
    };
    blocking(move || {
        let unknown = || refuse(StatusCode::NOT_FOUND, "unknown-info", "there is no node info of this hash");
        let snapshot = service.map.snapshot();
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

async fn former(State(service): State<Service>) -> Response {
    axum::Json(Hashes { hashes: service.map.snapshot().former().collect() }).into_response()
}

async fn former_path(State(service): State<Service>, Path(hash): Path<String>) -> Response {
    let Ok(hash) = hash.parse::<Hash>() else {
        return refuse(StatusCode::BAD_REQUEST, "not-a-hash", "a hash has 64 hexadecimal digits");
    };
    match service.map.snapshot().path(&hash) {
        Some(path) => send(Ok(pem::encode_path(path).into_bytes())),
        None => refuse(StatusCode::NOT_FOUND, "unknown-path", "there are no certificates of this hash"),
    }
}

/// The files that are sent as they are.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Parameters,
    Manager,
    Revoked,
}

async fn file(State(service): State<Service>, kind: Kind) -> Response {
    blocking(move || {
        let folder = service.map.folder();
        send(match kind {
            Kind::Parameters => folder.parameters(),
            Kind::Manager => folder.manager(),
            Kind::Revoked => folder.revocations(),
        })
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
