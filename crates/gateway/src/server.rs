//! The network over HTTP, version 1, and over gRPC ([`crate::grpc`]). [`document`] makes the OpenAPI document from the handlers; a server gives it at
//! `/openapi.json`.
//!
//! Everything but `/health`, `/ready` and the document wants a user, see [`crate::access`]. A slow client costs one of a bounded
//! number of connections for a bounded time, and nothing else.

mod accounts;
mod asked;
mod body;
mod caller;
mod cancellation;
mod closed;
mod connection;
mod descriptors;
pub(crate) mod document;
mod etag;
mod events;
mod failure;
mod framing;
mod grpc;
mod institutions;
mod messages;
mod metrics;
mod network;
mod outcome;
mod part;
mod payments;
mod reading;
mod refusals;
mod reports;
mod transactions;
mod turns;

use crate::access::{Gate, User};
use crate::references::References;
use crate::settings::{HttpSection, NoTls, Settings};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
pub use closed::refuse;
use etag::Tagged;
use failure::Failure;
use institutions::Register;
use metrics::Metrics;
use reading::Reading;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tally_ledger::Transaction;
use tally_ops::metrics::MetricError;
use tally_ops::shutdown::Shutdown;
use tally_settlement::desk::Settlement;
use tally_settlement::engine::Answer;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_rustls::rustls::ServerConfig;
use turns::{Turn, Turns};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// How long open requests may take once the network is asked to stop.
const GRACE: Duration = Duration::from_secs(10);
/// Questions that read the journal, at once; and of one institution.
const MAX_LOOKUPS: usize = 2;
const MAX_LOOKUPS_OF_ONE: usize = 1;
/// Questions at once that wait until what others told shows here; and of one institution.
const MAX_WAITS: usize = 128;
const MAX_WAITS_OF_ONE: usize = 32;
/// Requests at once that hold a thread until their payments are decided; and of one institution. The other threads are for
/// questions, and for streams.
const MAX_MAKING: usize = MAX_WAITING / 4;
const MAX_MAKING_OF_ONE: usize = MAX_MAKING / 2;
/// How long it may take to learn whether there is anything newer.
const CATCH_UP: Duration = Duration::from_secs(5);
/// Requests that wait for outcomes, at once.
const MAX_WAITING: usize = 256;

/// Transactions of one request that are few: to take them in takes the threads that pass bytes no longer than bytes do.
const FEW: usize = 8;
/// Bytes of all requests' bodies together, at once.
const MAX_BODIES: usize = 256 << 20;

