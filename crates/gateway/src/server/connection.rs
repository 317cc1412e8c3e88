//! Connections from accept to close: limits, TLS, HTTP/1.1, an orderly end.

use super::{GRACE, Peer, ServeError};
use crate::settings::HttpSection;
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tally_ops::shutdown::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// How long one connection is kept at most, so that a client that does not read its answers lets go.
const MAX_AGE: Duration = Duration::from_secs(300);
/// How long to rest when the system has no more file descriptors.
const REST: Duration = Duration::from_millis(50);

/// Serves `router` on `listener` until shutdown is requested and what was asked before is answered.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    http: &HttpSection,
    tls: Option<Arc<ServerConfig>>,
    shutdown: Shutdown,
) -> Result<(), ServeError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::Listen)?;
    let places = Arc::new(Semaphore::new(http.max_connections));
    let patience = Duration::from_millis(http.request_timeout_ms);
    let served =
        Served { service: TowerToHyperService::new(router), patience, tls: tls.map(TlsAcceptor::from) };
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(tokio::task::spawn_blocking(move || shutdown.wait()));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place.expect("the semaphore is never closed"),
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
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let (served, watcher) = (served.clone(), graceful.watcher());
        tokio::spawn(async move {
            // How a connection ended is its client's business.
            let _ = timeout(MAX_AGE, served.connection(stream, watcher)).await;
            drop(place);
        });
    }
    drop(listener);
    let _ = timeout(GRACE, graceful.shutdown()).await;
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
    async fn connection(self, stream: TcpStream, watcher: Watcher) {
        let _ = stream.set_nodelay(true);
        let Some(acceptor) = self.tls.clone() else {
            return self.http(stream, Peer::default(), watcher).await;
        };
        match timeout(self.patience, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates();
                let certificate =
                    chain.and_then(|chain| chain.first()).map(|first| crate::tls::fingerprint(first));
                self.http(stream, Peer { certificate }, watcher).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn http(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        watcher: Watcher,
    ) {
        let service = self.service;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            service.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.patience)
            .serve_connection(TokioIo::new(stream), service);
        let _ = watcher.watch(connection).await;
    }
}
