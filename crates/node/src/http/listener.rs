//! Connections to the node's HTTP server: few at once, and none for long, since anybody may open one.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tally_ops::connections::{Place, Places};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// How long to rest when the system has no more file descriptors.
const REST: Duration = Duration::from_millis(50);

/// What the connections of the HTTP server are limited to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once; one more closes the oldest.
    pub(crate) connections: usize,
    /// Connections at once from one address; one more closes the oldest of them.
    pub(crate) of_address: usize,
    /// How long a client may say nothing, and not read what it was answered.
    pub(crate) silence: Duration,
    /// How long a connection may be open.
    pub(crate) age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            of_address: 16,
            silence: Duration::from_secs(10),
            age: Duration::from_secs(60),
        }
    }
}

/// Accepts connections and gives each its place.
pub(super) struct Limited {
    listener: TcpListener,
    places: Places,
    limits: Limits,
}

impl Limited {
    pub(super) fn new(listener: TcpListener, limits: Limits) -> Self {
        Self { listener, places: Places::new(limits.connections, limits.of_address), limits }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, address) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection to the HTTP server is not accepted");
                    sleep(REST).await;
                    continue;
                }
            };
            let (close, wanted) = oneshot::channel();
            let entered = self.places.enter(address.ip(), move || {
                let _ = close.send(());
            });
            // Nobody is known here, so that there always is a place.
            let Some(entered) = entered else { continue };
            let now = Instant::now();
            let connection = Connection {
                stream,
                _place: entered.place,
                wanted,
                silence: self.limits.silence,
                until: now + self.limits.age,
                patience: Box::pin(sleep_until(now + self.limits.silence.min(self.limits.age))),
            };
            return (connection, address);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when its client is silent for too long, when it is too old, or when another needs its place.
pub(super) struct Connection {
    stream: TcpStream,
    _place: Place,
    wanted: oneshot::Receiver<()>,
    silence: Duration,
    until: Instant,
    /// When the client has to have said or read something.
    patience: Pin<Box<Sleep>>,
}

impl Connection {
    /// What came of reading or writing, or why it comes no more.
    fn bounded<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if Pin::new(&mut self.wanted).poll(context).is_ready() {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "another needs the place",
            )));
        }
        if done.is_ready() {
            let next = (Instant::now() + self.silence).min(self.until);
            self.patience.as_mut().reset(next);
            return done;
        }
        match self.patience.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.bounded(context, done)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
