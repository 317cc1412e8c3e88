//! The network over HTTP on loopback: small, versioned, and the seam of the full gateway.
//!
//! | request | answer |
//! | --- | --- |
//! | `POST /v1/iso20022/prepare` | a payment message → a draft to sign for each payment, or its refusal |
//! | `POST /v1/iso20022/submit` | the message with its signed drafts → pacs.002, after durable outcomes |
//! | `POST /v1/transactions` | a signed batch → outcomes |
//! | `GET /v1/transactions/{uetr or id}` | the outcome |
//! | `GET /v1/transactions/{uetr}/receipt` | proof of the outcome: from the id to the signed tree head |
//! | `GET /v1/transactions/{uetr or id}/proof?legs=BIC,…` | proof for others: what the id commits to, the receipt, who approved; shows those institutions' legs |
//! | `POST /v1/accounts` | signed account orders → outcomes |
//! | `GET /v1/accounts/{bic}`, `…/{account}`, `…/{account}/statement` | books, balance, entries; not older than the question, or with `?consistency=local` as known here |
//! | `GET /v1/network`, `GET /v1/tree-head` | who takes part and totals; the signed head of the Merkle log |
//! | `GET /v1/tree-head/consistency?first=N&second=M` | proof that the log of M records extends that of N (RFC 9162, section 2.1.4) |
//! | `GET /health`, `GET /metrics` | for operators |
//!
//! A slow client costs one of a bounded number of connections for a bounded time, and nothing else.

mod accounts;
mod failure;
mod messages;
mod metrics;
mod network;
mod outcome;
mod transactions;

use crate::configuration::Configuration;
use anyhow::Context;
use axum::Router;
use axum::extract::{FromRequest, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use failure::Failure;
use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use metrics::Metrics;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tally_ops::shutdown::Shutdown;
use tally_settlement::desk::Settlement;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long open requests may take once the network is asked to stop.
const GRACE: Duration = Duration::from_secs(10);
/// How long one connection is kept at most, so that a client that does not read its answers lets go.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(300);
/// Questions that read the journal, at once.
const MAX_LOOKUPS: usize = 2;
/// Questions at once that wait until what others told shows here.
const MAX_WAITS: usize = 128;
/// How long it may take to learn whether there is anything newer.
const CATCH_UP: Duration = Duration::from_secs(5);
/// Requests that wait for outcomes, at once.
const MAX_WAITING: usize = 256;

/// Bytes of all requests' bodies together, at once.
const MAX_BODIES: usize = 256 << 20;

struct App {
    desk: Arc<dyn Settlement>,
    configuration: Configuration,
    metrics: Metrics,
    lookups: Semaphore,
    waits: Semaphore,
    /// Memory for the bodies of requests, in bytes.
    bodies: Arc<Semaphore>,
}

/// Answers on `listener` for `desk` until shutdown is requested and what was asked before is answered.
///
/// # Errors
/// When the runtime cannot be set up.
pub fn serve(
    listener: TcpListener,
    desk: Arc<impl Settlement + 'static>,
    configuration: Configuration,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    listener.set_nonblocking(true).context("cannot set the listener up")?;
    let app = Arc::new(App {
        desk,
        metrics: Metrics::new()?,
        lookups: Semaphore::new(MAX_LOOKUPS),
        waits: Semaphore::new(MAX_WAITS),
        bodies: Arc::new(Semaphore::new(MAX_BODIES.max(configuration.http.max_body_bytes))),
        configuration,
    });
    // The stages have threads of their own; these only pass bytes. Dropping the runtime waits for requests
    // that still wait for outcomes, which is bounded.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(MAX_WAITING)
        .thread_name("http")
        .enable_io()
        .enable_time()
        .build()
        .context("cannot start the HTTP threads")?;
    runtime.block_on(accept(listener, app, shutdown.clone()))
}

async fn accept(listener: TcpListener, app: Arc<App>, shutdown: Shutdown) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener).context("cannot listen")?;
    let http = app.configuration.http.clone();
    let places = Arc::new(Semaphore::new(http.max_connections));
    let service = TowerToHyperService::new(router(app));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(tokio::task::spawn_blocking(move || shutdown.wait()));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place.context("the semaphore is never closed")?,
            _ = &mut stop => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, or the client left already: neither is a reason to stop.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(http.request_timeout_ms))
            .serve_connection(TokioIo::new(stream), service.clone());
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // How a connection ended is its client's business.
            let _ = tokio::time::timeout(MAX_CONNECTION_AGE, connection).await;
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(GRACE, graceful.shutdown()).await;
    Ok(())
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/iso20022/prepare", post(messages::prepare))
        .route("/v1/iso20022/submit", post(messages::submit))
        .route("/v1/transactions", post(transactions::submit))
        .route("/v1/transactions/{uetr}", get(transactions::status))
        .route("/v1/transactions/{uetr}/receipt", get(transactions::receipt))
        .route("/v1/transactions/{uetr}/proof", get(transactions::proof))
        .route("/v1/accounts", post(transactions::order))
        .route("/v1/accounts/{bic}", get(accounts::books))
        .route("/v1/accounts/{bic}/{account}", get(accounts::account))
        .route("/v1/accounts/{bic}/{account}/statement", get(accounts::statement))
        .route("/v1/network", get(network::network))
        .route("/v1/tree-head", get(network::tree_head))
        .route("/v1/tree-head/consistency", get(network::consistency))
        .route("/health", get(network::health))
        .route("/metrics", get(metrics::metrics))
        .fallback(async || Failure::not_found("there is nothing at this path"))
        .method_not_allowed_fallback(async || Failure::new(405, "method", "this path has another method"))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), count))
        .with_state(app)
}