/// The server could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener does not work.
    #[error("cannot listen")]
    Listen(#[source] io::Error),
    /// Others than this machine could reach it, and there is no TLS.
    #[error(transparent)]
    NoTls(#[from] NoTls),
    /// Threads cannot be started.
    #[error("cannot start the HTTP threads")]
    Threads(#[source] io::Error),
    /// A metric has a name that is taken.
    #[error(transparent)]
    Metrics(#[from] MetricError),
}

struct App {
    desk: Arc<dyn Settlement>,
    settings: Settings,
    metrics: Metrics,
    access: Arc<Gate>,
    register: Register,
    reading: Reading,
    references: References,
    lookups: Turns,
    waits: Turns,
    making: Turns,
    /// Memory for the bodies of requests, in bytes.
    bodies: Arc<Semaphore>,
    streams: grpc::Streams,
    /// Whether the server stops.
    stop: watch::Sender<bool>,
}

/// Who is at the other end of a connection, as far as TLS tells.
#[derive(Clone, Copy, Default)]
struct Peer {
    /// SHA-256 of the client's certificate, which was verified.
    certificate: Option<[u8; 32]>,
}

/// Answers on `listener` for `desk` until shutdown is requested and what was asked before is answered.
///
/// # Errors
/// When the listener is not on loopback and there is no TLS, or the runtime cannot be set up.
pub fn serve(
    listener: TcpListener,
    desk: Arc<impl Settlement + 'static>,
    settings: Settings,
    access: Arc<Gate>,
    references: References,
    shutdown: &Shutdown,
) -> Result<(), ServeError> {
    let endpoint = Endpoint::new(listener, &settings)?;
    let app = Arc::new(App {
        register: Register::new(desk.network(), &settings),
        reading: Reading::new(),
        desk,
        metrics: Metrics::new()?,
        access,
        references,
        lookups: Turns::new(MAX_LOOKUPS, MAX_LOOKUPS_OF_ONE),
        waits: Turns::new(MAX_WAITS, MAX_WAITS_OF_ONE),
        making: Turns::new(MAX_MAKING, MAX_MAKING_OF_ONE),
        bodies: Arc::new(Semaphore::new(MAX_BODIES.max(settings.http.max_body_bytes))),
        streams: grpc::Streams::default(),
        stop: watch::Sender::new(false),
        settings,
    });
    endpoint.serve(MAX_WAITING, router(Arc::clone(&app)), shutdown, &app.stop)
}

/// Where a server answers, and how connections are kept there.
struct Endpoint {
    listener: TcpListener,
    http: HttpSection,
    tls: Option<Arc<ServerConfig>>,
}

impl Endpoint {
    fn new(listener: TcpListener, settings: &Settings) -> Result<Self, ServeError> {
        settings.may_listen(listener.local_addr().map_err(ServeError::Listen)?)?;
        listener.set_nonblocking(true).map_err(ServeError::Listen)?;
        Ok(Self { listener, http: settings.http.clone(), tls: settings.tls.clone() })
    }

    /// Answers until shutdown is requested and what was asked before is answered, on that many threads for what blocks.
    fn serve(
        self,
        blocking: usize,
        router: Router,
        shutdown: &Shutdown,
        stop: &watch::Sender<bool>,
    ) -> Result<(), ServeError> {
        let Self { listener, http, tls } = self;
        // The stages have threads of their own; these only pass bytes. Dropping the runtime waits for requests
        // that still wait for outcomes, which is bounded.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // One more waits for the shutdown.
            .max_blocking_threads(blocking + 1)
            .thread_name("http")
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServeError::Threads)?;
        runtime.block_on(connection::serve(listener, router, &http, tls, shutdown.clone(), stop))
    }
}

/// The OpenAPI 3.1 document of what [`serve`] answers.
pub fn document() -> utoipa::openapi::OpenApi {
    routes().split_for_parts().1
}

fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(document::Document::openapi())
        .routes(routes!(messages::prepare))
        .routes(routes!(messages::submit))
        .routes(routes!(cancellation::cancel))
        .routes(routes!(payments::prepare))
        .routes(routes!(payments::submit))
        .routes(routes!(transactions::submit))
        .routes(routes!(transactions::status))
        .routes(routes!(transactions::receipt))
        .routes(routes!(transactions::proof))
        .routes(routes!(transactions::order))
        .routes(routes!(events::events))
        .routes(routes!(accounts::books))
        .routes(routes!(accounts::account))
        .routes(routes!(accounts::statement))
        .routes(routes!(reports::camt_053))
        .routes(routes!(reports::camt_054))
        .routes(routes!(institutions::institutions))
        .routes(routes!(institutions::institution))
        .routes(routes!(institutions::assets))
        .routes(routes!(institutions::asset))
        .routes(routes!(network::network))
        .routes(routes!(network::tree_head))
        .routes(routes!(network::consistency))
        .routes(routes!(network::health))
        .routes(routes!(network::ready))
        .routes(routes!(metrics::metrics))
}

fn router(app: Arc<App>) -> Router {
    let (routes, document) = routes().split_for_parts();
    let document = Tagged::new(document.to_json().expect("the document is plain data"));
    routes
        .route("/openapi.json", get(async move |headers: HeaderMap| document.answer(&headers)))
        .merge(grpc::routes())
        .fallback(grpc::nothing_here)
        .method_not_allowed_fallback(async || Failure::new(405, "method", "this path has another method"))
        .layer(middleware::from_fn(framing::check))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), count))
        .with_state(app)
}

async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.metrics.answered(response.status().as_u16());
    response
}

impl App {
    fn answer_timeout(&self) -> Duration {
        Duration::from_millis(self.settings.http.answer_timeout_ms)
    }

    /// Hands transactions in and waits for their outcomes, so long as an answer may take.
    fn make(&self, transactions: Vec<Transaction>) -> Result<Vec<Answer>, Failure> {
        let pending = self.desk.submit(transactions)?;
        Ok(self.desk.wait(&pending, self.answer_timeout()))
    }

    /// As [`Self::make`], for a few: no thread waits for their outcomes.
    async fn make_few(self: Arc<Self>, transactions: Vec<Transaction>) -> Result<Vec<Answer>, Failure> {
        let until = Instant::now() + self.answer_timeout();
        let pending = self.desk.submit(transactions)?;
        let told = std::future::poll_fn(|context| pending.poll(context));
        // Those that are not told by then are pending.
        let _ = tokio::time::timeout_at(until, told).await;
        if pending.needs_looking_up() {
            return blocking(self, move |app| {
                Ok(app.desk.wait(&pending, until.saturating_duration_since(Instant::now())))
            })
            .await;
        }
        Ok(self.desk.wait(&pending, Duration::ZERO))
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

/// As [`blocking`], for what reads the journal for that user: only so many at once, or questions would slow payments down.
async fn looking_up<T: Send + 'static>(
    app: Arc<App>,
    user: &User,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let turn = app.lookups.take(user, app.answer_timeout()).await?;
    in_turn(app, turn, work).await
}

/// As [`blocking`], for what may wait for others: only so many at once, or it would take the threads of payments.
async fn catching_up<T: Send + 'static>(
    app: Arc<App>,
    user: &User,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let turn = app.waits.take(user, app.answer_timeout()).await?;
    in_turn(app, turn, work).await
}

/// As [`blocking`], for what waits until payments are decided.
async fn making<T: Send + 'static>(
    app: Arc<App>,
    user: &User,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let turn = app.making.take(user, app.answer_timeout()).await?;
    in_turn(app, turn, work).await
}

/// The turn lasts as long as the work, also when nobody waits for it any more.
async fn in_turn<T: Send + 'static>(
    app: Arc<App>,
    turn: Turn,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    blocking(app, move |app| {
        let _turn = turn;
        work(app)
    })
    .await
}
