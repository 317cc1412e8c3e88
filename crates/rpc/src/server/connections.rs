//! Connections from accept to close: limits, TLS, HTTP/2, an orderly end.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tally_ops::connections::{Place, Places};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tonic::body::Body;

use super::dispatch::{Answer, Routes};
use super::figures::{Figures, Present, count};
use super::settings::Settings;
use super::stopping::Stopping;
use crate::refusal::{Refusal, RefusalCode};
use crate::service::NodeService;

/// Connections beyond the limit that are accepted in order to say so.
const REFUSED_AT_ONCE: usize = 16;
/// How long such a connection may stay.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// How long to wait when the system has no more file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// What one call, and one connection, may send ahead of being read, in bytes.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
const HEADERS_LIMIT: u32 = 16 * 1024;

pub(super) struct Connections<N: NodeService> {
    shared: Arc<Shared<N>>,
    tasks: JoinSet<()>,
}

struct Shared<N: NodeService> {
    acceptor: TlsAcceptor,
    routes: Routes<N>,
    http: http2::Builder<TokioExecutor>,
    handshake_limit: Duration,
    login_limit: Duration,
    places: Places,
    refusals: Arc<Semaphore>,
    limit: usize,
    figures: Arc<Figures>,
    stopping: Stopping,
}

/// Whether a connection has a place, and the place.
enum Admission {
    Served {
        place: Arc<Place>,
        /// Another needs the place.
        wanted: Arc<Notify>,
    },
    Refused {
        _permit: OwnedSemaphorePermit,
    },
}

impl<N: NodeService> Connections<N> {
    pub(super) fn new(
        tls: Arc<ServerConfig>,
        routes: Routes<N>,
        settings: &Settings,
        figures: Arc<Figures>,
        stopping: Stopping,
    ) -> Self {
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .auto_date_header(false)
            .max_concurrent_streams(settings.streams_per_connection)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS_LIMIT)
            .keep_alive_interval(settings.ping_every)
            .keep_alive_timeout(settings.ping_every);
        let shared = Shared {
            acceptor: TlsAcceptor::from(tls),
            routes,
            http,
            handshake_limit: settings.handshake_limit,
            login_limit: settings.login_limit,
            places: Places::new(settings.connections, settings.strangers_per_address),
            refusals: Arc::new(Semaphore::new(REFUSED_AT_ONCE)),
            limit: settings.connections,
            figures,
            stopping,
        };
        Self { shared: Arc::new(shared), tasks: JoinSet::new() }
    }

    pub(super) async fn accept(&mut self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => return,
                // Ended connections are taken off the list as they end.
                Some(_) = self.tasks.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => match self.shared.admit(peer) {
                    Some(admission) => {
                        let shared = self.shared.clone();
                        self.tasks.spawn(shared.connection(stream, peer, admission));
                    }
                    // Too many even to say so: closing is all that is left.
                    None => drop(stream),
                },
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept RPC connections");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    pub(super) async fn drain(mut self, limit: Duration) {
        let ended = timeout(limit, async { while self.tasks.join_next().await.is_some() {} });
        if ended.await.is_err() {
            tracing::warn!(
                connections = self.tasks.len(),
                "closing RPC connections whose calls have not ended"
            );
            self.tasks.shutdown().await;
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

impl<N: NodeService> Shared<N> {
    fn admit(&self, peer: SocketAddr) -> Option<Admission> {
        let wanted = Arc::new(Notify::new());
        let close = wanted.clone();
        if let Some(entered) = self.places.enter(peer.ip(), move || close.notify_one()) {
            if entered.evicted {
                count(&self.figures.connections_refused);
            }
            return Some(Admission::Served { place: Arc::new(entered.place), wanted });
        }
        count(&self.figures.connections_refused);
        self.refusals.clone().try_acquire_owned().ok().map(|permit| Admission::Refused { _permit: permit })
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, admission: Admission) {
        let _present = Present::new(&self.figures);
        match admission {
            Admission::Refused { .. } => self.talk(stream, peer, None).await,
            Admission::Served { place, wanted } => tokio::select! {
                () = self.talk(stream, peer, Some(place)) => {}
                () = wanted.notified() => {
                    tracing::debug!(%peer, "a connection without a login was closed for a newer one");
                }
            },
        }
    }

    /// Serves a connection, or refuses its calls when it has no place.
    async fn talk(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, place: Option<Arc<Place>>) {
        // Answers are small and wanted at once. Failing to set it costs time, nothing else.
        let _ = stream.set_nodelay(true);
        let stream = match timeout(self.handshake_limit, self.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => return tracing::debug!(%peer, "TLS handshake took too long"),
        };
        let refused = place.is_none();
        let calls = Calls { shared: self.clone(), peer, place: place.clone() };
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(stream), calls));
        let mut patience = pin!(sleep(if refused { REFUSED_FOR } else { self.login_limit }));
        let mut is_known = false;
        let mut stopped = self.stopping.stopped();
        let mut closing = false;
        loop {
            tokio::select! {
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%peer, %error, "RPC connection failed");
                    }
                    return;
                }
                () = &mut stopped, if !closing => {
                    closing = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = &mut patience, if !is_known => {
                    is_known = place.as_ref().is_some_and(|place| place.is_known());
                    if !is_known {
                        return;
                    }
                }
            }
        }
    }
}

/// The calls of one connection.
struct Calls<N: NodeService> {
    shared: Arc<Shared<N>>,
    peer: SocketAddr,
    /// `None` when its calls are refused.
    place: Option<Arc<Place>>,
}

impl<N: NodeService> hyper::service::Service<Request<Incoming>> for Calls<N> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, mut request: Request<Incoming>) -> Answer {
        let Some(place) = &self.place else {
            return Answer::refused(Refusal::new(
                RefusalCode::ConnectionsExceeded,
                format!(
                    "the node has {} connections, as many as it takes; close some or try later",
                    self.shared.limit
                ),
            ));
        };
        place.is_active();
        // Whoever verifies the call's token says that the connection is known.
        request.extensions_mut().insert(place.clone());
        count(&self.shared.figures.calls);
        self.shared.routes.answer(self.peer, request)
    }
}