async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.metrics.answered(response.status().as_u16());
    response
}

/// The body of a request, within the limits of size and time.
struct Body {
    bytes: Vec<u8>,
    /// Its share of the memory for bodies.
    _memory: Option<OwnedSemaphorePermit>,
}

impl FromRequest<Arc<App>> for Body {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        let limit = Duration::from_millis(app.configuration.http.request_timeout_ms);
        tokio::time::timeout(limit, read_body(request, app))
            .await
            .unwrap_or_else(|_| Err(Failure::new(408, "timeout", "the request's body did not come in time")))
    }
}

/// Memory is counted as bytes arrive, so that a client that announces much and sends little takes little.
async fn read_body(request: Request, app: &App) -> Result<Body, Failure> {
    let most = app.configuration.http.max_body_bytes;
    let mut body = Body { bytes: Vec::new(), _memory: None };
    let mut stream = request.into_body();
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(|_| Failure::new(400, "FF01", "the request's body cannot be read"))?;
        let Some(data) = frame.data_ref() else { continue };
        if body.bytes.len().saturating_add(data.len()) > most {
            return Err(Failure::new(413, "FF01", format!("the request is larger than {most} bytes")));
        }
        let busy = |_| Failure::new(503, "AB10", "the network is busy; send it again later");
        let share = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let memory = Arc::clone(&app.bodies).try_acquire_many_owned(share).map_err(busy)?;
        match &mut body._memory {
            Some(held) => held.merge(memory),
            none => *none = Some(memory),
        }
        body.bytes.extend_from_slice(data);
    }
    Ok(body)
}

impl App {
    fn answer_timeout(&self) -> Duration {
        Duration::from_millis(self.configuration.http.answer_timeout_ms)
    }

    /// Waits until what others told shows here.
    fn catch_up(&self) -> Result<(), Failure> {
        Ok(self.desk.catch_up(CATCH_UP)?)
    }
}

/// Runs what waits or computes for long off the threads that pass bytes.
async fn blocking<T: Send + 'static>(
    app: Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(move || work(&app)).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request failed");
        Err(Failure::new(500, "failed", "the request could not be answered; see the network's log"))
    })
}

/// As [`blocking`], for what reads the journal: only so many at once, or questions would slow payments down.
async fn looking_up<T: Send + 'static>(
    app: Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let keeper = Arc::clone(&app);
    let _place = keeper.lookups.acquire().await.map_err(stops)?;
    blocking(app, work).await
}

/// As [`blocking`], for what may wait for others: only so many at once, or it would take the threads of payments.
async fn catching_up<T: Send + 'static>(
    app: Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let keeper = Arc::clone(&app);
    let _place = keeper.waits.acquire().await.map_err(stops)?;
    blocking(app, work).await
}

fn stops(_: tokio::sync::AcquireError) -> Failure {
    Failure::new(503, "busy", "the network stops")
}
