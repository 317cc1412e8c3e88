//! Health and metrics over HTTP, for those who watch the node.

mod listener;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::core::Core;
use crate::metrics::ClientMeters;
use listener::Limited;
pub(crate) use listener::Limits;

/// How long the database has to answer before the node counts as not ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// What an operator is warned of, in lines.
pub(crate) type Warnings = Arc<dyn Fn() -> String + Send + Sync>;

/// Why the node takes no new work until that is over, if so.
pub(crate) type Barred = Arc<dyn Fn() -> Option<String> + Send + Sync>;

#[derive(Clone)]
struct Seen {
    core: Arc<Core>,
    clients: ClientMeters,
    ready: Arc<AtomicBool>,
    warnings: Warnings,
    barred: Barred,
}

/// Serves `/health` (the process lives), `/ready` (it takes work, with warnings of what runs out soon; otherwise 503 and why not) and `/metrics`
/// (OpenMetrics); answers where it listens.
pub(crate) async fn serve(
    address: SocketAddr,
    limits: Limits,
    core: Arc<Core>,
    clients: ClientMeters,
    ready: Arc<AtomicBool>,
    warnings: Warnings,
    barred: Barred,
) -> std::io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let routes = Router::new()
        .route("/health", get(|| async { "alive\n" }))
        .route("/ready", get(is_ready))
        .route("/metrics", get(metrics))
        .with_state(Seen { core, clients, ready, warnings, barred });
    tokio::spawn(async move {
        if let Err(error) = axum::serve(Limited::new(listener, limits), routes).await {
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
    if let Some(reason) = (seen.barred)() {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n"));
    }
    let drain = seen.core.engine().drained();
    if drain.draining {
        let under_way = drain.under_way;
        return (StatusCode::SERVICE_UNAVAILABLE, format!("draining: {under_way} flows are under way\n"));
    }
    if let Some(reason) = seen.core.cluster_failure() {
        let text = format!("the node's member of the clustered notary has ended: {reason}\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text);
    }
    if let Err(error) = seen.core.available() {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"));
    }
    let (answer, answered) = oneshot::channel();
    seen.core.probe(move |result| drop(answer.send(result)));
    match timeout(PATIENCE, answered).await {
        Ok(Ok(Ok(()))) => (StatusCode::OK, format!("ready\n{}", (seen.warnings)())),
        Ok(Ok(Err(reason))) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the node cannot use its database: {reason}\n"))
        }
        Ok(Err(_)) => (StatusCode::SERVICE_UNAVAILABLE, "the node stops\n".to_owned()),
        Err(_) => {
            let text = format!("the node's database has not answered within {} s\n", PATIENCE.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

async fn metrics(State(seen): State<Seen>) -> impl IntoResponse {
    seen.core.measure();
    seen.clients.measure();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], seen.core.meters().registry().render())
}
