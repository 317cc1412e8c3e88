//! The server: HTTP/1.1 with keep-alive and pipelining, and WebSocket, in front of a [`Registry`] of methods.
//!
//! Cheap methods run where the request was read; costly ones on a bounded [`pool`], which refuses with
//! -32005 when too many wait, and is told when a client has gone or its time is up. A stream of an answer
//! leaves while it is made; all other answers together have a share of memory. Nothing that a client
//! sends is held without a bound: heads, bodies, batches, answers, calls under way, subscriptions and what
//! a slow reader has not read yet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::watch;

pub mod access;
mod answer;
pub mod authentication;
pub mod configuration;
mod connection;
mod http;
mod listener;
mod meters;
pub mod pool;
mod rate;
mod reader;
pub mod registry;
mod share;
mod stream;
pub mod subscription;
mod websocket;

#[cfg(test)]
mod tests;

pub use access::{Hosts, Origins};
pub use authentication::{Authenticator, Permissions};
pub use configuration::{Endpoint, Limits, Listen, Namespaces, Options};
pub use registry::{CallContext, Lane, Place, Registry, Tracing};
pub use subscription::{Sink, Subscriptions};

use connection::{Pools, Service, Shares};
use listener::Listener;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address cannot be listened on.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address.
        listen: Listen,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Threads cannot be started.
    #[error("cannot start the threads of the server")]
    Threads(#[source] std::io::Error),
    /// A meter cannot be made.
    #[error(transparent)]
    Meter(#[from] tally_ops::metrics::MetricError),
}

/// A running server. It ends when dropped; [`Server::stop`] lets calls under way finish first.
#[derive(Debug)]
pub struct Server {
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    addresses: Vec<SocketAddr>,
    services: Vec<Arc<Service>>,
}

impl Server {
    /// Listens on all endpoints and answers on threads of its own.
    ///
    /// # Errors
    /// [`ServerError`] when an address is taken or threads cannot be started; then nothing is left running.
    pub fn start(
        endpoints: Vec<Endpoint>,
        registry: Registry,
        options: &Options,
        metrics: &tally_ops::metrics::Registry,
    ) -> Result<Self, ServerError> {
        let pool =
            |threads| pool::Pool::new(threads, options.queue).map(Arc::new).map_err(ServerError::Threads);
        let pools = Pools { work: pool(options.workers)?, wait: pool(options.waiters)? };
        let meters = meters::Meters::new(metrics, registry.names())?;
        let shares = Shares {
            answers: share::Share::new(options.held_bytes, meters.answer_bytes.clone()),
            traces: share::Gate::new(options.traces, meters.traces.clone(), meters.refused_traces.clone()),
        };
        let around = (pools, shares);
        let registry = Arc::new(registry);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name("jsonrpc")
            .enable_all()
            .build()
            .map_err(ServerError::Threads)?;
        let (stop, stopped) = watch::channel(false);
        let mut addresses = Vec::new();
        let mut services = Vec::new();
        let _inside = runtime.enter();
        for endpoint in endpoints {
            let listen = endpoint.listen.clone();
            let (listener, address) = Listener::bind(&listen)
                .map_err(|source| ServerError::Listen { listen: listen.clone(), source })?;
            addresses.extend(address);
            let service = Service::new(endpoint, registry.clone(), around.clone(), meters.clone(), options);
            services.push(service.clone());
            runtime.spawn(connection::accept(listener, service, stopped.clone()));
        }
        drop(_inside);
        Ok(Self { runtime: Some(runtime), stop, addresses, services })
    }

    /// Where it listens, in the order of the endpoints that have an address; the port is the one chosen where 0 was asked for.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Accepts nothing more, lets calls under way finish for at most `patience`, and ends. Once this returns, nothing of the
    /// server holds what its methods hold, unless a call has not ended in time.
    pub fn stop(mut self, patience: Duration) {
        self.stop.send_replace(true);
        let until = std::time::Instant::now() + patience;
        while std::time::Instant::now() < until && self.services.iter().any(|service| service.open() > 0) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(until.saturating_duration_since(std::time::Instant::now()).max(LEAST));
        }
    }

    fn end(&mut self) {
        self.stop.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// For ending tasks that only have to be dropped.
const LEAST: Duration = Duration::from_secs(1);

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
