//! Health and metrics over HTTP, for those who watch the node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::core::Core;
use crate::metrics::ClientMeters;

#[derive(Clone)]
struct Seen {
    core: Arc<Core>,
    clients: ClientMeters,
    ready: Arc<AtomicBool>,
}

/// Serves `/health` (the process lives), `/ready` (it takes work; otherwise 503 and why not) and `/metrics`
/// (OpenMetrics); answers where it listens.
pub(crate) async fn serve(
    address: SocketAddr,
    core: Arc<Core>,
    clients: ClientMeters,
    ready: Arc<AtomicBool>,
) -> std::io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let routes = Router::new()
        .route("/health", get(|| async { "alive\n" }))
        .route("/ready", get(is_ready))
        .route("/metrics", get(metrics))
        .with_state(Seen { core, clients, ready });
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "health and metrics are served no longer");
        }
    });
    Ok(address)
}

async fn is_ready(State(seen): State<Seen>) -> impl IntoResponse {
    if !seen.ready.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting\n".to_owned());
    }
    if let Some(reason) = seen.core.recovery() {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("needs recovery: {reason}\n"));
    }
    match seen.core.available() {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

async fn metrics(State(seen): State<Seen>) -> impl IntoResponse {
    seen.core.measure();
    seen.clients.measure();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], seen.core.meters().registry().render())
}
