//! Connections from accept to close: limits, TLS, which version of HTTP, an orderly end.

use super::{GRACE, Peer, ServeError, descriptors};
use crate::settings::HttpSection;
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use std::io::{self, Cursor};
use std::net::TcpListener;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tally_ops::shutdown::Shutdown;
use tally_slots::{Slot, Slots};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// After how long a connection is closed that carries no stream of a user, so that a client that does not read its answers
/// lets go.
const MAX_AGE: Duration = Duration::from_secs(300);
/// How long to rest when the system has no more file descriptors.
const REST: Duration = Duration::from_millis(50);
/// How often it is said, at most, that connections are not accepted.
const SAY_AGAIN: Duration = Duration::from_secs(10);
/// How many connections may wait for being accepted.
const BACKLOG: i32 = 4096;
/// What the system keeps for a client that does not read, in bytes; it doubles it for its own needs.
const SYSTEM_BUFFER: usize = 256 << 10;
/// What a client over HTTP/2 sends first (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Requests and streams at once on one connection of HTTP/2.
const MAX_STREAMS: u32 = 64;
/// What one request, and one connection, may send ahead of being read, in bytes.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Answers that wait to be sent for one request, in bytes.
const SEND_BUFFER: usize = 128 << 10;
/// The most bytes of headers.
const MAX_HEADERS: u32 = 16 << 10;
/// How often a connection of HTTP/2 is asked whether its other end is there, and how long that may take.
const PING: Duration = Duration::from_secs(20);

/// What keeps a connection beyond its age: a stream holds it, upgraded, while a user sends transactions on it.
#[derive(Clone)]
pub(super) struct Lease(pub(super) Weak<()>);

/// Serves `router` on `listener` until shutdown is requested and what was asked before is answered. Everything that
/// listens to `stop` is told first.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    http: &HttpSection,
    tls: Option<Arc<ServerConfig>>,
    shutdown: Shutdown,
    stop: &watch::Sender<bool>,
) -> Result<(), ServeError> {
    let socket = socket2::SockRef::from(&listener);
    socket.listen(BACKLOG).map_err(ServeError::Listen)?;
    // Connections have the buffers of the socket that accepts them.
    socket.set_send_buffer_size(SYSTEM_BUFFER).map_err(ServeError::Listen)?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::Listen)?;
    let slots = Slots::new(descriptors::connections(http.max_connections));
    let patience = Duration::from_millis(http.request_timeout_ms);
    let served =
        Served { service: TowerToHyperService::new(router), patience, tls: tls.map(TlsAcceptor::from) };
    let mut asked = std::pin::pin!(tokio::task::spawn_blocking(move || shutdown.wait()));
    let mut said = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut asked => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, or the client left already: neither is a reason to stop.
                if said.is_none_or(|said: Instant| said.elapsed() > SAY_AGAIN) {
                    tracing::warn!(%error, "connections are not accepted");
                    said = Some(Instant::now());
                }
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let slot = tokio::select! {
            slot = slots.enter() => slot,
            _ = &mut asked => break,
        };
        let (served, stopped) = (served.clone(), stop.subscribe());
        tokio::spawn(async move {
            tokio::select! {
                () = slot.given_up() => tracing::debug!("a connection gave its slot up to a newcomer"),
                () = served.connection(stream, stopped, Arc::clone(&slot)) => {}
            }
        });
    }
    drop(listener);
    stop.send_replace(true);
    // Each connection listens until it has ended.
    let _ = timeout(GRACE, stop.closed()).await;
    Ok(())
}

#[derive(Clone)]
struct Served {
    service: TowerToHyperService<Router>,
    /// For a handshake, and for a request's head.
    patience: Duration,
    tls: Option<TlsAcceptor>,
}

impl Served {
    async fn connection(self, stream: TcpStream, stop: watch::Receiver<bool>, slot: Arc<Slot>) {
        let _ = stream.set_nodelay(true);
        let Some(acceptor) = self.tls.clone() else {
            return self.plain(stream, stop, slot).await;
        };
        match timeout(self.patience, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                let first = session.peer_certificates().and_then(|chain| chain.first());
                let certificate = first.map(|first| crate::tls::fingerprint(first));
                let is_http2 = session.alpn_protocol() == Some(b"h2");
                self.http(stream, is_http2, Peer { certificate }, stop, slot).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    /// Without TLS nobody says beforehand which version it is: the first bytes do.
    async fn plain(self, mut stream: TcpStream, stop: watch::Receiver<bool>, slot: Arc<Slot>) {
        let Ok(Ok(first)) = timeout(self.patience, first_bytes(&mut stream)).await else { return };
        let is_http2 = first == PREFACE;
        let (read, write) = stream.into_split();
        let stream = tokio::io::join(Cursor::new(first).chain(read), write);
        self.http(stream, is_http2, Peer::default(), stop, slot).await;
    }

    async fn http(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_http2: bool,
        peer: Peer,
        stop: watch::Receiver<bool>,
        slot: Arc<Slot>,
    ) {
        let (service, lease) = (self.service, Arc::new(()));
        let offered = Lease(Arc::downgrade(&lease));
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(offered.clone());
            request.extensions_mut().insert(Arc::clone(&slot));
            let (slot, answer) = (Arc::clone(&slot), service.call(request));
            async move {
                // The answer is read at the client's pace.
                let _working = slot.working().await;
                answer.await
            }
        });
        let stream = TokioIo::new(stream);
        if is_http2 {
            let connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_send_buf_size(SEND_BUFFER)
                .max_header_list_size(MAX_HEADERS)
                .keep_alive_interval(PING)
                .keep_alive_timeout(PING)
                .serve_connection(stream, service);
            to_end(connection, &lease, stop).await;
        } else {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.patience)
                .serve_connection(stream, service);
            to_end(connection, &lease, stop).await;
        }
    }
}

/// What a client sends first: as many bytes as tell whether it is [`PREFACE`].
async fn first_bytes(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut first = [0; PREFACE.len()];
    let mut length = 0;
    while length < first.len() && first.starts_with(&PREFACE[..length]) {
        match stream.read(&mut first[length..]).await? {
            0 => break,
            count => length += count,
        }
    }
    Ok(first[..length].to_vec())
}

/// Drives a connection until it ends, is too old, or is asked to stop; how it ended is its client's business.
async fn to_end(connection: impl GracefulConnection, lease: &Arc<()>, mut stop: watch::Receiver<bool>) {
    let mut connection = std::pin::pin!(connection);
    let (mut until, mut ends) = (Instant::now() + MAX_AGE, false);
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stop.wait_for(|stop| *stop), if !ends => {}
            () = sleep_until(until) => {
                if ends {
                    return;
                }
                if Arc::strong_count(lease) > 1 {
                    until = Instant::now() + MAX_AGE;
                    continue;
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        (until, ends) = (Instant::now() + GRACE, true);
    }
}
