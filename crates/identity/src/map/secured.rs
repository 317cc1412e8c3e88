//! Connections to a network map service over TLS.

use super::MapError;
use crate::files::{self, Access};
use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes at once; one more is refused.
const HANDSHAKES: usize = 256;
/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to rest when the system has no more file descriptors.
const REST: Duration = Duration::from_millis(50);
const MAX_FILE_BYTES: usize = 64 * 1024;

/// The certificates and the key (PEM) with which a service shows who it is. The key's file is its owner's alone.
pub(super) fn configuration(certificates: &Path, key: &Path) -> Result<Arc<ServerConfig>, MapError> {
    let refuse = |path: &Path, reason: String| MapError::Tls { path: path.into(), reason };
    let text = files::read(certificates, MAX_FILE_BYTES, Access::Public)?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| refuse(certificates, error.to_string()))?;
    let secret = zeroize::Zeroizing::new(files::read(key, MAX_FILE_BYTES, Access::Private)?);
    let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(|error| refuse(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
    configuration.map(Arc::new).map_err(|error| refuse(certificates, error.to_string()))
}

/// Accepts connections. Handshakes go on beside each other, so that a slow one keeps nobody waiting.
pub(super) struct Secured {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    accepting: JoinHandle<()>,
}

impl Secured {
    pub(super) fn new(listener: TcpListener, tls: Arc<ServerConfig>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(HANDSHAKES);
        let accepting = tokio::spawn(accept(listener, TlsAcceptor::from(tls), sender));
        Ok(Self { address, ready, accepting })
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    ready: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            sleep(REST).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (acceptor, ready) = (acceptor.clone(), ready.clone());
        tokio::spawn(async move {
            let _place = place;
            // Who does not come through is nobody, and is told nothing.
            if let Ok(Ok(stream)) = timeout(PATIENCE, acceptor.accept(stream)).await {
                let _ = ready.send((stream, address)).await;
            }
        });
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // The task that accepts ends with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
